"""What AOTAutograd takes apart before anything is lowered: PyTorch's own decompositions of what isn't core, and ours of operators for which it has none."""

import math

import torch
from torch._decomp import core_aten_decompositions, get_decompositions

from .adjoints import adjoints
from .foreach import of_lists
from .ordered import of_orders
from .places import of_places_computed
from .resampling import of_places
from .rounding import of_rounding

aten = torch.ops.aten


def decompositions():
    table = dict(core_aten_decompositions())
    table.update(get_decompositions([
        aten.native_batch_norm, aten.native_batch_norm_backward, aten.native_layer_norm_backward, aten.native_group_norm_backward,
        aten.embedding_dense_backward, aten._softmax_backward_data, aten._log_softmax_backward_data, aten.gelu_backward,
        aten.silu_backward, aten.hardswish_backward, aten.hardtanh_backward, aten.hardsigmoid_backward, aten.sigmoid_backward,
        aten.tanh_backward, aten.nll_loss_forward, aten.mse_loss, aten.mse_loss_backward, aten.addmm_,
        aten.slice_backward, aten.select_backward, aten._native_batch_norm_legit, aten.native_dropout_backward, aten.elu_backward,
        aten.leaky_relu_backward, aten.softplus_backward, aten.binary_cross_entropy, aten.binary_cross_entropy_backward,
        aten.smooth_l1_loss, aten.smooth_l1_loss_backward, aten.avg_pool2d_backward, aten.upsample_nearest2d_backward,
    ]))  # fmt: skip
    for loss in (aten.nll_loss_backward, aten.nll_loss2d_backward):  # losses.py
        table.pop(loss.default, None)
    return without_writes(table) | ours()


def without_writes(table):
    """But for writes at indices, which PyTorch would make by one another, though they differ in whether they take negative indices."""
    whole = aten.index_add.default, aten.index_copy.default, aten.index_fill.int_Scalar, aten.index_fill.int_Tensor
    return {operator: parts for operator, parts in table.items() if operator not in whole}


def ours():
    return {
        aten._native_multi_head_attention.default: _attention,
        aten._transformer_encoder_layer_fwd.default: _encoder_layer,
        aten._trilinear.default: _trilinear,
        **adjoints(),
        **of_lists(),
        aten.rrelu_with_noise_functional.default: _leaky,
        **get_decompositions([aten.dist, aten.ldexp, aten.tril_indices, aten.triu_indices]),
        **of_orders(),
        **of_places(),
        **of_places_computed(),
        **of_rounding(),
    }


def _leaky(x, noise, lower=0.125, upper=1 / 3, training=False, generator=None):
    """Where slopes are drawn, eager draws one for each element below zero alone."""
    if training:
        return NotImplemented
    return torch.nn.functional.leaky_relu(x, (lower + upper) / 2), noise


def _trilinear(a, b, c, expand1, expand2, expand3, sumdim, unroll_dim=1):
    """The sum of a product of three along some dimensions, after each has got those of size 1 that it lacks."""
    for axes, i in ((expand1, 0), (expand2, 1), (expand3, 2)):
        for axis in axes:
            a, b, c = (x.unsqueeze(axis) if i == place else x for place, x in enumerate((a, b, c)))
    return (a * b * c).sum(sumdim)


# The two operators that modules of attention call in evaluation mode where no gradient is taken.


def _hidden(mask, kind):
    """Which pairs of query and key are hidden, to be broadcast to [batch, heads, queries, keys]: the kinds are of queries and keys, of batch
    and keys, and of all four. Any number but 0 hides."""
    mask = mask if mask.dtype == torch.bool else mask != 0
    return mask[None, None] if kind == 0 else mask[:, None, None] if kind == 1 else mask


def _attention(
    query, key, value, width, heads, weight, bias, last_weight, last_bias, mask=None, need_weights=True, average_attn_weights=True, mask_type=None
):
    parts = zip((query, key, value), weight.chunk(3), bias.chunk(3))
    q, k, v = (torch.nn.functional.linear(x, w, b).unflatten(-1, (heads, width // heads)).transpose(1, 2) for x, w, b in parts)
    scores = q @ k.transpose(-1, -2) / math.sqrt(width // heads)
    if mask is not None:
        scores = scores.masked_fill(_hidden(mask, mask_type), -math.inf)
    weights = scores.softmax(-1)
    result = torch.nn.functional.linear((weights @ v).transpose(1, 2).flatten(2), last_weight, last_bias)
    if not need_weights:
        return result, None
    return result, weights.mean(1) if average_attn_weights else weights


def _encoder_layer(
    x, width, heads, weight, bias, last_weight, last_bias, use_gelu, norm_first, eps, norm_weight, norm_bias, other_norm_weight, other_norm_bias,
    in_weight, in_bias, out_weight, out_bias, mask=None, mask_type=None,
):  # fmt: skip
    functional = torch.nn.functional

    def attended(y):
        return _attention(y, y, y, width, heads, weight, bias, last_weight, last_bias, mask, False, True, mask_type)[0]

    def fed(y):
        y = functional.linear(y, in_weight, in_bias)
        return functional.linear(functional.gelu(y) if use_gelu else functional.relu(y), out_weight, out_bias)

    def first(y):
        return functional.layer_norm(y, (width,), norm_weight, norm_bias, eps)

    def second(y):
        return functional.layer_norm(y, (width,), other_norm_weight, other_norm_bias, eps)

    if norm_first:
        x = x + attended(first(x))
        return x + fed(second(x))
    x = first(x + attended(x))
    return second(x + fed(x))

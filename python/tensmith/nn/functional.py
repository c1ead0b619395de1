"""What layers compute, as functions of tensors; arguments and defaults are PyTorch's.

Convolutions and pools are operators of the graph, compiled once for each structure; everything else is made of the operations of
`tensmith.numpy`, and is fused where it is recorded.
"""

import math

from .. import _eager
from .. import numpy as tnp
from ..numpy import creation
from ..numpy.manipulation import check_labels
from ..recorded.operators import operator
from .random import generator as _stream


def _number(value, x):
    return _eager.full([], value, x.dtype)


# ---- activations


def relu(x):
    return tnp.maximum(x, 0)


def relu6(x):
    return tnp.minimum(tnp.maximum(x, 0), 6)


def leaky_relu(x, negative_slope=0.01):
    return tnp.where(x > 0, x, x * negative_slope)


def elu(x, alpha=1.0):
    return tnp.where(x > 0, x, tnp.expm1(tnp.minimum(x, 0)) * alpha)


def selu(x):
    """Klambauer and others, NeurIPS 2017."""
    return elu(x, 1.6732632423543772) * 1.0507009873554805


def celu(x, alpha=1.0):
    return tnp.where(x > 0, x, tnp.expm1(tnp.minimum(x, 0) / alpha) * alpha)


def gelu(x, approximate="none"):
    if approximate == "tanh":
        return x * 0.5 * (tnp.tanh((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)) + 1)
    return x * 0.5 * (tnp.erf(x * math.sqrt(0.5)) + 1)


def silu(x):
    return x * tnp.sigmoid(x)


def mish(x):
    return x * tnp.tanh(softplus(x))


def softplus(x, beta=1.0, threshold=20.0):
    scaled = x * beta
    return tnp.where(scaled > threshold, x, (tnp.maximum(scaled, 0) + tnp.log1p(tnp.exp(-tnp.abs(scaled)))) / beta)


def logsigmoid(x):
    return tnp.minimum(x, 0) - tnp.log1p(tnp.exp(-tnp.abs(x)))


def hardtanh(x, min_val=-1.0, max_val=1.0):
    return tnp.minimum(tnp.maximum(x, min_val), max_val)


def hardsigmoid(x):
    return relu6(x + 3) / 6


def hardswish(x):
    return x * hardsigmoid(x)


def softsign(x):
    return x / (tnp.abs(x) + 1)


def prelu(x, weight):
    weight = tnp.reshape(weight, (-1,) + (1,) * (x.ndim - 2)) if weight.size > 1 and x.ndim > 1 else weight
    return tnp.where(x > 0, x, x * weight)


def glu(x, dim=-1):
    half = x.shape[dim] // 2
    before = (slice(None),) * (dim % x.ndim)
    return x[before + (slice(None, half),)] * tnp.sigmoid(x[before + (slice(half, None),)])


def softmax(x, dim=-1):
    away = tnp.exp(x - tnp.max(x, axis=dim, keepdims=True))
    return away / tnp.sum(away, axis=dim, keepdims=True)


def log_softmax(x, dim=-1):
    away = x - tnp.max(x, axis=dim, keepdims=True)
    return away - tnp.log(tnp.sum(tnp.exp(away), axis=dim, keepdims=True))


# ---- products and windows


def linear(x, weight, bias=None):
    result = x @ weight.T
    return result if bias is None else result + bias


def _spread(value, rank):
    return [value] * rank if isinstance(value, int) else list(value)


def _windows(x, kernel, stride, padding, dilation, ceil=False):
    """Sizes of a result along the windows' dimensions."""
    sizes = []
    for size, taps, by, pad, apart in zip(x.shape[2:], kernel, stride, padding, dilation):
        room = size + 2 * pad - apart * (taps - 1) - 1
        if room < 0:
            raise ValueError(f"a window of {apart * (taps - 1) + 1} does not fit into {size + 2 * pad} places, padding included")
        count = (-(-room // by) if ceil else room // by) + 1
        sizes.append(count - 1 if ceil and (count - 1) * by >= size + pad else count)
    return sizes


def _image(x, rank, what):
    if x.ndim not in (rank + 1, rank + 2):
        raise ValueError(f"{what} of {rank} dimensions takes a tensor of {rank + 2}, or of {rank + 1} without a batch, not of {x.ndim}")
    return x[None] if x.ndim == rank + 1 else x


def conv(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Of one, two or three dimensions, by the weight's."""
    rank = weight.ndim - 2
    image = _image(x, rank, "a convolution")
    stride, dilation = _spread(stride, rank), _spread(dilation, rank)
    if padding == "same":
        total = [apart * (taps - 1) for apart, taps in zip(dilation, weight.shape[2:])]
        if any(by != 1 for by in stride) or any(each % 2 for each in total):
            raise ValueError("padding 'same' is of stride 1, and of windows of odd sizes")
        padding = [each // 2 for each in total]
    padding = [0] * rank if padding == "valid" else _spread(padding, rank)
    if image.shape[1] != weight.shape[1] * groups:
        raise ValueError(f"the weights take {weight.shape[1] * groups} channels, and the tensor has {image.shape[1]}")
    shape = [image.shape[0], weight.shape[0], *_windows(image, weight.shape[2:], stride, padding, dilation)]
    (result,) = operator("conv", [image, weight, bias], [(image.dtype, shape)], fixed=[1], strides=stride, pads=padding * 2, dilations=dilation, group=groups)
    return result if x.ndim == rank + 2 else result[0]


conv1d = conv2d = conv3d = conv


def conv_transpose(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    rank = weight.ndim - 2
    image = _image(x, rank, "a transposed convolution")
    stride, padding, extra, dilation = (_spread(each, rank) for each in (stride, padding, output_padding, dilation))
    shape = [image.shape[0], weight.shape[1] * groups]
    for size, by, pad, more, apart, taps in zip(image.shape[2:], stride, padding, extra, dilation, weight.shape[2:]):
        shape.append((size - 1) * by - 2 * pad + apart * (taps - 1) + more + 1)
    (result,) = operator("conv_transpose", [image, weight, bias], [(image.dtype, shape)], fixed=[1], strides=stride, pads=padding * 2,
                         dilations=dilation, output_padding=extra, group=groups)  # fmt: skip
    return result if x.ndim == rank + 2 else result[0]


conv_transpose1d = conv_transpose2d = conv_transpose3d = conv_transpose


def _pool(name, x, rank, kernel_size, stride, padding, dilation, ceil_mode, **more):
    kernel = _spread(kernel_size, rank)
    stride = kernel if stride is None else _spread(stride, rank)
    padding, dilation = _spread(padding, rank), _spread(dilation, rank)
    image = _image(x, rank, "a pool")
    shape = [*image.shape[:2], *_windows(image, kernel, stride, padding, dilation, ceil_mode)]
    (result,) = operator(name, [image], [(image.dtype, shape)], flags="ceil_mode count_include_pad", kernel=kernel, strides=stride,
                         pads=padding * 2, dilations=dilation, ceil_mode=bool(ceil_mode), **more)  # fmt: skip
    return result if x.ndim == rank + 2 else result[0]


def max_pool(x, rank, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    return _pool("max_pool", x, rank, kernel_size, stride, padding, dilation, ceil_mode)


def avg_pool(x, rank, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    return _pool("average_pool", x, rank, kernel_size, stride, padding, 1, ceil_mode, count_include_pad=bool(count_include_pad))


def _of_rank(function, rank):
    def pool(x, *arguments, **named):
        return function(x, rank, *arguments, **named)

    pool.__name__ = f"{function.__name__}{rank}d"
    return pool


max_pool1d, max_pool2d, max_pool3d = (_of_rank(max_pool, rank) for rank in (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = (_of_rank(avg_pool, rank) for rank in (1, 2, 3))


def adaptive_avg_pool(x, output_size, rank):
    """Means of as many parts of each dimension as are asked for; parts may overlap by one."""
    sizes = _spread(output_size, rank)
    for axis, count in zip(range(x.ndim - rank, x.ndim), sizes):
        size = x.shape[axis]
        before = (slice(None),) * axis
        parts = [x[before + (slice(i * size // count, -((-(i + 1) * size) // count)),)] for i in range(count)]
        means = [tnp.mean(part, axis=axis, keepdims=True) for part in parts]
        x = means[0] if count == 1 else tnp.concat(means, axis=axis)
    return x


# ---- normalisation


def _normalised(x, axes, eps):
    mean = tnp.mean(x, axis=axes, keepdims=True)
    away = x - mean
    variance = tnp.mean(away * away, axis=axes, keepdims=True)
    return away / tnp.sqrt(variance + eps), mean, variance


def _scaled(x, weight, bias, shape):
    if weight is not None:
        x = x * tnp.reshape(weight, shape)
    return x if bias is None else x + tnp.reshape(bias, shape)


def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if x.shape[x.ndim - len(normalized_shape) :] != normalized_shape:
        raise ValueError(f"layer_norm is over {normalized_shape}, and the tensor ends in {x.shape[x.ndim - len(normalized_shape):]}")
    result = _normalised(x, tuple(range(x.ndim - len(normalized_shape), x.ndim)), eps)[0]
    return _scaled(result, weight, bias, normalized_shape)


def rms_norm(x, normalized_shape, weight=None, eps=None):
    normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    eps = tnp.finfo(x.dtype).eps if eps is None else eps
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    return _scaled(x / tnp.sqrt(tnp.mean(x * x, axis=axes, keepdims=True) + eps), weight, None, normalized_shape)


def batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """In training by the batch's own statistics, which the running ones, changed in place, take a share of."""
    shape = (1, x.shape[1]) + (1,) * (x.ndim - 2)
    if not training and running_mean is not None:
        result = (x - tnp.reshape(running_mean, shape)) / tnp.sqrt(tnp.reshape(running_var, shape) + eps)
        return _scaled(result, weight, bias, shape)
    axes = (0, *range(2, x.ndim))
    result, mean, variance = _normalised(x, axes, eps)
    count = x.size // x.shape[1]
    if training and running_mean is not None:
        if count < 2:
            raise ValueError("batch_norm takes more than one number of each channel in training")
        for running, value in ((running_mean, mean), (running_var, variance * (count / (count - 1)))):
            running[...] = running * (1 - momentum) + tnp.reshape(value, (-1,)) * momentum
    return _scaled(result, weight, bias, shape)


def group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    if x.shape[1] % num_groups:
        raise ValueError(f"{x.shape[1]} channels are not {num_groups} groups of one size")
    groups = tnp.reshape(x, (x.shape[0], num_groups, -1))
    result = tnp.reshape(_normalised(groups, (2,), eps)[0], x.shape)
    return _scaled(result, weight, bias, (1, x.shape[1]) + (1,) * (x.ndim - 2))


def instance_norm(x, weight=None, bias=None, eps=1e-5):
    return group_norm(x, x.shape[1], weight, bias, eps)


def normalize(x, p=2.0, dim=1, eps=1e-12):
    size = tnp.sum(tnp.abs(x) ** p, axis=dim, keepdims=True) ** (1 / p)
    return x / tnp.maximum(size, eps)


# ---- choices


def dropout(x, p=0.5, training=True, generator=None):
    if not 0 <= p <= 1:
        raise ValueError(f"dropout's probability is between 0 and 1, not {p}")
    if not training or p == 0:
        return x
    if p == 1:
        return x * 0
    keep = _stream(generator).uniform(x.shape, dtype=tnp.float32) >= p
    return tnp.where(keep, x * (1 / (1 - p)), _number(0, x))


def embedding(indices, weight):
    return weight[indices]


def one_hot(indices, num_classes=-1):
    classes = int(tnp.max(indices)) + 1 if num_classes == -1 else num_classes
    return tnp.astype(indices[..., None] == creation.arange(classes), tnp.int64)


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query * scale) @ tnp.matrix_transpose(key)
    if is_causal:
        attn_mask = tnp.tril(creation.ones(scores.shape[-2:], dtype=tnp.bool))
    if attn_mask is not None:
        if attn_mask.dtype == tnp.bool:
            scores = tnp.where(attn_mask, scores, _number(-math.inf, scores))
        else:
            scores = scores + attn_mask
    return dropout(softmax(scores), dropout_p, dropout_p > 0) @ value


# ---- losses


def reduced(losses, reduction):
    if reduction == "none":
        return losses
    if reduction not in ("mean", "sum"):
        raise ValueError(f"a reduction is 'mean', 'sum' or 'none', not {reduction!r}")
    return tnp.mean(losses) if reduction == "mean" else tnp.sum(losses)


def mse_loss(x, target, reduction="mean"):
    away = x - target
    return reduced(away * away, reduction)


def l1_loss(x, target, reduction="mean"):
    return reduced(tnp.abs(x - target), reduction)


def smooth_l1_loss(x, target, reduction="mean", beta=1.0):
    away = tnp.abs(x - target)
    return reduced(away if beta == 0 else tnp.where(away < beta, away * away * (0.5 / beta), away - 0.5 * beta), reduction)


def huber_loss(x, target, reduction="mean", delta=1.0):
    away = tnp.abs(x - target)
    return reduced(tnp.where(away < delta, away * away * 0.5, (away - 0.5 * delta) * delta), reduction)


def _taken(x, places, axis, target, ignore_index):
    """What x has at the places, which are those of the target."""
    if _eager.coexecuting() and not _eager.gathering() and target.dtype in tnp.dtypes.SIGNED:
        if _eager.are_places(target, x.shape[axis], ignore_index):
            # The target says whether they are there, mostly from outside of the step: so no graph has to run before Python goes on.
            return _eager.apply("gather_elements", [x, tnp.astype(places, tnp.int64)], {"axis": axis})
    return tnp.take_along_axis(x, places, axis=axis)


def nll_loss(x, target, weight=None, ignore_index=-100, reduction="mean"):
    """x: [N, C, ...] log-probabilities; target: [N, ...] classes."""
    axis = 1 if x.ndim > 1 else 0
    check_labels("nll_loss", x, target, axis)
    counts = target != ignore_index
    # A class below 0 is none, and no class counted from the last one.
    chosen = tnp.where(counts, tnp.where(target < 0, x.shape[axis], target), tnp.zeros_like(target))
    losses = -tnp.squeeze(_taken(x, tnp.expand_dims(chosen, axis), axis, target, ignore_index), axis)
    share = tnp.astype(counts, x.dtype) if weight is None else tnp.where(counts, weight[chosen], _number(0, x))
    losses = losses * share
    return tnp.sum(losses) / tnp.sum(share) if reduction == "mean" else reduced(losses, reduction)


def cross_entropy(x, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """x: [N, C, ...]; target: classes [N, ...], or probabilities of x's shape."""
    axis = 1 if x.ndim > 1 else 0
    log = log_softmax(x, axis)
    if target.shape == x.shape:
        classes = x.shape[axis]
        target = target * (1 - label_smoothing) + label_smoothing / classes
        shape = (-1,) + (1,) * (x.ndim - axis - 1)
        losses = -tnp.sum(log * target if weight is None else log * target * tnp.reshape(weight, shape), axis=axis)
        return tnp.sum(losses) / (losses.size) if reduction == "mean" else reduced(losses, reduction)
    result = nll_loss(log, target, weight, ignore_index, reduction)
    if not label_smoothing:
        return result
    counts = tnp.astype(target != ignore_index, x.dtype)
    spread = log if weight is None else log * tnp.reshape(weight, (-1,) + (1,) * (x.ndim - axis - 1))
    smooth = -tnp.sum(spread, axis=axis) * counts
    if reduction == "mean":
        share = counts if weight is None else weight[tnp.where(target != ignore_index, target, tnp.zeros_like(target))] * counts
        smooth = tnp.sum(smooth) / tnp.sum(share)
    else:
        smooth = reduced(smooth, reduction)
    return result * (1 - label_smoothing) + smooth * (label_smoothing / x.shape[axis])


def binary_cross_entropy(x, target, weight=None, reduction="mean"):
    log = tnp.maximum(tnp.log(x), -100.0), tnp.maximum(tnp.log(1 - x), -100.0)
    losses = -(target * log[0] + (1 - target) * log[1])
    return reduced(losses if weight is None else losses * weight, reduction)


def binary_cross_entropy_with_logits(x, target, weight=None, reduction="mean", pos_weight=None):
    share = 1 if pos_weight is None else (pos_weight - 1) * target + 1
    losses = (1 - target) * x - logsigmoid(x) * share
    return reduced(losses if weight is None else losses * weight, reduction)


def kl_div(x, target, reduction="mean", log_target=False):
    if log_target:
        losses = tnp.exp(target) * (target - x)
    else:
        losses = tnp.where(target > 0, target * (tnp.log(tnp.where(target > 0, target, _number(1, x))) - x), _number(0, x))
    return tnp.sum(losses) / x.shape[0] if reduction == "batchmean" else reduced(losses, reduction)

"""Products, convolutions, attention and resizing, with the gradients that PyTorch has operators for."""

import math

import torch
from torch.utils import _pytree

from .. import Error
from . import random, sizes
from .lowering import lowers


def matmul(g, a, b):
    batch = sizes.broadcast(a.shape[:-2], b.shape[:-2])
    return g.op("matmul", [a, b], [*batch, a.shape[-2], b.shape[-1]])


@lowers("aten.mm.default", "aten.bmm.default")
def _mm(g, a, b):
    return matmul(g, a, b)


@lowers("aten.mv.default", "aten.dot.default", "aten.vdot.default")
def _mv(g, a, b):
    return g.op("matmul", [a, b], g.meta.shape)


@lowers("aten.addbmm.default")
def _addbmm(g, bias, a, b, beta=1, alpha=1):
    return _scaled(g, bias, g.reduce("reduce_sum", matmul(g, a, b), [0], False), beta, alpha)


@lowers("aten.addmm.default", "aten.baddbmm.default", "aten.addmv.default")
def _addmm(g, bias, a, b, beta=1, alpha=1):
    return _scaled(g, bias, g.op("matmul", [a, b], [*a.shape[:-1], *b.shape[-1:]] if b.rank > 1 else a.shape[:-1]), beta, alpha)


def _scaled(g, bias, product, beta, alpha):
    if not product.dtype.is_floating_point:  # factors of whole numbers are whole
        beta, alpha = int(beta), int(alpha)
    if alpha != 1:
        product = g.binary("mul", product, g.scalar(alpha, product.dtype))
    if beta == 0:
        return product
    bias = bias if beta == 1 else g.binary("mul", bias, g.scalar(beta, bias.dtype))
    return g.binary("add", product, bias)


def spread(values, count):
    """A setting of each dimension; one that is given stands for all."""
    values = [values] if isinstance(values, int) else list(values)
    return values * count if len(values) == 1 else values


@lowers("aten.convolution.default")
def _convolution(g, x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
    n = w.rank - 2
    stride, padding, dilation = (spread(given, n) for given in (stride, padding, dilation))
    named = {"strides": stride, "pads": padding + padding, "dilations": dilation, "group": groups}
    if transposed:
        return g.op("conv_transpose", [x, w, bias], g.meta.shape, output_padding=spread(output_padding, n), **named)
    return g.op("conv", [x, w, bias], g.meta.shape, **named)


@lowers("aten.convolution_backward.default")
def _convolution_backward(g, gradient, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask):
    n = w.rank - 2
    stride, padding, dilation = (spread(given, n) for given in (stride, padding, dilation))
    results = [None, None, None]
    if transposed:
        # The forward is a convolution's gradient, so its own is that convolution.
        named = {"strides": stride, "pads": padding + padding, "dilations": dilation, "group": groups}
        if mask[0]:
            y = g.op("conv", [gradient, w, None], [*x.shape[:2], *_conv_sizes(gradient, w, stride, padding, dilation)], **named)
            for i in range(n):  # what output_padding added at the end may give more
                if not g.same([y.shape[2 + i]], [x.shape[2 + i]]):
                    y = g.slice(y, 2 + i, 0, x.shape[2 + i])
            results[0] = y
        if mask[1]:
            results[1] = _weight_gradient(g, x, gradient, w, stride, padding, dilation, groups)
        if mask[2]:
            results[2] = g.reduce("reduce_sum", gradient, [0, *range(2, gradient.rank)], False)
        return results
    if mask[0]:
        results[0] = _input_gradient(g, gradient, x, w, stride, padding, dilation, groups)
    if mask[1]:
        results[1] = _weight_gradient(g, gradient, x, w, stride, padding, dilation, groups)
    if mask[2]:
        results[2] = g.reduce("reduce_sum", gradient, [0, *range(2, gradient.rank)], False)
    return results


def _conv_sizes(x, w, stride, padding, dilation):
    sizes_ = []
    for i in range(w.rank - 2):
        sizes_.append((x.shape[2 + i] + 2 * padding[i] - dilation[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1)
    return sizes_


def _input_gradient(g, gradient, x, w, stride, padding, dilation, groups):
    left = []
    for i in range(w.rank - 2):
        size = x.shape[2 + i] + 2 * padding[i] - dilation[i] * (w.shape[2 + i] - 1) - 1
        left.append(size % stride[i])
    if not all(sizes.is_known(size) for size in left):
        raise Error("gradients of convolutions with strides need images of known sizes")
    return g.op("conv_transpose", [gradient, w, None], x.shape, strides=stride, pads=padding + padding, dilations=dilation,
                group=groups, output_padding=[sizes.number(size) for size in left])  # fmt: skip


def _weight_gradient(g, gradient, x, w, stride, padding, dilation, groups):
    """A convolution of the images with the gradients, whose samples are the channels that are summed over; groups stay so.

    Its steps are the forward's dilations and the other way round; what a stride left out of the image gives more taps than there
    are, which are cut off.
    """
    batch, inner, n = x.shape[0], w.shape[1], w.rank - 2
    images = g.reshape(x, [batch, groups, inner, *x.shape[2:]])
    images = g.reshape(g.transpose(images, [2, 1, 0, *range(3, images.rank)]), [inner, groups * batch, *x.shape[2:]])
    kernels = g.transpose(gradient, [1, 0, *range(2, gradient.rank)])
    taps = []
    for i in range(n):
        span = stride[i] * (gradient.shape[2 + i] - 1) + 1
        taps.append((x.shape[2 + i] + 2 * padding[i] - span) // dilation[i] + 1)
    y = g.op("conv", [images, kernels, None], [inner, w.shape[0], *taps], strides=dilation, pads=padding + padding,
             dilations=stride, group=groups)  # fmt: skip
    for i in range(n):
        if not sizes.is_known(taps[i]) or sizes.number(taps[i]) != w.shape[2 + i]:
            y = g.slice(y, 2 + i, 0, w.shape[2 + i])
    return g.transpose(y, [1, 0, *range(2, y.rank)])


# ---- attention ----


def _scale(g, q, scale):
    """What scores are multiplied by: where nothing else is said, the width's inverse root."""
    width = q.shape[-1]
    if scale is None and not sizes.is_known(width):
        dtype = torch.promote_types(q.dtype, torch.float32)  # of halves the root is taken in single precision
        return g.cast(g.op("rsqrt", [g.cast(g.size(width), dtype)]), q.dtype)
    return g.scalar(scale if scale is not None else 1 / math.sqrt(sizes.number(width)), q.dtype)


def _attention(g, q, k, v, mask, is_causal, scale, dropout=0.0):
    """softmax(q k^T * scale + mask) v, which becomes one kernel where it can; also the scores."""
    keys = g.transpose(k, [*range(k.rank - 2), k.rank - 1, k.rank - 2])
    scores = g.binary("mul", matmul(g, q, keys), _scale(g, q, scale))
    low = g.scalar(float("-inf"), q.dtype)
    if is_causal:
        shape = [q.shape[-2], k.shape[-2]]
        row = g.op("iota", [], shape, torch.int64, typed=True, axis=0)
        column = g.op("iota", [], shape, torch.int64, typed=True, axis=1)
        scores = g.op("where", [g.binary("less_or_equal", column, row, torch.bool), scores, low], scores.shape, q.dtype)
    if mask is not None and mask.dtype == torch.bool:
        scores = g.op("where", [mask, scores, low], scores.shape, q.dtype)
    elif mask is not None:
        scores = g.binary("add", scores, g.cast(mask, q.dtype))
    weights = g.op("softmax", [scores], axis=scores.rank - 1)
    if dropout:
        like = torch.empty(scores.shape, dtype=q.dtype, device="meta")
        weights = g.binary("mul", weights, random.drawn(g, random.dropped(dropout), like))
    y = matmul(g, weights, v)
    return _without_empty(g, y, mask), scores


def _without_empty(g, y, mask):
    """Zeros where the mask leaves out all keys of a row, which the softmax has no value for."""
    if mask is None:
        return y
    if mask.dtype == torch.bool:
        is_empty = g.op("not", [g.cast(g.reduce("reduce_max", g.cast(mask, torch.int32), [-1], True), torch.bool)])
    else:
        is_empty = g.binary("equal", g.reduce("reduce_max", mask, [-1], True), g.scalar(float("-inf"), mask.dtype), torch.bool)
    return g.op("where", [is_empty, g.scalar(0, y.dtype), y], y.shape, y.dtype)


@lowers("aten._scaled_dot_product_flash_attention_for_cpu.default")
def _flash_attention(g, q, k, v, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    if dropout_p:
        raise Error("it drops by numbers that it draws itself; call scaled_dot_product_attention, which PyTorch takes apart then")
    k, v = (_for_heads(g, x, q.shape[1]) for x in (k, v))
    y, scores = _attention(g, q, k, v, attn_mask, is_causal, scale)
    sums = None
    if g.is_used(1):
        top = g.reduce("reduce_max", scores, [-1], True)
        total = g.reduce("reduce_sum", g.op("exp", [g.binary("sub", scores, top)]), [-1], True)
        sums = g.reshape(g.binary("add", g.op("log", [total]), top), scores.shape[:-1])
    return [y, sums]


def _for_heads(g, x, heads):
    """Keys or values that several heads share, once for each of them."""
    batch, own, *rest = x.shape
    if g.same([own], [heads]):
        return x
    wide = g.broadcast(g.reshape(x, [batch, own, 1, *rest]), [batch, own, heads // own, *rest])
    return g.reshape(wide, [batch, heads, *rest])


def _of_heads(g, x, own):
    """The gradient of keys or values that several heads share."""
    batch, heads, *rest = x.shape
    if g.same([own], [heads]):
        return x
    return g.reduce("reduce_sum", g.reshape(x, [batch, own, heads // own, *rest]), [2], False)


@lowers("aten.scaled_dot_product_attention.default")
def _sdpa(g, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    if enable_gqa and k.rank == 4:
        k, v = (_for_heads(g, x, q.shape[1]) for x in (k, v))
    return _attention(g, q, k, v, attn_mask, is_causal, scale, dropout_p)[0]


@lowers("aten._scaled_dot_product_flash_attention_for_cpu_backward.default")
def _flash_attention_backward(g, gradient, q, k, v, out, logsumexp, dropout_p, is_causal, *, attn_mask=None, scale=None):
    """By the softmax p, which is computed again: dv = p^T g, ds = p (g v^T - rows' sums of g out)."""
    factor = _scale(g, q, scale)
    own = k.shape
    k, v = (_for_heads(g, x, q.shape[1]) for x in (k, v))
    _, scores = _attention(g, q, k, v, attn_mask, is_causal, scale)
    p = _without_empty(g, g.op("softmax", [scores], axis=scores.rank - 1), attn_mask)

    def flipped(x):
        return g.transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])

    inner = g.reduce("reduce_sum", g.binary("mul", gradient, out), [-1], True)
    ds = g.binary("mul", g.binary("mul", p, g.binary("sub", matmul(g, gradient, flipped(v)), inner)), factor)
    return [matmul(g, ds, k), _of_heads(g, matmul(g, flipped(ds), q), own[1]), _of_heads(g, matmul(g, flipped(p), gradient), own[1])]


# ---- resizing ----


@lowers("aten.upsample_nearest2d.vec", "aten.upsample_bilinear2d.vec", "aten.upsample_nearest2d.default", "aten.upsample_bilinear2d.default")
def _resize(g, x, size, *rest):
    is_linear = "bilinear" in str(g.node.target)
    shape = g.meta.shape
    align = bool(rest and rest[0] is True) if is_linear else False
    if not align:
        _check_scales(x, shape, _pytree.tree_leaves(rest[1:] if is_linear else rest))
    modes = {"mode": "linear" if is_linear else "nearest", "nearest_mode": "floor",
             "coordinate_transformation_mode": "align_corners" if align else "half_pixel" if is_linear else "asymmetric"}  # fmt: skip
    return g.op("resize", [x, None, None, g.ints(list(shape))], shape, **modes)


def _check_scales(x, shape, scales):
    """PyTorch maps places by the scales that it is given, and the graph by the sizes: those must say the same."""
    scales = [scale for scale in scales if scale is not None]
    for size, out, scale in zip(x.shape[2:], shape[2:], scales):
        is_exact = sizes.is_known(size) and sizes.is_known(out) and sizes.number(size) * scale == sizes.number(out)
        if not is_exact and scale != int(scale):
            raise Error(f"resizing by {scale} is not known; give the size that results, or recompute_scale_factor=True")


@lowers("aten.grid_sampler_2d.default")
def _grid_sampler(g, x, grid, interpolation, padding, align_corners):
    return g.op("grid_sample", [x, grid], g.meta.shape, mode=["linear", "nearest", "cubic"][interpolation],
                padding_mode=["zeros", "border", "reflection"][padding], align_corners=align_corners)  # fmt: skip

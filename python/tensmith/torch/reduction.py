"""ATen's reductions, and what runs along a dimension."""

import torch

from .elementwise import compare
from .lowering import lowers


def _dims(dims):
    return [] if dims is None else [dims] if isinstance(dims, int) else list(dims)


@lowers("aten.sum.dim_IntList", "aten.sum.default")
def _sum(g, x, dims=None, keepdim=False, dtype=None):
    return g.reduce("reduce_sum", g.cast(x, g.meta.dtype), _dims(dims), keepdim)


@lowers("aten.prod.dim_int", "aten.prod.default")
def _prod(g, x, dims=None, keepdim=False, dtype=None):
    return g.reduce("reduce_prod", g.cast(x, g.meta.dtype), _dims(dims), keepdim)


def _wide(g, x):
    """In the type that sums are taken in: halves would lose them."""
    return g.cast(x, torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x


def mean(g, x, dims, keepdim):
    axes = [x.axis(dim) for dim in dims] or range(x.rank)
    wide = _wide(g, x)
    return g.cast(g.binary("div", g.reduce("reduce_sum", wide, dims, keepdim), g.count(wide, axes)), x.dtype)


@lowers("aten.mean.dim", "aten.mean.default")
def _mean(g, x, dims=None, keepdim=False, dtype=None):
    return mean(g, g.cast(x, g.meta.dtype), _dims(dims), keepdim)


def variance(g, x, dims, correction, keepdim):
    """Of the deviations from the mean."""
    axes = [x.axis(dim) for dim in dims] or list(range(x.rank))
    wide = _wide(g, x)
    apart = g.binary("sub", wide, mean(g, wide, axes, True))
    total = g.reduce("reduce_sum", g.binary("mul", apart, apart), axes, keepdim)
    count = g.binary("sub", g.count(wide, axes), g.scalar(correction, wide.dtype))
    return g.cast(g.binary("div", total, g.binary("max", count, g.scalar(0, wide.dtype))), x.dtype)


@lowers("aten.var.correction", "aten.var.dim")
def _var(g, x, dims=None, unbiased=None, *, correction=None, keepdim=False):
    correction = correction if correction is not None else 1 if unbiased in (None, True) else 0
    return variance(g, x, _dims(dims), correction, keepdim)


@lowers("aten.var_mean.correction")
def _var_mean(g, x, dims=None, *, correction=None, keepdim=False):
    dims = _dims(dims)
    return [variance(g, x, dims, 1 if correction is None else correction, keepdim), mean(g, x, dims, keepdim)]


@lowers("aten.amax.default", "aten.max.default")
def _amax(g, x, dims=None, keepdim=False):
    return g.reduce("reduce_max", x, _dims(dims), keepdim)


@lowers("aten.amin.default", "aten.min.default")
def _amin(g, x, dims=None, keepdim=False):
    return g.reduce("reduce_min", x, _dims(dims), keepdim)


@lowers("aten.max.dim", "aten.min.dim")
def _extreme(g, x, dim, keepdim=False):
    kind = "max" if ".max." in str(g.node.target) else "min"
    return [g.reduce(f"reduce_{kind}", x, [dim], keepdim), _index_of(g, f"arg_{kind}", x, dim, keepdim, g.meta[1].shape)]


def _index_of(g, name, x, dim, keepdim, shape):
    return g.op(name, [x], shape, torch.int64, axis=x.axis(dim), keepdims=keepdim)


@lowers("aten.argmax.default", "aten.argmin.default")
def _arg(g, x, dim=None, keepdim=False):
    name = "arg_max" if "argmax" in str(g.node.target) else "arg_min"
    if dim is None:
        x, dim = g.reshape(x, [_elements(x)]), 0
        return g.reshape(_index_of(g, name, x, 0, False, ()), g.meta.shape)
    return _index_of(g, name, x, dim, keepdim, g.meta.shape)


def _elements(x):
    count = 1
    for size in x.shape:
        count = count * size
    return count


@lowers("aten.any.dim", "aten.any.default", "aten.any.dims", "aten.all.dim", "aten.all.default", "aten.all.dims")
def _any(g, x, dims=None, keepdim=False):
    x = g.cast(x, torch.bool)  # of which the largest of none is no, and the least yes
    name = "reduce_max" if ".any." in str(g.node.target) else "reduce_min"
    if dims == []:  # of no dimensions, where others reduce all
        return g.cast(x, g.meta.dtype)
    return g.cast(g.reduce(name, x, _dims(dims), keepdim), g.meta.dtype)


@lowers("aten.cumsum.default", "aten.cumprod.default")
def _running(g, x, dim, dtype=None):
    x = g.cast(x, g.meta.dtype)
    if x.rank == 0:
        return x
    return g.op("cumsum" if "cumsum" in str(g.node.target) else "cumprod", [x], axis=x.axis(dim))


@lowers("aten._softmax.default", "aten.softmax.int", "aten._safe_softmax.default")
def _softmax(g, x, dim, *_, **__):
    x = g.cast(x, g.meta.dtype)
    y = g.op("softmax", [x], axis=x.axis(dim)) if x.rank else g.scalar(1, x.dtype)
    if "safe" not in str(g.node.target):
        return y
    # A row of nothing but -inf gives zeros.
    top = g.reduce("reduce_max", x, [dim], True)
    empty = compare(g, "equal", top, g.scalar(float("-inf"), x.dtype))
    return g.op("where", [empty, g.scalar(0, x.dtype), y], x.shape, x.dtype)


@lowers("aten._log_softmax.default", "aten.log_softmax.int")
def _log_softmax(g, x, dim, *_, **__):
    x = g.cast(x, g.meta.dtype)
    return g.op("log_softmax", [x], axis=x.axis(dim)) if x.rank else g.scalar(0, x.dtype)


# ---- normalisation ----


def _scale(g, weight, shape, dtype, value):
    """A weight, or what stands for one that is left out."""
    return g.cast(weight, dtype) if weight is not None else g.broadcast(g.scalar(value, dtype), shape)


@lowers("aten.native_layer_norm.default")
def _layer_norm(g, x, normalized, weight=None, bias=None, eps=1e-5):
    axis = x.rank - len(normalized)
    inner = x.shape[axis:]
    operands = [x, _scale(g, weight, inner, x.dtype, 1), bias and g.cast(bias, x.dtype)]
    stat, wide = [*x.shape[:axis], *[1] * len(normalized)], torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    results = g.ops("layer_norm", operands, [(x.shape, x.dtype), (stat, wide), (stat, wide)], axis=axis, epsilon=float(eps))
    return [g.cast(value, meta.dtype) for value, meta in zip(results, g.meta)]


@lowers("aten.native_group_norm.default")
def _group_norm(g, x, weight, bias, n, channels, size, groups, eps):
    scale, offset = _scale(g, weight, [channels], x.dtype, 1), _scale(g, bias, [channels], x.dtype, 0)
    y = g.op("group_norm", [x, scale, offset], groups=groups, epsilon=float(eps))
    if not (g.is_used(1) or g.is_used(2)):
        return [y, None, None]
    apart = _wide(g, g.reshape(x, [n, groups, channels // groups * size]))
    spread = g.binary("add", variance(g, apart, [2], 0, False), g.scalar(eps, apart.dtype))
    statistics = mean(g, apart, [2], False), g.op("rsqrt", [spread])
    return [y, *(g.cast(value, meta.dtype) for value, meta in zip(statistics, g.meta[1:]))]


@lowers("aten._native_batch_norm_legit_no_training.default")
def _batch_norm(g, x, weight, bias, mean_, variance_, momentum, eps):
    channels = [x.shape[1]]
    operands = [x, _scale(g, weight, channels, x.dtype, 1), _scale(g, bias, channels, x.dtype, 0), mean_, variance_]
    empty = g.constant(torch.zeros(0))
    return [g.op("batch_norm", operands, epsilon=float(eps)), empty, empty]


@lowers("aten._native_batch_norm_legit_functional.default", "aten._native_batch_norm_legit.no_stats")
def _batch_norm_of_batch(g, x, weight, bias, *rest):
    """By the batch's statistics, or in training alone where there are running ones; gives the next of those too."""
    has_running = "functional" in str(g.node.target)
    running = rest[:2] if has_running else None
    is_training, momentum, eps = rest[-3:]
    if has_running and not is_training:
        return [*_batch_norm(g, x, weight, bias, *running, momentum, eps), *running]
    dims = [dim for dim in range(x.rank) if dim != 1]
    wide = [1, x.shape[1], *[1] * (x.rank - 2)]
    x = _wide(g, x)
    center, spread = mean(g, x, dims, True), variance(g, x, dims, 0, True)
    inverse = g.op("rsqrt", [g.binary("add", spread, g.scalar(eps, x.dtype))])
    y = g.binary("mul", g.binary("sub", x, center), inverse)
    if weight is not None:
        y = g.binary("mul", y, g.reshape(g.cast(weight, x.dtype), wide))
    if bias is not None:
        y = g.binary("add", y, g.reshape(g.cast(bias, x.dtype), wide))
    channels = [x.shape[1]]
    results = [y, g.reshape(center, channels), g.reshape(inverse, channels)]
    if not has_running:
        return [g.cast(value, meta.dtype) for value, meta in zip(results, g.meta)]
    count = g.count(x, dims)
    unbiased = g.binary("mul", g.reshape(spread, channels), g.binary("div", count, g.binary("sub", count, g.scalar(1, x.dtype))))
    for old, new in zip(running, (results[1], unbiased)):
        old = g.cast(old, x.dtype)
        step = g.binary("mul", g.binary("sub", new, old), g.scalar(momentum, x.dtype))
        results.append(g.binary("add", old, step))
    return [g.cast(value, meta.dtype) for value, meta in zip(results, g.meta)]

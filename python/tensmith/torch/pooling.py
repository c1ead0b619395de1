"""Pooling with its gradients, and bags of embeddings.

What is averaged adaptively is a product with a matrix for each dimension, whose rows have the shares of a window; its gradient is the same
with the matrices transposed.
"""

import math

import torch

from .. import Error
from . import sizes
from .contraction import matmul, spread
from .elementwise import compare
from .indexing import from_front
from .lowering import lowers


def _window(kernel, stride, padding, dilation, n):
    kernel = spread(kernel, n)
    stride = spread(stride, n) if stride else kernel
    padding = spread(padding, n)
    return {"kernel": kernel, "strides": stride, "pads": padding + padding, "dilations": spread(dilation, n)}


def _count_of(g):
    """The number of spatial dimensions, by the operator's name."""
    name = str(g.node.target)
    return next(n for n in (1, 2, 3) if f"{n}d" in name)


def _max_pool(g, x, kernel, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
    n = _count_of(g)
    outer = x.shape
    x = x if x.rank == n + 2 else g.reshape(x, [1, *x.shape])
    has_indices = isinstance(g.meta, (list, tuple))
    shape = g.meta[0].shape if has_indices else g.meta.shape
    inner = shape if len(outer) == n + 2 else [1, *shape]
    named = _window(kernel, stride, padding, dilation, n) | {"ceil_mode": ceil_mode}
    y = g.reshape(g.op("max_pool", [x], inner, **named), shape)
    if not has_indices:
        return y
    indices = None
    if g.is_used(1):  # theirs number the elements of a plane
        indices = g.op("max_pool_indices", [x], inner, torch.int64, **named)
        plane = g.tensor(math.prod(x.shape[2:]), torch.int64)
        indices = g.reshape(g.binary("mod", indices, plane), shape)
    return [y, indices]


lowers("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default", "aten.max_pool2d.default",
       "aten.max_pool1d.default", "aten.max_pool3d.default")(_max_pool)  # fmt: skip


@lowers("aten.max_pool2d_with_indices_backward.default", "aten.max_pool3d_with_indices_backward.default")
def _max_pool_backward(g, gradient, x, kernel, stride, padding, dilation, ceil_mode, indices):
    """Each gradient is added to the element that was the largest of its window."""
    n = _count_of(g)
    planes, size, flat = x.shape[:-n], math.prod(x.shape[-n:]), math.prod(gradient.shape[-n:])
    zeros = g.broadcast(g.scalar(0, gradient.dtype), [*planes, size])
    y = g.op("scatter_elements", [zeros, g.reshape(indices, [*planes, flat]), g.reshape(gradient, [*planes, flat])],
             axis=len(planes), reduction="add")  # fmt: skip
    return g.reshape(y, x.shape)


# ---- averages ----


def _shares(size, out, kernel, stride, padding, includes_pad):
    """How many elements each window along a dimension counts."""
    counts = []
    for i in range(out):
        start = i * stride - padding
        end = min(start + kernel, size + padding)
        counts.append(end - start if includes_pad else min(end, size) - max(start, 0))
    return torch.tensor(counts, dtype=torch.float64)


def _divisors(spatial, outs, named, includes_pad):
    """Of each window; a number where all have the same, None where sizes are open and they may differ."""
    n = len(spatial)
    if includes_pad and not named["ceil_mode"]:
        return math.prod(named["kernel"])
    if not all(map(sizes.is_known, [*spatial, *outs])):
        return None
    total = torch.ones([], dtype=torch.float64)
    for i, (size, out) in enumerate(zip(spatial, outs)):
        along = _shares(sizes.number(size), sizes.number(out), named["kernel"][i], named["strides"][i], named["pads"][i], includes_pad)
        total = total * along.reshape([-1 if dim == i else 1 for dim in range(n)])
    return total


@lowers("aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default")
def _avg_pool(g, x, kernel, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True, divisor_override=None):
    n, shape = _count_of(g), g.meta.shape
    if not x.dtype.is_floating_point:
        raise Error("averages of whole numbers are not known; convert them to floats")
    is_batched = x.rank == n + 2
    x = x if is_batched else g.reshape(x, [1, *x.shape])
    named = _window(kernel, stride, padding, [1], n) | {"ceil_mode": ceil_mode}
    y = g.op("average_pool", [x], shape if is_batched else [1, *shape], count_include_pad=count_include_pad, **named)
    if divisor_override:
        divisors = _divisors(x.shape[2:], y.shape[2:], named, count_include_pad)
        if divisors is None:
            raise Error("a divisor of its own needs images of known sizes")
        y = g.binary("mul", y, g.constant((torch.as_tensor(divisors, dtype=torch.float64) / divisor_override).to(y.dtype)))
    return g.reshape(y, shape)


@lowers("aten.avg_pool2d_backward.default", "aten.avg_pool3d_backward.default")
def _avg_pool_backward(g, gradient, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
    """Each window's share is spread over it: the transpose of a convolution of every plane with ones."""
    n = _count_of(g)
    named = _window(kernel, stride, padding, [1], n) | {"ceil_mode": ceil_mode}
    spatial, outs = x.shape[-n:], gradient.shape[-n:]
    if not all(map(sizes.is_known, [*spatial, *outs])):
        raise Error("the gradient of an average needs images of known sizes")
    divisors = divisor_override or _divisors(spatial, outs, named, count_include_pad)
    shares = g.binary("div", gradient, g.constant(torch.as_tensor(divisors).to(gradient.dtype)))
    planes = math.prod(x.shape[:-n])
    high, more = [], []
    for i in range(n):
        left = sizes.number(spatial[i]) + named["pads"][i] - named["strides"][i] * (sizes.number(outs[i]) - 1) - named["kernel"][i]
        high.append(max(-left, 0))
        more.append(max(left, 0))
    ones = g.constant(torch.ones([1, 1, *named["kernel"]], dtype=gradient.dtype))
    y = g.op("conv_transpose", [g.reshape(shares, [planes, 1, *outs]), ones, None], [planes, 1, *spatial], strides=named["strides"],
             pads=named["pads"][:n] + high, dilations=[1] * n, group=1, output_padding=more)  # fmt: skip
    return g.reshape(y, x.shape)


def _averages(size, out, dtype):
    """A matrix [out, size] of the shares that adaptive windows have of a dimension."""
    matrix = torch.zeros(out, size, dtype=torch.float64)
    for i in range(out):
        start, end = i * size // out, -(-(i + 1) * size // out)
        matrix[i, start:end] = 1 / (end - start)
    return matrix.to(dtype)


def _along_each(g, x, matrices):
    """The last dimensions, each multiplied by its matrix [to, from]."""
    n = len(matrices)
    for i, matrix in enumerate(matrices):
        dim = x.rank - n + i
        if i == n - 1:
            x = matmul(g, x, g.constant(matrix.t()))
        elif i == n - 2:
            x = matmul(g, g.constant(matrix), x)
        else:
            swapped = [*range(dim), *range(dim + 1, x.rank), dim]
            x = matmul(g, g.transpose(x, swapped), g.constant(matrix.t()))
            x = g.transpose(x, [*range(dim), x.rank - 1, *range(dim, x.rank - 1)])
    return x


@lowers("aten._adaptive_avg_pool2d.default", "aten.adaptive_avg_pool1d.default", "aten._adaptive_avg_pool3d.default",
        "aten.adaptive_avg_pool2d.default", "aten.adaptive_avg_pool3d.default")  # fmt: skip
def _adaptive(g, x, output):
    n = len(output)
    if all(sizes.is_known(size) and sizes.number(size) == 1 for size in output):
        from .reduction import mean

        return mean(g, x, list(range(-n, 0)), True)
    inner = x.shape[-n:]
    if not all(map(sizes.is_known, inner)):
        raise Error("adaptive pooling needs images of known sizes")
    if all(out and sizes.number(size) % out == 0 for size, out in zip(inner, output)):
        return _pooled(g, x, [sizes.number(size) // out for size, out in zip(inner, output)], n)
    return _along_each(g, x, [_averages(sizes.number(size), out, x.dtype) for size, out in zip(inner, output)])


@lowers("aten._adaptive_avg_pool2d_backward.default", "aten._adaptive_avg_pool3d_backward.default")
def _adaptive_backward(g, gradient, x):
    n = 3 if "3d" in str(g.node.target) else 2
    inner, outer = x.shape[-n:], gradient.shape[-n:]
    if all(sizes.is_known(size) and sizes.number(size) == 1 for size in outer):
        return g.broadcast(g.binary("div", gradient, g.count(x, list(range(x.rank - n, x.rank)))), x.shape)
    if not all(map(sizes.is_known, inner)):
        raise Error("adaptive pooling needs images of known sizes")
    return _along_each(g, gradient, [_averages(sizes.number(a), sizes.number(b), x.dtype).t() for a, b in zip(inner, outer)])


def _pooled(g, x, kernel, n):
    outer = [1, *x.shape] if x.rank == n + 1 else x.shape
    inner = [*outer[:2], *[size // k for size, k in zip(outer[2:], kernel)]]
    y = g.op("average_pool", [g.reshape(x, outer)], inner, kernel=kernel, strides=kernel, pads=[0] * 2 * n, dilations=[1] * n)
    return g.reshape(y, g.meta.shape)


# ---- bags of embeddings, distances ----


@lowers("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default")
def _embedding_bag(g, weight, indices, offsets, scale_grad=False, mode=0, sparse=False, per_sample=None, include_last=False, padding=-1):
    """Rows of a table, summed (mode 0), averaged (1) or the largest (2) of each bag; a bag begins at each offset."""
    if padding is not None and padding >= 0:
        raise Error("bags with an index that counts for nothing are not known")
    if mode == 2 and (g.is_used(1) or g.is_used(3)):
        raise Error("gradients of the largest of a bag are not known")
    starts = g.slice(offsets, 0, 0, offsets.shape[0] - 1) if include_last else offsets
    bags, count, width = starts.shape[0], indices.shape[0], weight.shape[1]
    rows = g.op("gather", [weight, from_front(g, indices)], [count, width], axis=0)
    if per_sample is not None:
        rows = g.binary("mul", rows, g.reshape(per_sample, [count, 1]))
    places = g.op("iota", [], [count, 1], torch.int64, typed=True, axis=0)
    begun = compare(g, "less_or_equal", g.reshape(g.cast(starts, torch.int64), [1, bags]), places)
    bag = g.binary("sub", g.reduce("reduce_sum", g.cast(begun, torch.int64), [1], True), g.scalar(1, torch.int64))
    low = -float("inf") if mode == 2 else 0
    start = g.broadcast(g.scalar(low, weight.dtype), [bags, width])
    y = g.op("scatter_nd", [start, bag, rows], reduction="max" if mode == 2 else "add")
    ones = g.broadcast(g.scalar(1, weight.dtype), [count])
    filled = g.op("scatter_nd", [g.broadcast(g.scalar(0, weight.dtype), [bags]), bag, ones], reduction="add")
    filled = g.reshape(filled, [bags, 1])
    if mode == 1:
        y = g.binary("div", y, g.binary("max", filled, g.scalar(1, weight.dtype)))
    if mode == 2:
        y = g.op("where", [compare(g, "equal", filled, g.scalar(0, weight.dtype)), g.scalar(0, weight.dtype), y], y.shape, y.dtype)
    bag_of, size_of = (g.meta[i] for i in (1, 2))
    numbers = g.reshape(bag, [count]) if g.same(bag_of.shape, [count]) else g.broadcast(g.scalar(0, torch.int64), bag_of.shape)
    lengths = g.reshape(g.cast(filled, torch.int64), [bags])
    lengths = lengths if g.same(size_of.shape, [bags]) else g.broadcast(g.scalar(0, torch.int64), size_of.shape)
    return [y, g.cast(numbers, bag_of.dtype), g.cast(lengths, size_of.dtype), g.broadcast(g.scalar(0, g.meta[3].dtype), g.meta[3].shape)]


def _norm(g, apart, p):
    """The p-norm along the last dimension, of what isn't negative."""
    if p == 0:
        return g.reduce("reduce_sum", g.cast(compare(g, "greater", apart, g.scalar(0, apart.dtype)), apart.dtype), [-1], False)
    if p == float("inf"):
        return g.reduce("reduce_max", apart, [-1], False)
    if p == 1:
        return g.reduce("reduce_sum", apart, [-1], False)
    if p == 2:
        return g.op("sqrt", [g.reduce("reduce_sum", g.binary("mul", apart, apart), [-1], False)])
    total = g.reduce("reduce_sum", g.binary("pow", apart, g.scalar(p, apart.dtype)), [-1], False)
    return g.binary("pow", total, g.scalar(1 / p, apart.dtype))


@lowers("aten._cdist_forward.default")
def _cdist(g, a, b, p, mode=None):
    if g.meta.numel() == 0 or (sizes.is_known(a.shape[-1]) and sizes.number(a.shape[-1]) == 0):
        return g.broadcast(g.scalar(0, a.dtype), g.meta.shape)
    a = g.reshape(a, [*a.shape[:-1], 1, a.shape[-1]])
    b = g.reshape(b, [*b.shape[:-2], 1, *b.shape[-2:]])
    return _norm(g, g.op("abs", [g.binary("sub", a, b)]), p)


@lowers("aten._pdist_forward.default")
def _pdist(g, x, p=2.0):
    if not sizes.is_known(x.shape[0]):
        raise Error("distances of all pairs need a known number of rows")
    first, second = torch.triu_indices(sizes.number(x.shape[0]), sizes.number(x.shape[0]), 1)
    if not len(first) or (sizes.is_known(x.shape[1]) and sizes.number(x.shape[1]) == 0):
        return g.broadcast(g.scalar(0, x.dtype), g.meta.shape)
    rows = [g.op("gather", [x, g.constant(of.contiguous())], [len(of), x.shape[1]], axis=0) for of in (first, second)]
    return _norm(g, g.op("abs", [g.binary("sub", *rows)]), p)

"""Operators that place elements elsewhere, or make them of nothing."""

import math

import torch

from .. import Error
from . import run, sizes
from .lowering import Value, lowers


@lowers("aten.view.default", "aten.reshape.default", "aten._unsafe_view.default", "aten.squeeze.dims", "aten.squeeze.dim",
        "aten.squeeze.default", "aten.unsqueeze.default", "aten.flatten.using_ints", "aten.view_copy.default", "aten._reshape_copy.default")  # fmt: skip
def _view(g, x, *_):
    return g.reshape(x, g.meta.shape)


@lowers("aten.expand.default", "aten.expand_copy.default")
def _expand(g, x, *_, implicit=False):
    return g.broadcast(x, g.meta.shape)


@lowers("aten.permute.default", "aten.permute_copy.default")
def _permute(g, x, dims):
    return g.transpose(x, dims)


@lowers("aten.transpose.int")
def _transpose(g, x, a, b):
    permutation = list(range(x.rank))
    a, b = x.axis(a), x.axis(b)
    permutation[a], permutation[b] = b, a
    return g.transpose(x, permutation) if x.rank else x


@lowers("aten.t.default")
def _t(g, x):
    return g.transpose(x, [1, 0]) if x.rank == 2 else x


@lowers("aten.slice.Tensor", "aten.slice_copy.Tensor")
def _slice(g, x, dim=0, start=None, end=None, step=1):
    axis, shape = x.axis(dim), g.meta.shape
    if g.same(shape, x.shape) and (start is None or (sizes.is_known(start) and sizes.number(start) == 0)) and step == 1:
        return x
    start = 0 if start is None else start
    if isinstance(start, int) and start < 0 and sizes.is_known(x.shape[axis]):
        start = max(start + sizes.number(x.shape[axis]), 0)
    if sizes.is_known(start) and sizes.number(start) >= 0:
        return g.slice(x, axis, sizes.number(start), shape[axis], step)
    start = start if not isinstance(start, int) else x.shape[axis] + start
    last = start + shape[axis] * step
    return g.op("dynamic_slice", [x, g.ints([start]), g.ints([last]), g.ints([axis]), g.ints([step])], shape)


@lowers("aten.select.int", "aten.select_copy.int")
def _select(g, x, dim, index):
    axis = x.axis(dim)
    shape = [size for i, size in enumerate(x.shape) if i != axis]
    if isinstance(index, int) and index < 0 and sizes.is_known(x.shape[axis]):
        index += sizes.number(x.shape[axis])
    if isinstance(index, int) and index >= 0:
        return g.reshape(g.slice(x, axis, index, 1), shape)
    at = g.tensor(index, torch.int64) if isinstance(index, Value) else g.size(index) if not isinstance(index, int) else g.scalar(index, torch.int64)
    return g.op("gather", [x, at], shape, axis=axis)


@lowers("aten.cat.default")
def _cat(g, parts, dim=0):
    parts = [g.cast(x, g.meta.dtype) for x in parts]
    parts = [x for x in parts if not (x.rank == 1 and len(g.meta.shape) > 1 and g.same(x.shape, (0,)))]
    return g.op("concat", parts, g.meta.shape, axis=parts[0].axis(dim)) if len(parts) > 1 else parts[0]


@lowers("aten.stack.default")
def _stack(g, parts, dim=0):
    axis = dim + len(g.meta.shape) if dim < 0 else dim
    parts = [g.reshape(x, [*x.shape[:axis], 1, *x.shape[axis:]]) for x in parts]
    return g.op("concat", parts, g.meta.shape, axis=axis)


@lowers("aten.split_with_sizes.default", "aten.split_with_sizes_copy.default", "aten.split.Tensor", "aten.chunk.default", "aten.unbind.int")
def _split(g, x, *arguments, **named):
    is_unbind = "unbind" in str(g.node.target)
    dim = named.get("dim", arguments[-1] if len(arguments) == (1 if is_unbind else 2) else 0)
    axis, start, parts = x.axis(dim), 0, []
    for part in g.meta:
        size = 1 if is_unbind else part.shape[axis]
        if not sizes.is_known(start):
            raise Error("it is split at places that aren't numbers; slice it instead")
        piece = g.slice(x, axis, sizes.number(start), size)
        parts.append(g.reshape(piece, part.shape))
        start = start + size
    return parts


@lowers("aten.constant_pad_nd.default")
def _pad(g, x, pad, value=0):
    low, high = [0] * x.rank, [0] * x.rank
    for i in range(len(pad) // 2):
        low[x.rank - 1 - i], high[x.rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    if not all(isinstance(size, int) for size in pad):
        raise Error("it pads by sizes that aren't numbers")
    return g.op("pad", [x, g.scalar(value, x.dtype)], g.meta.shape, low=low, high=high, mode="constant")


@lowers("aten.reflection_pad1d.default", "aten.reflection_pad2d.default", "aten.reflection_pad3d.default",
        "aten.replication_pad1d.default", "aten.replication_pad2d.default", "aten.replication_pad3d.default")  # fmt: skip
def _edge_pad(g, x, pad):
    low, high = [0] * x.rank, [0] * x.rank
    for i in range(len(pad) // 2):
        low[x.rank - 1 - i], high[x.rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return g.op("pad", [x, None], g.meta.shape, low=low, high=high, mode="reflect" if "reflection" in str(g.node.target) else "edge")


@lowers("aten.flip.default")
def _flip(g, x, dims):
    return g.op("reverse", [x], axes=sorted(x.axis(dim) for dim in dims))


@lowers("aten.roll.default")
def _roll(g, x, shifts, dims=()):
    shape = x.shape
    if not dims:
        x, dims = g.reshape(x, g.meta.new_empty(g.meta.numel() if x.rank else 1).shape), [0]
    for shift, dim in zip(shifts if isinstance(shifts, (list, tuple)) else [shifts], dims):
        axis = x.axis(dim)
        if not sizes.is_known(x.shape[axis]):
            raise Error("it rolls a dimension whose size isn't a number")
        size = sizes.number(x.shape[axis])
        cut = (-shift) % size if size else 0
        if cut:
            parts = [g.slice(x, axis, cut, size - cut), g.slice(x, axis, 0, cut)]
            x = g.op("concat", parts, x.shape, axis=axis)
    return g.reshape(x, shape)


@lowers("aten.repeat.default")
def _repeat(g, x, repeats):
    added = len(repeats) - x.rank
    x = g.reshape(x, [1] * added + list(x.shape))
    inner = [part for size in x.shape for part in (1, size)]
    outer = [part for times, size in zip(repeats, x.shape) for part in (times, size)]
    return g.reshape(g.broadcast(g.reshape(x, inner), outer), g.meta.shape)


@lowers("aten.tril.default", "aten.triu.default")
def _triangle(g, x, diagonal=0):
    return g.op("trilu", [x, g.scalar(diagonal, torch.int64)], upper="triu" in str(g.node.target))


@lowers("aten.pixel_shuffle.default")
def _pixel_shuffle(g, x, factor):
    *batch, channels, height, width = x.shape
    n, r = len(batch), factor
    apart = g.reshape(x, [*batch, channels // (r * r), r, r, height, width])
    moved = g.transpose(apart, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return g.reshape(moved, g.meta.shape)


# ---- made of nothing ----


def filled(g, value, shape, dtype):
    return g.broadcast(g.tensor(value, dtype), shape)


@lowers("aten.full.default", "aten.full_like.default", "aten.new_full.default")
def _full(g, of, value, *more, **_):
    if "new_full" in str(g.node.target):
        value = more[0]
    return filled(g, value, g.meta.shape, g.meta.dtype)


@lowers("aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default", "aten.empty.memory_format",
        "aten.empty_like.default", "aten.empty_strided.default", "aten.new_empty.default", "aten.new_empty_strided.default",
        "aten.empty_permuted.default")  # fmt: skip
def _zeros(g, *_, **__):
    return filled(g, 0, g.meta.shape, g.meta.dtype)


@lowers("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def _ones(g, *_, **__):
    return filled(g, 1, g.meta.shape, g.meta.dtype)


@lowers("aten.scalar_tensor.default")
def _scalar_tensor(g, value, **_):
    return g.tensor(value, g.meta.dtype)


@lowers("aten.arange.start_step", "aten.arange.start", "aten.arange.default", "prims.iota.default")
def _arange(g, *arguments, start=0, step=1, **_):
    name, dtype = str(g.node.target), g.meta.dtype
    if "start" in name:
        start, step = arguments[0], (arguments[2] if len(arguments) > 2 else step)
    counted = g.op("iota", [], g.meta.shape, dtype if dtype.is_floating_point or dtype == torch.int64 else torch.int64, typed=True, axis=0)
    counted = g.cast(counted, dtype)
    if step != 1:
        counted = g.binary("mul", counted, g.tensor(step, dtype))
    return counted if isinstance(start, int) and start == 0 else g.binary("add", counted, g.tensor(start, dtype))


@lowers("aten.diagonal.default", "aten.diagonal_copy.default")
def _diagonal(g, x, offset=0, dim1=0, dim2=1):
    """Of the two dimensions flattened, a row's length and one apart."""
    a, b = x.axis(dim1), x.axis(dim2)
    rest = [dim for dim in range(x.rank) if dim not in (a, b)]
    rows, columns = x.shape[a], x.shape[b]
    count = g.meta.shape[-1]
    if not (sizes.is_known(columns) and sizes.is_known(count)):
        raise Error("its diagonal is of dimensions whose sizes aren't numbers")
    moved = g.transpose(x, [*rest, a, b])
    outer = moved.shape[:-2]
    if sizes.number(count) == 0:
        return filled(g, 0, g.meta.shape, x.dtype)
    columns = sizes.number(columns)
    flat = g.reshape(moved, [*outer, rows * columns])
    return g.slice(flat, len(outer), offset if offset >= 0 else -offset * columns, count, columns + 1)


def _places(g, x, size, stride, offset):
    """Of elements by their places in memory, in a tensor that lies there as it is counted. An offset is counted from the memory's start, and so
    holds for inputs that lie where the example did; without one places are counted from the tensor."""
    node = g.node.args[0]
    start = node.meta["val"].storage_offset()
    if not node.meta["val"].is_contiguous() or not all(map(sizes.is_known, [start, *size, *stride, *x.shape])):
        raise Error("it takes memory by places, of a tensor that doesn't lie in order or has open sizes; use slices or unfold")
    places = torch.tensor(0 if offset is None else int(offset) - int(start))
    if offset is not None:
        g.placed.add(run.viewed(node))
    for dim, (count, step) in enumerate(zip(size, stride)):
        shape = [1] * len(size)
        shape[dim] = count
        places = places + torch.arange(count).mul(step).reshape(shape)
    if places.numel() and not 0 <= places.min() <= places.max() < node.meta["val"].numel():
        raise Error("it takes memory beyond the tensor's elements")
    return g.constant(places.expand(size).contiguous())


@lowers("aten.as_strided.default", "aten.as_strided_copy.default")
def _as_strided(g, x, size, stride, offset=None):
    places = _places(g, x, size, stride, offset)
    return g.op("gather", [g.reshape(x, [math.prod(map(sizes.number, x.shape))]), places], size, axis=0)


@lowers("aten.as_strided_scatter.default")
def _as_strided_scatter(g, x, source, size, stride, offset=None):
    places = _places(g, x, size, stride, offset)
    places, source = (g.reshape(part, [math.prod(map(sizes.number, size))]) for part in (places, source))
    flat = g.reshape(x, [math.prod(map(sizes.number, x.shape))])
    return g.reshape(g.op("scatter_elements", [flat, places, source], axis=0, reduction="none"), x.shape)


@lowers("aten.unfold.default", "aten.unfold_copy.default")
def _unfold(g, x, dim, size, step):
    """Windows along a dimension, read by their places."""
    if x.rank == 0:
        return g.reshape(x, g.meta.shape)
    axis, count = x.axis(dim), g.meta.shape[x.axis(dim)]
    if not sizes.is_known(count):
        raise Error("it takes windows of a dimension whose size isn't a number")
    places = torch.arange(sizes.number(count)).mul(step)[:, None] + torch.arange(size)
    shape = [*x.shape[:axis], count, size, *x.shape[axis + 1 :]]
    windows = g.op("gather", [x, g.constant(places)], shape, axis=axis)
    return g.transpose(windows, [*range(axis + 1), *range(axis + 2, windows.rank), axis + 1])


@lowers("aten.pixel_unshuffle.default")
def _pixel_unshuffle(g, x, factor):
    *batch, channels, height, width = x.shape
    n, r = len(batch), factor
    apart = g.reshape(x, [*batch, channels, height // r, r, width // r, r])
    return g.reshape(g.transpose(apart, [*range(n), n, n + 2, n + 4, n + 1, n + 3]), g.meta.shape)


@lowers("aten.fill.Scalar", "aten.fill.Tensor")
def _fill(g, x, value):
    return filled(g, value, x.shape, x.dtype)


@lowers("aten.eye.default", "aten.eye.m")
def _eye(g, *_, **__):
    rows, columns = (g.op("iota", [], g.meta.shape, torch.int64, typed=True, axis=axis) for axis in (0, 1))
    return g.cast(g.binary("equal", rows, columns, torch.bool), g.meta.dtype)


@lowers("aten.linspace.default")
def _linspace(g, start, end, steps, **_):
    return g.constant(torch.linspace(float(start), float(end), steps, dtype=g.meta.dtype))


@lowers("aten.logspace.default")
def _logspace(g, start, end, steps, base=10.0, **_):
    return g.constant(torch.logspace(float(start), float(end), steps, base, dtype=g.meta.dtype))

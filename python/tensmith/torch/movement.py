"""Operators that place elements elsewhere, read them at indices, or make them of nothing."""

import torch

from .. import Error
from . import sizes
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


# ---- read at indices ----


@lowers("aten.embedding.default")
def _embedding(g, weight, indices, *_):
    return g.op("gather", [weight, indices], g.meta.shape, axis=0)


@lowers("aten.index_select.default")
def _index_select(g, x, dim, indices):
    return g.op("gather", [x, indices], g.meta.shape, axis=x.axis(dim))


@lowers("aten.gather.default")
def _gather(g, x, dim, indices, sparse_grad=False):
    return g.op("gather_elements", [x, indices], indices.shape, axis=x.axis(dim))


@lowers("aten.index.Tensor")
def _index(g, x, indices):
    indices = list(indices)
    if any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices):
        raise Error("it is indexed by a mask, and so its size depends on data; use torch.where")
    places = [dim for dim, i in enumerate(indices) if i is not None]
    if len(places) == 1:
        return g.op("gather", [x, indices[places[0]]], g.meta.shape, axis=places[0])
    is_dense = places == list(range(places[0], places[-1] + 1))
    order = places + [dim for dim in range(x.rank) if dim not in places]
    moved = g.transpose(x, order)
    joint = sizes.broadcast(*(indices[dim].shape for dim in places))
    parts = [g.reshape(g.broadcast(g.cast(indices[dim], torch.int64), joint), [*joint, 1]) for dim in places]
    tuples = g.op("concat", parts, [*joint, len(parts)], torch.int64, axis=len(joint))
    taken = g.op("gather_nd", [moved, tuples], [*joint, *moved.shape[len(places) :]])
    if not is_dense or places[0] == 0:
        return taken
    # Results of adjacent indices stand where those were.
    first, count = places[0], len(joint)
    return g.transpose(taken, [*range(count, count + first), *range(count), *range(count + first, taken.rank)])


@lowers("aten.index_put.default", "aten._unsafe_index_put.default")
def _index_put(g, x, indices, values, accumulate=False):
    indices = list(indices)
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype == torch.bool and values.rank == 0:
        mask = g.reshape(indices[0], [*indices[0].shape, *[1] * (x.rank - indices[0].rank)])
        return g.op("where", [mask, g.binary("add", x, values) if accumulate else values, x], x.shape, x.dtype)
    if any(i is not None and i.dtype == torch.bool for i in indices):
        raise Error("it writes where a mask is; use torch.where")
    places = [dim for dim, i in enumerate(indices) if i is not None]
    order = places + [dim for dim in range(x.rank) if dim not in places]
    moved = g.transpose(x, order)
    joint = sizes.broadcast(*(indices[dim].shape for dim in places))
    parts = [g.reshape(g.broadcast(g.cast(indices[dim], torch.int64), joint), [*joint, 1]) for dim in places]
    tuples = g.op("concat", parts, [*joint, len(parts)], torch.int64, axis=len(joint))
    is_dense = places == list(range(places[0], places[-1] + 1))
    rest = list(moved.shape[len(places) :])
    if is_dense and places[0] > 0:
        first, count = places[0], len(joint)
        values = g.broadcast(values, [*rest[:first], *joint, *rest[first:]])
        values = g.transpose(values, [*range(first, first + count), *range(first), *range(first + count, values.rank)])
    else:
        values = g.broadcast(values, [*joint, *rest])
    written = g.op("scatter_nd", [moved, tuples, values], reduction="add" if accumulate else "none")
    return g.transpose(written, [order.index(dim) for dim in range(x.rank)])


@lowers("aten._unsafe_index.Tensor")
def _unsafe_index(g, x, indices):
    return _index(g, x, indices)


@lowers("aten.scatter.src", "aten.scatter.value", "aten.scatter_add.default")
def _scatter(g, x, dim, indices, source):
    source = g.broadcast(g.tensor(source, x.dtype), indices.shape) if not isinstance(source, Value) or source.rank == 0 else source
    if not g.same(source.shape, indices.shape):
        for axis, size in enumerate(indices.shape):
            source = g.slice(source, axis, 0, size)
    reduction = "add" if "scatter_add" in str(g.node.target) else "none"
    return g.op("scatter_elements", [x, indices, source], axis=x.axis(dim), reduction=reduction)


@lowers("aten.slice_scatter.default")
def _slice_scatter(g, x, source, dim=0, start=None, end=None, step=1):
    axis = x.axis(dim)
    if not (sizes.is_known(x.shape[axis]) and sizes.is_known(source.shape[axis])):
        if g.same(x.shape, source.shape):
            return source
        raise Error("it writes a slice of a dimension whose size isn't a number")
    start = 0 if start is None else start if start >= 0 else max(start + sizes.number(x.shape[axis]), 0)
    at = torch.arange(start, start + sizes.number(source.shape[axis]) * step, step)
    shape = [1] * x.rank
    shape[axis] = len(at)
    indices = g.broadcast(g.reshape(g.constant(at), shape), source.shape)
    return g.op("scatter_elements", [x, indices, source], axis=axis)


@lowers("aten.select_scatter.default")
def _select_scatter(g, x, source, dim, index):
    axis = x.axis(dim)
    wide = g.reshape(source, [*x.shape[:axis], 1, *x.shape[axis + 1 :]])
    index = index + sizes.number(x.shape[axis]) if index < 0 else index
    return _slice_scatter(g, x, wide, axis, index, index + 1)


@lowers("aten.topk.default")
def _topk(g, x, k, dim=-1, largest=True, sorted=True):
    shape = g.meta[0].shape
    return g.ops("topk", [x, g.ints([k])], [(shape, x.dtype), (shape, torch.int64)], axis=x.axis(dim), largest=largest, sorted=sorted)


@lowers("aten.sort.default", "aten.sort.stable")
def _sort(g, x, dim=-1, descending=False, stable=True):
    results = [(x.shape, x.dtype), (x.shape, torch.int64)]
    return g.ops("topk", [x, g.ints([x.shape[x.axis(dim)]])], results, axis=x.axis(dim), largest=descending, sorted=True)

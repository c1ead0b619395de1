"""Operators that read or write at indices, or where a mask is, and those that order elements."""

import torch

from .. import Error
from . import sizes
from .elementwise import choose, compare
from .lowering import Value, lowers
from .run import NO_INDEX


def from_front(g, indices):
    """Indices where PyTorch refuses negative ones, which ours would count from the end: a run refuses what they become."""
    indices = g.cast(indices, torch.int64)
    return choose(g, compare(g, "less", indices, g.scalar(0, torch.int64)), g.scalar(NO_INDEX, torch.int64), indices)


@lowers("aten.embedding.default")
def _embedding(g, weight, indices, *_):
    return g.op("gather", [weight, from_front(g, indices)], g.meta.shape, axis=0)


@lowers("aten.index_select.default")
def _index_select(g, x, dim, indices):
    x, indices = _with_dimensions(g, x, indices)
    shape = [*x.shape[: x.axis(dim)], indices.shape[0], *x.shape[x.axis(dim) + 1 :]]
    return g.reshape(g.op("gather", [x, from_front(g, indices)], shape, axis=x.axis(dim)), g.meta.shape)


@lowers("aten.gather.default")
def _gather(g, x, dim, indices, sparse_grad=False):
    shape = indices.shape
    x, indices = _with_dimensions(g, x, indices)
    if indices.rank != x.rank:  # of no elements
        return g.broadcast(g.scalar(0, x.dtype), shape)
    return g.reshape(g.op("gather_elements", [x, from_front(g, indices)], indices.shape, axis=x.axis(dim)), shape)


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
    if any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices):
        if len([i for i in indices if i is not None]) > 1 or indices[0] is None:
            raise Error("it writes where a mask is and at indices beside it; use torch.where")
        return _put_where(g, x, g.cast(indices[0], torch.bool), values, accumulate)
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


def _put_where(g, x, mask, values, accumulate):
    """Writes at the elements of the leading dimensions where the mask is true, from the values in their order, or the one that there is."""
    inner = list(x.shape[mask.rank :])
    wide = g.reshape(mask, [*mask.shape, *[1] * len(inner)])
    if values.rank == len(inner) + 1 and not (sizes.is_known(values.shape[0]) and sizes.number(values.shape[0]) == 1):
        values = g.broadcast(values, [values.shape[0], *inner])
        values = g.op("gather", [values, _numbers(g, mask, values.shape[0])], [*mask.shape, *inner], axis=0)
    elif values.rank == len(inner) + 1:
        values = g.reshape(values, values.shape[1:])
    new = g.binary("add", x, values) if accumulate and x.dtype != torch.bool else g.binary("or", x, values) if accumulate else values
    return choose(g, wide, g.broadcast(new, x.shape), x)


def _numbers(g, mask, count):
    """For each element of a mask how many before it are true, kept to the places that there are."""
    total = 1
    for size in mask.shape:
        total = total * size
    flat = g.cast(g.reshape(mask, [total]), torch.int64)
    before = g.op("cumsum", [flat], axis=0, exclusive=True)
    last = g.size(count - 1) if not sizes.is_known(count) else g.scalar(max(sizes.number(count) - 1, 0), torch.int64)
    return g.reshape(g.binary("min", before, last), mask.shape)


@lowers("aten.masked_scatter.default")
def _masked_scatter(g, x, mask, source):
    shape = g.meta.shape
    x, mask = g.broadcast(x, shape), g.broadcast(g.cast(mask, torch.bool), shape)
    count = 1
    for size in source.shape:
        count = count * size
    if sizes.is_known(count) and sizes.number(count) == 0:
        return x
    taken = g.op("gather", [g.reshape(source, [count]), _numbers(g, mask, count)], shape, axis=0)
    return choose(g, mask, taken, x)


@lowers("aten._unsafe_index.Tensor")
def _unsafe_index(g, x, indices):
    return _index(g, x, indices)


def _source(g, source, indices, dtype):
    """What is written, as far as there are indices for it."""
    if not isinstance(source, Value) or source.rank == 0:
        return g.broadcast(g.tensor(source, dtype), indices.shape)
    for axis, size in enumerate(indices.shape):
        if not g.same([source.shape[axis]], [size]):
            source = g.slice(source, axis, 0, size)
    return g.cast(source, dtype)


def _with_dimensions(g, *values):
    """Those without dimensions as vectors of one."""
    return [g.reshape(x, [1]) if isinstance(x, Value) and x.rank == 0 else x for x in values]


_REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min", "mean": "add"}


@lowers("aten.scatter.src", "aten.scatter.value", "aten.scatter.reduce", "aten.scatter.value_reduce", "aten.scatter_add.default")
def _scatter(g, x, dim, indices, source, *, reduce=None):
    shape = x.shape
    x, indices = _with_dimensions(g, x, indices)
    source = source if not isinstance(source, Value) else _with_dimensions(g, source)[0]
    if indices.rank != x.rank:  # an index of no elements may be of any rank
        return g.reshape(x, shape)
    reduction = "add" if "scatter_add" in str(g.node.target) else _REDUCTIONS[reduce] if reduce else "none"
    return g.reshape(_scattered(g, x, dim, from_front(g, indices), _source(g, source, indices, x.dtype), reduction), shape)


def _scattered(g, x, dim, indices, source, reduction):
    if x.dtype == torch.bool and reduction != "none":  # sums and products of truths
        name = {"add": "max", "max": "max", "mul": "min", "min": "min"}[reduction]
        return g.cast(_scattered(g, g.cast(x, torch.int32), dim, indices, g.cast(source, torch.int32), name), torch.bool)
    return g.op("scatter_elements", [x, indices, source], axis=x.axis(dim), reduction=reduction)


def _least(dtype):
    return False if dtype == torch.bool else -float("inf") if dtype.is_floating_point else torch.iinfo(dtype).min


def _largest(dtype):
    return True if dtype == torch.bool else float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max


@lowers("aten.scatter_reduce.two", "aten.index_reduce.default")
def _scatter_reduce(g, x, dim, indices, source, reduce, *, include_self=True):
    shape, dtype = x.shape, x.dtype
    x, indices, source = _with_dimensions(g, x, indices, source)
    if "index_reduce" in str(g.node.target):
        indices = _along(g, x, indices, dim, source.shape)
    if indices.rank != x.rank:
        return g.reshape(x, shape)
    indices, source = from_front(g, indices), _source(g, source, indices, dtype)
    if not include_self:  # begin with what changes nothing
        neutral = {"sum": 0, "mean": 0, "prod": 1, "amax": _least(dtype), "amin": _largest(dtype)}[reduce]
        x = _scattered(g, x, dim, indices, g.broadcast(g.scalar(neutral, dtype), source.shape), "none")
    y = _scattered(g, x, dim, indices, source, _REDUCTIONS[reduce])
    if reduce == "mean":
        ones, start = g.broadcast(g.scalar(1, dtype), source.shape), g.broadcast(g.scalar(1 if include_self else 0, dtype), x.shape)
        count = g.binary("max", _scattered(g, start, dim, indices, ones, "add"), g.scalar(1, dtype))
        if dtype.is_floating_point:
            y = g.binary("div", y, count)
        else:
            y = g.binary("div", g.binary("sub", y, g.binary("mod", y, count)), count)
    return g.reshape(y, shape)


def _along(g, x, indices, dim, shape):
    """Indices of slices as those of their elements."""
    axis = x.axis(dim)
    column = [1] * x.rank
    column[axis] = indices.shape[0]
    return g.broadcast(g.reshape(indices, column), shape)


@lowers("aten.index_add.default")
def _index_add(g, x, dim, indices, source, *, alpha=1):
    shape = x.shape
    x, indices, source = _with_dimensions(g, x, indices, source)
    if alpha != 1:
        source = g.binary("mul", source, g.tensor(alpha, source.dtype))
    source = g.cast(source, x.dtype)
    return g.reshape(_scattered(g, x, dim, _along(g, x, from_front(g, indices), dim, source.shape), source, "add"), shape)


@lowers("aten.index_copy.default")
def _index_copy(g, x, dim, indices, source):
    shape = x.shape
    x, indices, source = _with_dimensions(g, x, indices, source)
    return g.reshape(_scattered(g, x, dim, _along(g, x, from_front(g, indices), dim, source.shape), source, "none"), shape)


@lowers("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def _index_fill(g, x, dim, indices, value):
    shape = x.shape
    x, indices = _with_dimensions(g, x, indices)
    wide = [*x.shape[: x.axis(dim)], indices.shape[0], *x.shape[x.axis(dim) + 1 :]]
    source = g.broadcast(g.tensor(value, x.dtype), wide)
    return g.reshape(_scattered(g, x, dim, _along(g, x, indices, dim, wide), source, "none"), shape)


@lowers("aten.take.default")
def _take(g, x, indices):
    count = 1
    for size in x.shape:
        count = count * size
    return g.op("gather", [g.reshape(x, [count]), indices], indices.shape, axis=0)


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
    return _ordered(g, x, k, dim, largest)


def _ordered(g, x, k, dim, is_largest):
    """The first k of the order, with their indices; truths are ordered as numbers."""
    shape, dtype = g.meta[0].shape, x.dtype
    [x] = _with_dimensions(g, g.cast(x, torch.int32) if dtype == torch.bool else x)
    sorted_ = [*x.shape[: x.axis(dim)], k, *x.shape[x.axis(dim) + 1 :]]
    results = g.ops("topk", [x, g.ints([k])], [(sorted_, x.dtype), (sorted_, torch.int64)], axis=x.axis(dim), largest=is_largest, sorted=True)
    return [g.reshape(g.cast(results[0], dtype), shape), g.reshape(results[1], shape)]


@lowers("aten.kthvalue.default")
def _kthvalue(g, x, k, dim=-1, keepdim=False):
    [x] = _with_dimensions(g, x)
    axis, shape = x.axis(dim), [*x.shape[: x.axis(dim)], k, *x.shape[x.axis(dim) + 1 :]]
    parts = g.ops("topk", [x, g.ints([k])], [(shape, x.dtype), (shape, torch.int64)], axis=axis, largest=False, sorted=True)
    return [g.reshape(g.slice(part, axis, k - 1, 1), meta.shape) for part, meta in zip(parts, g.meta)]


@lowers("aten.sort.default", "aten.sort.stable")
def _sort(g, x, *arguments, **named):
    """sort(x, dim, descending), or sort.stable(x, *, stable, dim, descending)."""
    dim, descending = (*arguments, *(-1, False)[len(arguments) :])
    dim, descending = named.get("dim", dim), named.get("descending", descending)
    return _ordered(g, x, x.shape[x.axis(dim)] if x.rank else 1, dim, descending)

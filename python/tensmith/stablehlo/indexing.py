"""Reading and writing at indices.

gather and scatter in general go by the places of a tensor's elements in row-major order: the place of each element that is read or written is
arithmetic on the indices. What is a row or a slice of one dimension, as nearly all are, is told apart first.
"""

import math

from .. import Error
from . import scalars
from .graph import lowers
from .movement import ints_of


def _known(shape, what):
    if not all(isinstance(size, int) for size in shape):
        raise Error(f"{what} has open sizes, which are known for rows of one dimension alone")
    return list(shape)


def _vector_last(g, indices, dim):
    """With the dimension that holds an index's numbers last."""
    if dim == indices.rank:
        return g.reshape(indices, [*indices.shape, 1])
    return g.transpose(indices, [i for i in range(indices.rank) if i != dim] + [dim])


@lowers("stablehlo.gather", "stablehlo.dynamic_gather")
def _gather(g, operation, x, indices, *sizes):
    from jaxlib.mlir.dialects import stablehlo as hlo

    numbers = hlo.GatherDimensionNumbers(operation.attributes["dimension_numbers"])
    offset, collapsed, mapped = (list(part) for part in (numbers.offset_dims, numbers.collapsed_slice_dims, numbers.start_index_map))
    batching, batching_of = list(numbers.operand_batching_dims), list(numbers.start_indices_batching_dims)
    slices = g.sizes_in(sizes[0]) if sizes else ints_of(operation, "slice_sizes")
    indices = _vector_last(g, g.cast(indices, "i64"), numbers.index_vector_dim)
    batch = list(indices.shape[:-1])
    rank = len(batch) + len(offset)
    places = [dim for dim in range(rank) if dim not in offset]
    if len(mapped) == 1 and collapsed == mapped and not batching and all(slices[i] == x.shape[i] for i in range(x.rank) if i != mapped[0]):
        axis = mapped[0]
        size = g.reshape(g.op("shape", [x], start=axis, end=axis + 1), [])
        last = g.op("sub", [size, g.scalar(1, "i64")])
        rows = g.clamp(g.reshape(indices, batch), g.scalar(0, "i64"), last)
        y = g.op("gather", [x, rows], axis=axis)  # before, batch, after
        inner = [*range(axis), *range(axis + len(batch), y.rank)]
        order = [0] * rank
        for dim, source in zip(places, range(axis, axis + len(batch))):
            order[dim] = source
        for dim, source in zip(offset, inner):
            order[dim] = source
        return g.transpose(y, order)
    shape = [0] * rank
    kept = [dim for dim in range(x.rank) if dim not in collapsed and dim not in batching]
    for dim, size in zip(places, _known(batch, "the indices")):
        shape[dim] = size
    for dim, source in zip(offset, kept):
        shape[dim] = slices[source]
    spread = _Places(g, _known(x.shape, "what is read"), indices, places, rank)
    place = spread.of(mapped, dict(zip(batching, batching_of)), numbers.index_vector_dim, dict(zip(kept, offset)), slices, shape, is_clamped=True)
    flat = g.reshape(x, [math.prod(x.shape)])
    return g.reshape(g.op("gather", [flat, g.broadcast(place, shape)], axis=0), shape)


class _Places:
    """The arithmetic of places: for each element of a result, where it lies in a tensor of a shape."""

    def __init__(self, g, shape, indices, places, rank):
        self._g, self._shape, self._indices, self._places, self._rank = g, shape, indices, places, rank
        self.is_inside = None  # where indices are not clamped: which elements lie in the tensor

    def _start(self, k):
        """Index k's number, along the result's dimensions of the batch."""
        g, batch = self._g, list(self._indices.shape[:-1])
        starts = [0] * len(batch) + [k]
        number = g.slice(self._indices, starts, [*batch, 1])
        wide = [1] * self._rank
        for dim, size in zip(self._places, batch):
            wide[dim] = size
        return g.reshape(number, wide)

    def _count(self, dim, size):
        shape = [1] * self._rank
        shape[dim] = size
        return self._g.iota(shape, dim)

    def of(self, mapped, batching, index_vector_dim, offsets, slices, shape, is_clamped):
        g, place, stride = self._g, self._g.scalar(0, "i64"), math.prod(self._shape)
        for dim, size in enumerate(self._shape):
            stride = stride // size if size else 0
            at = None
            if dim in mapped:
                at = self._start(mapped.index(dim))
                if not is_clamped:
                    self._check(at, size - slices[dim])
                else:
                    at = g.clamp(at, g.scalar(0, "i64"), g.scalar(max(size - slices[dim], 0), "i64"))
            elif dim in batching:
                number = batching[dim] - (1 if batching[dim] > index_vector_dim else 0)
                at = self._count(self._places[number], shape[self._places[number]])
            if dim in offsets:
                within = self._count(offsets[dim], slices[dim])
                at = within if at is None else g.op("add", [at, within])
            if at is None:
                continue
            place = g.op("add", [place, g.op("mul", [at, g.scalar(stride, "i64")])])
        return place

    def _check(self, start, last):
        """A window that lies outside in part is left out as a whole, as XLA has it."""
        g = self._g
        here = g.op("and", [g.op("greater_or_equal", [start, g.scalar(0, "i64")]), g.op("less_or_equal", [start, g.scalar(last, "i64")])])
        self.is_inside = here if self.is_inside is None else g.op("and", [self.is_inside, here])


@lowers("stablehlo.scatter")
def _scatter(g, operation, *operands):
    """Into the elements in a row, with one more behind them that takes what lies outside."""
    from jaxlib.mlir.dialects import stablehlo as hlo

    if len(operands) != 3:
        raise Error("it writes several tensors at once")
    x, indices, updates = operands
    name = scalars.combination(operation.regions[0])
    if name not in ("add", "mul", "min", "max", "none"):
        raise Error(f"it combines by {name}, which isn't known of what is written")
    numbers = hlo.ScatterDimensionNumbers(operation.attributes["scatter_dimension_numbers"])
    window, inserted = list(numbers.update_window_dims), list(numbers.inserted_window_dims)
    mapped = list(numbers.scattered_dims_to_operand_dims)
    batching, batching_of = list(numbers.input_batching_dims), list(numbers.scatter_indices_batching_dims)
    indices = _vector_last(g, g.cast(indices, "i64"), numbers.index_vector_dim)
    places = [dim for dim in range(updates.rank) if dim not in window]
    kept = [dim for dim in range(x.rank) if dim not in inserted and dim not in batching]
    shape, whole = _known(updates.shape, "what is written"), _known(x.shape, "the result")
    slices = [1] * x.rank
    for dim, source in zip(kept, window):
        slices[dim] = shape[source]
    spread = _Places(g, whole, indices, places, updates.rank)
    place = spread.of(mapped, dict(zip(batching, batching_of)), numbers.index_vector_dim, dict(zip(kept, window)), slices, shape, is_clamped=False)
    return written(g, x, g.broadcast(place, shape), spread.is_inside, updates, name)


def written(g, x, place, is_inside, updates, name):
    dtype, count = x.dtype, math.prod(x.shape)
    if is_inside is not None:
        place = g.where(is_inside, place, g.scalar(count, "i64"))
    if dtype == "bool":
        x, updates = g.cast(x, "i32"), g.cast(updates, "i32")
    flat = g.op("concat", [g.reshape(x, [count]), g.broadcast(g.scalar(0, x.dtype), [1])], axis=0)
    total = math.prod(updates.shape)
    y = g.op("scatter_elements", [flat, g.reshape(g.broadcast(place, updates.shape), [total]), g.reshape(updates, [total])], axis=0, reduction=name)
    return g.cast(g.reshape(g.slice(y, [0], [count]), x.shape), dtype)


@lowers("stablehlo.dynamic_slice")
def _dynamic_slice(g, operation, x, *starts):
    """Along each dimension that isn't taken whole, the places from a start on that is kept inside."""
    for dim, (size, start) in enumerate(zip(ints_of(operation, "slice_sizes"), starts)):
        if x.shape[dim] != size:
            x = g.op("gather", [x, _from(g, x, dim, start, size)], axis=dim)
    return x


def _from(g, x, dim, start, size):
    whole = x.shape[dim]
    length = g.scalar(whole, "i64") if isinstance(whole, int) else g.reshape(g.op("shape", [x], start=dim, end=dim + 1), [])
    start = g.clamp(g.cast(start, "i64"), g.scalar(0, "i64"), g.op("sub", [length, g.scalar(size, "i64")]))
    return g.op("add", [g.reshape(start, [1]), g.iota([size], 0)])


@lowers("stablehlo.dynamic_update_slice")
def _dynamic_update_slice(g, operation, x, update, *starts):
    parts = [dim for dim in range(x.rank) if x.shape[dim] != update.shape[dim]]
    if not parts:
        return update
    if parts == [0] and isinstance(update.shape[0], int):
        rows = g.reshape(_from(g, x, 0, starts[0], update.shape[0]), [update.shape[0], 1])
        return g.op("scatter_nd", [x, rows, update], reduction="none")
    shape, place = _known(update.shape, "what is written"), g.scalar(0, "i64")
    stride = math.prod(_known(x.shape, "the result"))
    for dim, size in enumerate(x.shape):
        stride = stride // size if size else 0
        wide = [1] * x.rank
        wide[dim] = shape[dim]
        at = g.reshape(_from(g, x, dim, starts[dim], shape[dim]), wide)
        place = g.op("add", [place, g.op("mul", [at, g.scalar(stride, "i64")])])
    return written(g, x, place, None, update, "none")

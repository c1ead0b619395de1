"""Elements at places that tensors tell, which differ from call to call: gathers and scatters of the graph, by NumPy's rules. That the places are there is asked
first: by an assumption of a converted call, or by a read of a co-executed step; elsewhere the graph fails where one is not. Places that are the same in each call
are numbers: a mask of these is the places where it is true.
"""

import contextlib
import math
import operator as operators

from .. import _eager
from .. import numpy as tnp
from ..numpy import creation
from ..numpy.dtypes import REAL_FLOATING, SIGNED, UNSIGNED, Tensor
from ..recorded.operators import operator
from .scalars import NotConvertible


class Places:
    """How a recording knows of an index. is_open: whether a tensor differs; truth: whether one of one truth may be taken to hold; plain: a number of the key as
    Python's; read: an integer of a tensor that doesn't differ."""

    def __init__(self, is_open, truth, plain, read):
        self.is_open, self.truth, self.plain, self.read = is_open, truth, plain, read


def of_calls(calls):
    r = calls.recording
    return Places(r.is_active, calls.holds, calls.plain, lambda function: r.quietly(function))


def item(calls, x, key):
    """x[key], of which tensors differ."""
    return taken(of_calls(calls), x, key)


def taken(known, x, key):
    index = _Index(known, x, key)
    return index.taken() if index.places else index.base


def put(known, x, key, values):
    """x[key] = values. Of places that are told twice, one of the values is there afterwards."""
    mask = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    if isinstance(mask, Tensor) and mask.dtype == tnp.bool and known.is_open(mask):
        return _put_where(x, mask, values)
    index = _Index(known, x, key)
    if index.places:
        index.put(values)
    else:
        index.base[...] = values


@contextlib.contextmanager
def by_the_graph():
    """Within it the thread takes and puts elements at places that tensors tell by operators of the graph, which fails in a run where a place is not there: for
    recordings that must not read elements."""
    before = _eager.set_gathering(_at)
    try:
        yield
    finally:
        _eager.set_gathering(before)


def _is_recorded(x):
    return any(tape.is_active(x) for tape in _eager.recording())


# What differs is checked by the graph.
_RECORDED = Places(_is_recorded, lambda x: True if _is_recorded(x) else bool(x), lambda number: number, lambda function: function())


def _at(x, key, *values):
    """x[key], or x[key] = values."""
    key = tuple(_told(each) for each in (key if isinstance(key, tuple) else (key,)))
    try:
        if not values:
            return taken(_RECORDED, x, key)
        (values,) = values
        return put(_RECORDED, x, key, values if isinstance(values, Tensor) else creation.asarray(values, dtype=x.dtype))
    except NotConvertible as error:
        raise IndexError(str(error)) from None


def _told(each):
    """A list or an array of NumPy's as a tensor, and one of its numbers as Python's."""
    if isinstance(each, (Tensor, slice, int)) or each is None or each is Ellipsis:
        return each
    if getattr(each, "ndim", 1) == 0 and hasattr(each, "__index__"):
        with contextlib.suppress(TypeError):
            return operators.index(each)
    return creation.asarray(each, dtype=tnp.int64) if isinstance(each, list) and not each else creation.asarray(each, copy=True)


def _put_where(x, mask, values):
    """x[mask] = values, one for all places or for all rows."""
    values = tnp.astype(values, x.dtype)
    if mask.shape != x.shape[: mask.ndim]:
        raise IndexError(f"a mask of shape {mask.shape} is an index of a tensor of shape {x.shape}")
    if values.ndim > x.ndim - mask.ndim:
        raise NotConvertible("how many places a mask chooses differs from call to call; give one value for all of them, or use where")
    x[...] = tnp.where(tnp.reshape(mask, mask.shape + (1,) * (x.ndim - mask.ndim)), values, x)


class _Index:
    """Numbers, slices and tensors of integers by which a tensor is indexed.

    base: a view of the tensor by all but the tensors; axes: those of it that the tensors, `places`, are places of; at: where the result has the tensors' dimensions,
    among the base's others.
    """

    def __init__(self, known, x, key):
        items, gap = _items(known, x, key)
        beside = tuple(slice(None) if isinstance(each, Tensor) else each for each in items)
        self.base = x if all(isinstance(each, slice) and each == slice(None) for each in beside) else x[beside]
        self.axes, self.places = [], []
        axis = 0
        for each in items:
            if isinstance(each, Tensor):
                self.axes.append(axis)
                self.places.append(_present(known.truth, each, self.base.shape[axis]))
            axis += not isinstance(each, int)
        if not self.places:
            return
        told = [i for i, each in enumerate(items) if isinstance(each, (int, Tensor))]
        self.shape = tnp.broadcast_shapes(*(each.shape for each in self.places))
        is_together = told[-1] - told[0] == len(told) - 1 and not told[0] < gap <= told[-1]
        self.at = sum(not isinstance(each, int) for each in items[: told[0]]) if is_together else 0
        self.others = [axis for axis in range(self.base.ndim) if axis not in self.axes]

    def taken(self):
        if len(self.axes) == 1:
            (axis,), (places,) = self.axes, self.places
            shape = [*self.base.shape[:axis], *self.shape, *self.base.shape[axis + 1 :]]
            (result,) = operator("gather", [self.base, places], [(self.base.dtype, shape)], axis=axis)
            return _in_order(result, axis, self.at, len(self.shape))
        (result,) = operator("gather_nd", [self._first(), self._tuples()], [(self.base.dtype, [*self.shape, *self._rest()])], fixed_sizes=[len(self.axes)])
        return _in_order(result, 0, self.at, len(self.shape))

    def put(self, values):
        rest = self._rest()
        values = tnp.astype(values, self.base.dtype)
        while values.ndim > len(self.shape) + len(rest) and values.shape[0] == 1:
            values = values[0]
        values = tnp.broadcast_to(values, (*rest[: self.at], *self.shape, *rest[self.at :]))
        first, tuples, values = self._first(), self._tuples(), _in_order(values, self.at, 0, len(self.shape))
        if first.dtype in REAL_FLOATING and any(size > 1 for size in self.shape):
            # What is written over has no derivative. The last value is added to what leaves it as it is, a zero's sign too.
            values = tnp.where(self._last(first, tuples, len(rest)), values, -0.0)
            first = _scattered(_scattered(first, tuples, tnp.full_like(values, -0.0)), tuples, values, reduction="add")
        else:
            first = _scattered(first, tuples, values)
        written = first
        order = [*self.axes, *self.others]
        self.base[...] = tnp.permute_dims(written, tuple(order.index(axis) for axis in range(len(order))))

    def _last(self, first, tuples, rest):
        """Which values no later one is put over."""
        count, shape = len(self.axes), list(first.shape)
        numbers = tnp.reshape(creation.arange(math.prod(self.shape)), self.shape)
        last = _scattered(creation.zeros(shape[:count], dtype=tnp.int64), tuples, numbers)
        (there,) = operator("gather_nd", [last, tuples], [(tnp.int64, list(self.shape))], fixed_sizes=[count])
        return tnp.reshape(there == numbers, (*self.shape, *[1] * rest))

    def _first(self):
        """The base with the tensors' axes before the others."""
        return tnp.permute_dims(self.base, (*self.axes, *self.others))

    def _tuples(self):
        return tnp.stack([tnp.broadcast_to(each, self.shape) for each in self.places], axis=-1)

    def _rest(self):
        return [self.base.shape[axis] for axis in self.others]


def _scattered(x, tuples, values, **how):
    (result,) = operator("scatter_nd", [x, tuples, values], [(x.dtype, list(x.shape))], fixed_sizes=[tuples.shape[-1]], **how)
    return result


def _items(known, x, key):
    """The key's items, one for each dimension and for each new one; and the number of the first that stands behind an ellipsis, which may be for none."""
    items = []
    for each in key if isinstance(key, tuple) else (key,):
        items += _numbers(known, each) if isinstance(each, Tensor) else [known.plain(each)]
    for each in items:
        if not (isinstance(each, (Tensor, slice)) or each is None or each is Ellipsis or type(each) is int):
            raise NotConvertible(f"tensors that differ from call to call are an index beside a {type(each).__qualname__}")
    count = sum(each is not None and each is not Ellipsis for each in items)
    if count > x.ndim:
        raise IndexError(f"{count} indices for a tensor of {x.ndim} dimensions")
    gaps = [i for i, each in enumerate(items) if each is Ellipsis]
    if len(gaps) > 1:
        raise IndexError("an index has one ... at most")
    place = gaps[0] if gaps else len(items)
    items[place : place + 1] = [slice(None)] * (x.ndim - count)
    return items, place + x.ndim - count


def _numbers(known, x):
    """A tensor of an index as integers: as Python's where it is one that doesn't differ."""
    is_open = known.is_open(x)
    if x.dtype == tnp.bool and is_open:
        raise NotConvertible("tensors that differ from call to call are an index, and a mask chooses as many elements as it happens to; use where")
    if x.dtype == tnp.bool:
        return list(known.read(lambda: tnp.nonzero(tnp.reshape(x, (1,)) if x.ndim == 0 else x)))
    if x.dtype not in SIGNED + UNSIGNED:
        raise NotConvertible(f"an index has elements of {x.dtype}; integers and truths are one")
    if x.ndim == 0 and not is_open:
        return [int(known.read(x.item))]
    return [x if x.dtype in SIGNED else tnp.astype(x, tnp.int64)]


def _in_order(x, begin, to, count):
    """x with `count` dimensions from `begin` on moved to begin at `to`, among the others."""
    if begin == to or not count:
        return x
    moved = list(range(begin, begin + count))
    others = [axis for axis in range(x.ndim) if axis not in moved]
    return tnp.permute_dims(x, tuple(others[:to] + moved + others[to:]))


def take_along_axis(calls, x, indices, /, *, axis=-1):
    return along_axis(calls.holds, x, indices, axis)


def along_axis(truth, x, indices, axis):
    axis %= x.ndim
    shape = tnp.broadcast_shapes(x.shape[:axis] + (1,) + x.shape[axis + 1 :], indices.shape[:axis] + (1,) + indices.shape[axis + 1 :])
    x = tnp.broadcast_to(x, shape[:axis] + (x.shape[axis],) + shape[axis + 1 :])
    indices = tnp.broadcast_to(indices, shape[:axis] + (indices.shape[axis],) + shape[axis + 1 :])
    return _eager.apply("gather_elements", [x, _present(truth, indices, x.shape[axis])], {"axis": axis})


def _present(truth, indices, count):
    """The places counted from the begin; one before it stays what it is, and fails where the graph runs."""
    if not truth(tnp.all((indices >= -count) & (indices < count))):
        raise IndexError("an index is out of range")
    indices = tnp.astype(indices, tnp.int64)
    return tnp.where((indices < 0) & (indices >= -count), indices + count, indices)

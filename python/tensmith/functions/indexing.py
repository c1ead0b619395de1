"""Elements at places that a tensor tells, which differ from call to call: gathers of the graph. That the places are there is asked first: by an
assumption of a converted call, or by a read of a co-executed step.
"""

from .. import _eager
from .. import numpy as tnp
from ..numpy.dtypes import SIGNED, Tensor
from ..recorded.operators import operator
from .scalars import NotConvertible


def item(calls, x, key):
    """x[key], of which one tensor of integers differs."""
    return gathered(calls.holds, calls.plain, x, key)


def gathered(truth, plain, x, key):
    """truth: whether a tensor of one truth may be taken to hold; plain: a number of the key as Python's."""
    key = key if isinstance(key, tuple) else (key,)
    places = [i for i, each in enumerate(key) if isinstance(each, Tensor)]
    rest = [slice(None) if isinstance(each, Tensor) else plain(each) for each in key]
    if len(places) != 1 or any(not isinstance(each, (int, slice)) for each in rest) or key[places[0]].dtype not in SIGNED:
        raise NotConvertible("tensors that differ from call to call are an index; one of integers beside numbers and slices has a conversion")
    axis, indices = places[0], key[places[0]]
    axis -= sum(isinstance(each, int) for each in rest[:axis])
    if any(each != slice(None) for each in rest):
        if indices.ndim:
            raise NotConvertible("a tensor that differs from call to call is an index beside others; index one after the other")
        x = x[tuple(rest)]
    shape = [*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]]
    (result,) = operator("gather", [x, _present(truth, indices, x.shape[axis])], [(x.dtype, shape)], axis=axis)
    return result


def take_along_axis(calls, x, indices, /, *, axis=-1):
    return along_axis(calls.holds, x, indices, axis)


def along_axis(truth, x, indices, axis):
    axis %= x.ndim
    shape = tnp.broadcast_shapes(x.shape[:axis] + (1,) + x.shape[axis + 1 :], indices.shape[:axis] + (1,) + indices.shape[axis + 1 :])
    x = tnp.broadcast_to(x, shape[:axis] + (x.shape[axis],) + shape[axis + 1 :])
    indices = tnp.broadcast_to(indices, shape[:axis] + (indices.shape[axis],) + shape[axis + 1 :])
    return _eager.apply("gather_elements", [x, _present(truth, indices, x.shape[axis])], {"axis": axis})


def _present(truth, indices, count):
    """The places counted from the begin; `count`, which fails where the graph runs, for one before it."""
    if not truth(tnp.all((indices >= -count) & (indices < count))):
        raise IndexError("an index is out of range")
    indices = tnp.astype(indices, tnp.int64)
    return tnp.where(indices < -count, count, tnp.where(indices < 0, indices + count, indices))

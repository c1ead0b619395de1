"""Statistics, searching, sorting and sets, as the array API standard has them."""

import collections

from .. import _eager
from . import creation, dtypes, manipulation
from .dtypes import Tensor, as_dtype
from .manipulation import axes_of, axis_of

__all__ = [
    "all", "any", "argmax", "argmin", "argsort", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "max", "mean",
    "min", "nonzero", "prod", "searchsorted", "sort", "std", "sum", "unique_all", "unique_counts", "unique_inverse",
    "unique_values", "var",
]  # fmt: skip

_sub, _ne, _isnan = _eager.binary("subtract"), _eager.binary("not_equal"), _eager.unary("isnan")


def _reduced(op, x, axis, keepdims):
    return _eager.apply(op, [x], {"axes": axes_of(axis, x.ndim), "keepdims": bool(keepdims)})


def _summed_type(x, dtype):
    if dtype is not None:
        return as_dtype(dtype)
    if x.dtype in dtypes.UNSIGNED:
        return dtypes.uint64
    return dtypes.int64 if x.dtype in dtypes.SIGNED or x.dtype == dtypes.bool else x.dtype


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    return _reduced("sum", _eager.cast(x, _summed_type(x, dtype)), axis, keepdims)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    return _reduced("prod", _eager.cast(x, _summed_type(x, dtype)), axis, keepdims)


def _extreme(op, x, axis, keepdims):
    if any_empty(x, axis):
        raise ValueError("the largest or smallest of no elements is not defined")
    if x.dtype in dtypes.COMPLEX_FLOATING:
        raise TypeError("complex numbers have no order")
    return _reduced(op, x, axis, keepdims)


def any_empty(x, axis):
    axes = axes_of(axis, x.ndim)
    return any_of(x.shape[each] == 0 for each in axes) and not any_of(x.shape[i] == 0 for i in range(x.ndim) if i not in axes)


def any_of(truths):
    for each in truths:
        if each:
            return True
    return False


def max(x, /, *, axis=None, keepdims=False):
    return _extreme("amax", x, axis, keepdims)


def min(x, /, *, axis=None, keepdims=False):
    return _extreme("amin", x, axis, keepdims)


def any(x, /, *, axis=None, keepdims=False):
    return _reduced("any", x, axis, keepdims)


def all(x, /, *, axis=None, keepdims=False):
    return _reduced("all", x, axis, keepdims)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    return _reduced("count_nonzero", x, axis, keepdims)


def _count(x, axis):
    count = 1
    for each in axes_of(axis, x.ndim):
        count *= x.shape[each]
    return count


def floating(x):
    """x in float64 where its elements are integers or booleans."""
    return x if x.dtype in dtypes.REAL_FLOATING + dtypes.COMPLEX_FLOATING else _eager.cast(x, dtypes.float64)


def _summable(x):
    """x in float32 where sums of its elements would soon exceed their type."""
    return _eager.cast(x, dtypes.float32) if x.dtype in (dtypes.float16, dtypes.bfloat16) else x


def _mean(x, axis, keepdims):
    return _reduced("sum", x, axis, keepdims) / _eager.full([], _count(x, axis), x.dtype)


def _squared_size(x):
    """|x|^2, which is real where x is complex."""
    if x.dtype not in dtypes.COMPLEX_FLOATING:
        return x * x
    re, im = (_eager.part(x, imaginary) for imaginary in (False, True))
    return re * re + im * im


def mean(x, /, *, axis=None, keepdims=False):
    x = floating(x)
    return _eager.cast(_mean(_summable(x), axis, keepdims), x.dtype)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    x = floating(x)
    summable = _summable(x)
    away = summable - _mean(summable, axis, keepdims=True)
    left = _count(x, axis) - correction
    total = _reduced("sum", _squared_size(away), axis, keepdims)
    return _eager.cast(total / _eager.full([], left if left > 0 else 0, total.dtype), dtypes.real_of(x.dtype))


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    return _eager.unary("sqrt")(var(x, axis=axis, correction=correction, keepdims=keepdims))


def _running(op, x, axis, dtype, include_initial, initial):
    if axis is None:
        if x.ndim != 1:
            raise ValueError("an axis is needed where the tensor has several dimensions")
        axis = 0
    axis = axis_of(axis, x.ndim)
    result = _eager.apply(op, [_eager.cast(x, _summed_type(x, dtype))], {"axis": axis})
    if not include_initial:
        return result
    shape = list(x.shape)
    shape[axis] = 1
    return manipulation.concat([_eager.full(shape, initial, result.dtype), result], axis=axis)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    return _running("cumulative_sum", x, axis, dtype, include_initial, 0)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    return _running("cumulative_prod", x, axis, dtype, include_initial, 1)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    axis = axis_of(axis, x.ndim)
    parts = [each for each in (prepend, x, append) if each is not None]
    x = manipulation.concat(parts, axis=axis) if len(parts) > 1 else x
    before = (slice(None),) * axis
    subtract = _ne if x.dtype == dtypes.bool else _sub
    for _ in range(n):
        x = subtract(x[before + (slice(1, None),)], x[before + (slice(None, -1),)])
    return x


# ---- searching and sorting


def _place(op, x, axis, keepdims):
    if axis is None:
        flat = _eager.apply(op, [manipulation.reshape(x, (-1,))], {"axis": 0})
        return manipulation.reshape(flat, (1,) * x.ndim) if keepdims else flat
    return _eager.apply(op, [x], {"axis": axis_of(axis, x.ndim), "keepdims": bool(keepdims)})


def argmax(x, /, *, axis=None, keepdims=False):
    return _place("argmax", x, axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    return _place("argmin", x, axis, keepdims)


def _along_last(op, x, axis, attributes):
    axis = axis_of(axis, x.ndim)
    return manipulation.moveaxis(_eager.apply(op, [manipulation.moveaxis(x, axis, -1)], attributes), -1, axis)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    if _eager.recording():  # where each element came from is what a derivative goes by
        return manipulation.take_along_axis(x, argsort(x, axis=axis, descending=descending), axis=axis)
    return _along_last("sort", x, axis, {"descending": bool(descending)})


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    return _along_last("argsort", x, axis, {"descending": bool(descending)})


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    if side not in ("left", "right"):
        raise ValueError("searchsorted: side is 'left' or 'right'")
    if not isinstance(x2, Tensor):
        x2 = _eager.from_list(x2, x1.dtype)
    dtype = dtypes.result_type(x1, x2)
    if sorter is not None:
        x1 = manipulation.take(x1, sorter)
    return _eager.apply("searchsorted", [_eager.cast(x1, dtype), _eager.cast(x2, dtype)], {"right": side == "right"})


def nonzero(x, /):
    if x.ndim == 0:
        raise ValueError("nonzero: a tensor without dimensions has no indices")
    return _eager.apply("nonzero", [x], {})


# ---- sets

_All = collections.namedtuple("unique_all_result", "values indices inverse_indices counts")
_Counts = collections.namedtuple("unique_counts_result", "values counts")
_Inverse = collections.namedtuple("unique_inverse_result", "values inverse_indices")


def unique_all(x, /):
    flat = manipulation.reshape(x, (-1,))
    order = argsort(flat)
    ordered = flat[order]
    size = flat.size
    if size == 0:
        none = creation.zeros(0, dtype=dtypes.int64)
        return _All(flat, none, creation.zeros(x.shape, dtype=dtypes.int64), none)
    is_first = manipulation.concat([creation.ones(1, dtype=dtypes.bool), ordered[1:] != ordered[:-1]])
    (firsts,) = nonzero(is_first)
    groups = cumulative_sum(is_first, dtype=dtypes.int64) - 1
    inverse = creation.zeros(size, dtype=dtypes.int64)
    inverse[order] = groups
    ends = manipulation.concat([firsts[1:], creation.full(1, size, dtype=dtypes.int64)])
    return _All(ordered[firsts], order[firsts], manipulation.reshape(inverse, x.shape), ends - firsts)


def unique_counts(x, /):
    found = unique_all(x)
    return _Counts(found.values, found.counts)


def unique_inverse(x, /):
    found = unique_all(x)
    return _Inverse(found.values, found.inverse_indices)


def unique_values(x, /):
    return unique_all(x).values

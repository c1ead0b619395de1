"""Tensors from numbers, lists, other libraries' arrays, and rules."""

import math

from .. import _eager
from . import dtypes
from .dtypes import Tensor, as_dtype, beside, placed

__all__ = [
    "arange", "array", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace",
    "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    dtype = as_dtype(dtype)
    if isinstance(obj, Tensor):
        there = placed(obj, device)
        is_moved = there is not obj
        if copy is False and (is_moved or dtype is not None and obj.dtype != dtype):
            raise ValueError("another device or element type needs a copy, and copy is False")
        if dtype is not None and there.dtype != dtype:
            return dtypes.astype(there, dtype)
        return _eager.copy(there) if copy and not is_moved else there
    if isinstance(obj, (bool, int, float, complex, list, tuple)):
        if copy is False:
            raise ValueError("numbers and lists have to be copied, and copy is False")
        return placed(_eager.from_list(_plain(obj), dtype), device)
    result = _from_other(obj, copy)
    if dtype is not None and result.dtype != dtype:
        if copy is False:
            raise ValueError("another element type needs a copy, and copy is False")
        return _finished(dtypes.astype(result, dtype, device=device))
    there = placed(result, device)
    if there is not result and copy is False:
        raise ValueError("another device needs a copy, and copy is False")
    return _finished(_eager.copy(there)) if copy and there is result else _finished(there) if there is not result else result


array = asarray


def _finished(copy):
    """Of another library's memory, which its owner may change once the copy is made."""
    copy.wait()
    return copy


def operand(value):
    """A tensor as it is; the elements of a NumPy array or number as a tensor of their own, since it may change before an operation runs."""
    return value if isinstance(value, Tensor) else asarray(value, copy=True)


def _plain(obj, depth=0):
    """Nested lists with arrays of other libraries as tensors. A list that contains itself has no end."""
    if isinstance(obj, (list, tuple)):
        if depth == 64:
            raise ValueError("lists are nested more than 64 deep")
        return [_plain(each, depth + 1) for each in obj]
    return obj if isinstance(obj, (bool, int, float, complex, Tensor)) else _from_other(obj, None)


def _from_other(obj, copy):
    if hasattr(obj, "__dlpack__"):
        try:
            return from_dlpack(obj)
        except (BufferError, TypeError, ValueError):
            if copy is False:
                raise
    if hasattr(obj, "__array__"):
        import numpy

        values = numpy.asarray(obj)
        if values.dtype.kind not in "biufc" and values.dtype.name != "bfloat16":
            raise TypeError(f"elements of type {values.dtype} can't be a tensor's")
        # DLPack refuses what may only be read and other byte orders; the elements are copied then.
        values = numpy.array(values, dtype=values.dtype.newbyteorder("="), order="C")
        return _eager.from_bytes(values.tobytes(), values.dtype.name, values.shape)
    try:
        return _from_buffer(memoryview(obj))
    except TypeError:
        raise TypeError(f"{type(obj).__name__} can't be made a tensor; give numbers, lists of them, or an array") from None


def _from_buffer(view):
    names = {"?": "bool", "b": "int8", "B": "uint8", "h": "int16", "H": "uint16", "i": "int32", "I": "uint32", "l": "int64",
             "L": "uint64", "q": "int64", "Q": "uint64", "e": "float16", "f": "float32", "d": "float64"}  # fmt: skip
    if view.format not in names:
        raise TypeError(view.format)
    return _eager.from_bytes(view.tobytes(), names[view.format], view.shape)


def from_dlpack(x, /, *, device=None, copy=None):
    if isinstance(x, Tensor):
        return asarray(x, device=device, copy=copy)
    if device not in (None, "cpu"):
        if copy is False:
            raise ValueError("another device needs a copy, and copy is False")
        return placed(from_dlpack(x, copy=copy), device)
    extra = {} if copy is None else {"copy": copy}
    if device is not None:
        extra["dl_device"] = (1, 0)
    try:
        return _eager.from_dlpack(x.__dlpack__(max_version=(1, 1), **extra))
    except TypeError:  # of before DLPack 1.0
        result = _eager.from_dlpack(x.__dlpack__())
        return _finished(_eager.copy(result)) if copy else result


def _shape(shape):
    shape = [shape] if isinstance(shape, int) else [int(size) for size in shape]
    if any(size < 0 for size in shape):
        raise ValueError(f"sizes of a shape are not negative, but the shape is {tuple(shape)}")
    return shape


def full(shape, fill_value, *, dtype=None, device=None):
    return placed(_filled(_shape(shape), fill_value, as_dtype(dtype)), device)


def _filled(shape, value, dtype):
    if isinstance(value, Tensor):
        return _eager.copy(_eager.broadcast_to(dtypes.astype(value, dtype or value.dtype, copy=False), shape))
    return _eager.full(shape, value, dtype or dtypes.result_type(value))


def zeros(shape, *, dtype=None, device=None):
    return placed(_eager.full(_shape(shape), 0, as_dtype(dtype) or dtypes.float64), device)


def ones(shape, *, dtype=None, device=None):
    return placed(_eager.full(_shape(shape), 1, as_dtype(dtype) or dtypes.float64), device)


def empty(shape, *, dtype=None, device=None):
    return zeros(shape, dtype=dtype, device=device)


def _like(made, x, device):
    return beside(made, x) if device is None else placed(made, device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    return _like(_filled(list(x.shape), fill_value, as_dtype(dtype) or x.dtype), x, device)


def zeros_like(x, /, *, dtype=None, device=None):
    return _like(_eager.full(list(x.shape), 0, as_dtype(dtype) or x.dtype), x, device)


def ones_like(x, /, *, dtype=None, device=None):
    return _like(_eager.full(list(x.shape), 1, as_dtype(dtype) or x.dtype), x, device)


def empty_like(x, /, *, dtype=None, device=None):
    return zeros_like(x, dtype=dtype, device=device)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    return placed(_sequence(start, stop, step, dtype), device)


def _sequence(start, stop, step, dtype):
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("arange: the step can't be 0")
    whole = all(isinstance(each, int) for each in (start, stop, step))
    dtype = as_dtype(dtype)
    size = max(-((start - stop) // step), 0) if whole else max(math.ceil((stop - start) / step), 0)
    if size >= 2**48:
        raise MemoryError(f"arange: there is no memory for {size} elements")
    if not whole:
        return _eager.apply("sequence", [], {"to": dtype or dtypes.float64, "size": size, "start": float(start), "step": float(step)})
    bounds = sorted((start, start + (size - 1) * step)) if size else (0, 0)
    dtype = dtype or (dtypes.int64 if bounds[1] < 2**63 else dtypes.uint64)
    if dtype not in dtypes.SIGNED + dtypes.UNSIGNED:
        return _eager.apply("sequence", [], {"to": dtype, "size": size, "start": float(start), "step": float(step)})
    limits = dtypes.iinfo(dtype)
    if bounds[0] < limits.min or bounds[1] > limits.max:
        raise OverflowError(f"arange: numbers from {bounds[0]} to {bounds[1]} are beyond the range of {dtype}")
    # The sum is taken modulo 2^64, of which an attribute holds the upper half as negative numbers.
    first, by = ((number + 2**63) % 2**64 - 2**63 for number in (start, step))
    return _eager.apply("sequence", [], {"to": dtype, "size": size, "first": first, "by": by})


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    return placed(_between(start, stop, num, dtype, endpoint), device)


def _between(start, stop, num, dtype, endpoint):
    _shape([num])
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    dtype = as_dtype(dtype) or (dtypes.complex128 if is_complex else dtypes.float64)
    if is_complex or dtype in dtypes.COMPLEX_FLOATING:
        start, stop = complex(start), complex(stop)
        re, im = (_between(a, b, num, None, endpoint) for a, b in ((start.real, stop.real), (start.imag, stop.imag)))
        return dtypes.astype(_complex(re, im), dtype, copy=False)
    intervals = num - 1 if endpoint else num
    indices = arange(num, dtype=dtypes.float64)
    # As a + (b - a) i / n, which is a and b themselves at the ends.
    step = (stop - start) / intervals if intervals > 0 else 0.0
    values = indices * step + start if step != 0 else indices / max(intervals, 1) * (stop - start) + start
    if endpoint and num > 1:
        values[-1] = stop
    return dtypes.astype(values, dtype, copy=False)


def _complex(re, im):
    result = _eager.full(re.shape, 0, dtypes.complex_of(re.dtype))
    _eager.part(result, False)[...] = re
    _eager.part(result, True)[...] = im
    return result


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    _shape([n_rows, n_cols or 0])
    rows = arange(n_rows)[:, None]
    columns = arange(n_rows if n_cols is None else n_cols)[None, :]
    k = min(max(k, -(2**62)), 2**62)  # beyond any size a diagonal is as good as that one
    return placed(_eager.cast(columns - rows == k, as_dtype(dtype) or dtypes.float64), device)


def _triangle(x, keep):
    if x.ndim < 2:
        raise ValueError("a triangle is taken of matrices: tensors of at least two dimensions")
    rows, columns = arange(x.shape[-2])[:, None], arange(x.shape[-1])[None, :]
    return _eager.where(keep(columns - rows), x, _eager.full([], 0, x.dtype))


def tril(x, /, *, k=0):
    return _triangle(x, lambda distance: distance <= min(max(k, -(2**62)), 2**62))


def triu(x, /, *, k=0):
    return _triangle(x, lambda distance: distance >= min(max(k, -(2**62)), 2**62))


def meshgrid(*arrays, indexing="xy"):
    if indexing not in ("xy", "ij"):
        raise ValueError("meshgrid: indexing is 'xy' or 'ij'")
    if len({each.dtype for each in arrays}) > 1:
        raise ValueError("meshgrid: the tensors must be of one type")
    order = list(range(len(arrays)))
    if indexing == "xy" and len(order) > 1:
        order[0], order[1] = 1, 0
    shape = [arrays[i].shape[0] if arrays[i].ndim else 1 for i in order]
    results = []
    for i, each in enumerate(arrays):
        sizes = [1] * len(arrays)
        sizes[order.index(i)] = -1
        results.append(_eager.copy(_eager.broadcast_to(_eager.reshape(each, sizes, None), shape)))
    return results

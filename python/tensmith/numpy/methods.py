"""What a Tensor can do beside Python's operators: the standard's attributes, numbers, printing, pickling, NumPy's methods."""

import sys

from .. import _eager
from . import creation, dtypes, elementwise, linalg, manipulation, reductions
from .dtypes import Tensor


def _namespace(self, /, *, api_version=None):
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"version {api_version!r} of the array API standard is not here; 2024.12 is")
    return sys.modules["tensmith.numpy"]


def _matmul(self, other, /):
    return linalg.matmul(self, other) if _eager.is_array(other) else NotImplemented


def _rmatmul(self, other, /):
    return linalg.matmul(other, self) if _eager.is_array(other) else NotImplemented


def _imatmul(self, other, /):
    if not _eager.is_array(other):
        return NotImplemented
    self[...] = linalg.matmul(self, other)
    return self


def _bool(self, /):
    return bool(self.item())


def _int(self, /):
    return int(self.item())


def _float(self, /):
    return float(self.item())


def _complex(self, /):
    return complex(self.item())


def _index(self, /):
    if self.dtype not in dtypes.SIGNED + dtypes.UNSIGNED or self.ndim:
        raise TypeError("only an integer tensor without dimensions can be an index")
    return self.item()


def _len(self, /):
    if self.ndim == 0:
        raise TypeError("a tensor without dimensions has no length")
    return self.shape[0]


def _iter(self, /):
    return iter([self[i] for i in range(len(self))])


def _contains(self, value, /):
    return bool(reductions.any(self == value))


def _to_device(self, device, /, *, stream=None):
    """The same elements on the device; the tensor itself where it lies there. A step of what records, which derivatives go through."""
    if device is None or stream is not None:
        raise ValueError("to_device takes a device's name, \"cpu\" or \"separate:0\", and no stream")
    dtypes.check_movable()
    return dtypes.placed(self, device)


def _numpy(self):
    """A NumPy array on the tensor's memory, of a device's tensor a copy that may only be read; bfloat16 as NumPy's float32, which has it exactly."""
    import numpy

    if self.dtype == dtypes.bfloat16:
        self = dtypes.astype(self, dtypes.float32)
    return numpy.asarray(memoryview(self))


def _array(self, dtype=None, copy=None):
    result = self.numpy()
    if dtype is not None and result.dtype != dtype:
        if copy is False:
            raise ValueError("another element type needs a copy, and copy is False")
        return result.astype(dtype)
    return result.copy() if copy else result


def _repr(self):
    import numpy

    text = numpy.array2string(self.numpy(), separator=", ", prefix="Tensor(")
    where = "" if self.device == "cpu" else f", device={self.device!r}"
    return f"Tensor({text}, dtype={self.dtype}{where})"


def _str(self):
    return str(self.numpy())


def _repr_html(self):
    from ..display import table_of

    return table_of(self)


def _format(self, how):
    return format(self.item() if self.ndim == 0 else str(self), how)


def _from_pickle(data, name, shape):
    return _eager.from_bytes(data, name, shape)


def _reduce(self):
    dense = self if self.is_dense else _eager.copy(self)
    flat = dense
    if self.dtype == dtypes.bfloat16:
        return _from_pickled_bfloat16, (dtypes.astype(self, dtypes.float32),)
    return _from_pickle, (memoryview(flat).tobytes(), str(self.dtype), self.shape)


def _deepcopy(self, memo):
    """What is learnt stays so."""
    result = _eager.copy(self)
    if self.requires_grad:
        result.requires_grad = True
    return result


def _from_pickled_bfloat16(x):
    return dtypes.astype(x, dtypes.bfloat16)


def _transpose(self):
    if self.ndim != 2:
        raise ValueError("T is of matrices; use mT or permute_dims for tensors of other ranks")
    return manipulation.matrix_transpose(self)


def _first_argument(function):
    def method(self, *args, **named):
        return function(self, *args, **named)

    method.__name__ = function.__name__
    method.__doc__ = function.__doc__
    return method


def _reshape_method(self, *shape, copy=None):
    return manipulation.reshape(self, shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape, copy=copy)


def _axis_first(function):
    """NumPy's form: x.sum(0)."""

    def method(self, axis=None, **named):
        return function(self, axis=axis, **named)

    method.__name__ = function.__name__
    return method


def attach():
    special = {
        "array_namespace": _namespace, "matmul": _matmul, "rmatmul": _rmatmul, "imatmul": _imatmul, "bool": _bool, "int": _int,
        "float": _float, "complex": _complex, "index": _index, "len": _len, "iter": _iter, "contains": _contains,
        "array": _array, "repr": _repr, "str": _str, "format": _format, "reduce": _reduce,
    }  # fmt: skip
    for name, method in special.items():
        setattr(Tensor, f"__{name}__", method)
    Tensor.__hash__ = None
    Tensor._repr_html_ = _repr_html
    Tensor.to_device, Tensor.numpy, Tensor.reshape = _to_device, _numpy, _reshape_method
    Tensor.T = property(_transpose)
    Tensor.mT = property(lambda self: manipulation.matrix_transpose(self))
    Tensor.real = property(elementwise.real)
    Tensor.imag = property(elementwise.imag)
    Tensor.itemsize = property(lambda self: self.dtype.itemsize)
    Tensor.nbytes = property(lambda self: self.size * self.dtype.itemsize)
    for name in "sum prod max min mean var std any all argmax argmin".split():
        setattr(Tensor, name, _axis_first(getattr(reductions, name)))
    Tensor.astype, Tensor.conj, Tensor.clip = map(_first_argument, (dtypes.astype, elementwise.conj, elementwise.clip))
    Tensor.copy = lambda self: _eager.copy(self)
    Tensor.flatten = lambda self: manipulation.reshape(self, (-1,), copy=True)
    Tensor.ravel = lambda self: manipulation.reshape(self, (-1,))
    Tensor.squeeze, Tensor.take, Tensor.repeat = map(_first_argument, (manipulation.squeeze, manipulation.take, manipulation.repeat))
    Tensor.__copy__ = Tensor.copy
    Tensor.__deepcopy__ = _deepcopy
    Tensor.__array_priority__ = 1000  # NumPy leaves its arrays' operators with a Tensor to the Tensor

"""Element types, and what the array API standard says of them: promotion, ranges, kinds, defaults."""

import builtins
import contextlib
import functools
import math
import threading

from .. import _eager

DType = _eager.DType
Tensor = _eager.Tensor

_DEVICES = ("separate",)  # kinds that libraries may be there for (docs/devices.md)

_NAMES = {
    "bool": "bool",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}
_BY_NAME = {name: _eager.dtype(short) for name, short in _NAMES.items()}
_NAME_OF = {kind: name for name, kind in _BY_NAME.items()}

bool = _BY_NAME["bool"]
int8, int16, int32, int64 = (_BY_NAME[f"int{bits}"] for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (_BY_NAME[f"uint{bits}"] for bits in (8, 16, 32, 64))
float16, bfloat16, float32, float64 = (_BY_NAME[name] for name in ("float16", "bfloat16", "float32", "float64"))
complex64, complex128 = _BY_NAME["complex64"], _BY_NAME["complex128"]

DType.__str__ = lambda self: _NAME_OF[self]
DType.__repr__ = lambda self: f"tensmith.numpy.{_NAME_OF[self]}"
DType.__reduce__ = lambda self: (_named, (_NAME_OF[self],))

SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
REAL_FLOATING = (float16, bfloat16, float32, float64)
COMPLEX_FLOATING = (complex64, complex128)
_KINDS = {
    "bool": (bool,),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": SIGNED + UNSIGNED,
    "real floating": REAL_FLOATING,
    "complex floating": COMPLEX_FLOATING,
    "numeric": SIGNED + UNSIGNED + REAL_FLOATING + COMPLEX_FLOATING,
}
_PYTHON = {builtins.bool: bool, int: int64, float: float64, complex: complex128}


def _named(name):
    return _BY_NAME[name]


def as_dtype(given):
    """A DType of one, of a name, of Python's bool, int, float or complex, or of NumPy's dtypes; None stays None."""
    if given is None or isinstance(given, DType):
        return given
    if isinstance(given, type) and given in _PYTHON:
        return _PYTHON[given]
    name = given if isinstance(given, str) else getattr(given, "name", None) or getattr(given, "__name__", None)
    if name in _BY_NAME:
        return _BY_NAME[name]
    raise TypeError(f"{given!r} is no element type; those are {', '.join(_BY_NAME)}")


def real_of(dtype):
    return {complex64: float32, complex128: float64}.get(dtype, dtype)


def complex_of(dtype):
    return complex128 if dtype in (float64, complex128) else complex64


def isdtype(dtype, kind):
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"{kind!r} is no kind of element types; those are {', '.join(_KINDS)}")
        return dtype in _KINDS[kind]
    return dtype == kind


class finfo:
    """Of a floating type, complex ones by their parts: bits, eps, max, min, smallest_normal, dtype."""

    _MANTISSA = {float16: (10, 15), bfloat16: (7, 127), float32: (23, 127), float64: (52, 1023)}

    def __init__(self, type, /):
        dtype = type.dtype if isinstance(type, Tensor) else as_dtype(type)
        self.dtype = real_of(dtype)
        if self.dtype not in self._MANTISSA:
            raise ValueError(f"{dtype} is no floating type; iinfo tells of integers")
        mantissa, exponent = self._MANTISSA[self.dtype]
        self.bits = 8 * self.dtype.itemsize
        self.eps = 2.0**-mantissa
        self.max = math.ldexp(2 - 2.0**-mantissa, exponent)
        self.min = -self.max
        self.smallest_normal = math.ldexp(1.0, 1 - exponent)

    def __repr__(self):
        return f"finfo(bits={self.bits}, eps={self.eps}, max={self.max}, min={self.min}, smallest_normal={self.smallest_normal}, dtype={self.dtype})"


class iinfo:
    """Of an integer type: bits, max, min, dtype."""

    def __init__(self, type, /):
        self.dtype = type.dtype if isinstance(type, Tensor) else as_dtype(type)
        if self.dtype not in SIGNED + UNSIGNED:
            raise ValueError(f"{self.dtype} is no integer type; finfo tells of floats")
        self.bits = 8 * self.dtype.itemsize
        signed = self.dtype in SIGNED
        self.max = 2 ** (self.bits - signed) - 1
        self.min = -(2 ** (self.bits - 1)) if signed else 0

    def __repr__(self):
        return f"iinfo(bits={self.bits}, max={self.max}, min={self.min}, dtype={self.dtype})"


def result_type(*arrays_and_dtypes):
    if not arrays_and_dtypes:
        raise ValueError("result_type needs at least one tensor, type or number")
    found = None
    numbers = []
    for each in arrays_and_dtypes:
        if isinstance(each, (builtins.bool, int, float, complex)) and not isinstance(each, Tensor):
            numbers.append(each)
            continue
        dtype = each.dtype if isinstance(each, Tensor) else as_dtype(each)
        found = dtype if found is None else _eager.promote(found, dtype)
    for number in numbers:
        found = _beside(number, found)
    return found


def _beside(number, dtype):
    """The type of a tensor of that type together with a Python number."""
    own = _PYTHON[type(number)] if type(number) in _PYTHON else as_dtype(type(number))
    if dtype is None:
        return own
    inexact = dtype in REAL_FLOATING + COMPLEX_FLOATING
    if own == bool:
        return dtype
    if own == int64:
        return int64 if dtype == bool else dtype
    if own == float64:
        return dtype if inexact else float64
    return dtype if dtype in COMPLEX_FLOATING else complex_of(dtype) if inexact else complex128


def can_cast(from_, to, /):
    source = from_.dtype if isinstance(from_, Tensor) else as_dtype(from_)
    try:
        return _eager.promote(source, as_dtype(to)) == as_dtype(to)
    except TypeError:
        return False


def astype(x, dtype, /, *, copy=True, device=None):
    if (there := placed(x, device)) is not x:
        return astype(there, dtype, copy=False)
    dtype = as_dtype(dtype)
    if x.dtype == dtype:
        return _eager.copy(x) if copy else x
    if x.dtype in COMPLEX_FLOATING and dtype not in COMPLEX_FLOATING and dtype != bool:
        raise TypeError(f"{x.dtype} can't become {dtype}; take its real part first")
    return _eager.cast(x, dtype)


def device_name(device):
    """With its number: "separate:0". None is "cpu". ValueError where there is no such device."""
    if device is not None and not isinstance(device, str):
        raise ValueError(f'a device is named by a text, "cpu" or "separate:0", and not by {device!r}')
    return "cpu" if device is None else _eager.device(device)


def devices():
    """Names of the process's devices: the host's, and number 0 of each kind that is there."""
    found = ["cpu"]
    for kind in _DEVICES:
        with contextlib.suppress(ValueError):
            found.append(_eager.device(kind))
    return found


def placed(x, device):
    """The tensor on the device that somebody has named, which is itself where it lies there; None: wherever it is."""
    if device is None or x.device == (name := device_name(device)):
        return x
    check_movable()
    return _eager.to_device(x, name)


def check_movable():
    """TypeError in what is recorded as a whole: it runs where its operands lie."""
    if _eager.is_recorded_strictly():
        raise TypeError("where a tensor lies can't be said in what is recorded as a whole, as the bodies of scan and vmap")


def beside(x, other):
    """A tensor of the library's own making, where the other one lies."""
    return x if x.device == other.device else _eager.to_device(x, other.device)


_default = threading.local()


@contextlib.contextmanager
def default_device(device):
    """Within it what makes tensors of numbers, lists and shapes makes them on the device, where none is named; of this thread."""
    before = getattr(_default, "name", None)
    _default.name = device_name(device)
    try:
        yield
    finally:
        _default.name = before


def current_device():
    """What `default_device` has set in this thread."""
    return getattr(_default, "name", None) or "cpu"


def with_default_device(make):
    """A function that makes tensors, under the name that programs know it by: it looks at the default device, and the library's own uses of it do not."""

    @functools.wraps(make)
    def made(*arguments, **named):
        if (name := getattr(_default, "name", None)) is None or named.get("device") is not None or arguments and isinstance(arguments[0], Tensor):
            return make(*arguments, **named)
        result = make(*arguments, **named)
        return result if result.device == name or _eager.is_recorded_strictly() else _eager.to_device(result, name)

    return made

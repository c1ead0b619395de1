"""Element-wise functions of the array API standard; operands broadcast and promote as it says."""

from .. import _eager
from . import dtypes
from .dtypes import Tensor

NAMES = {
    1: "abs acos acosh asin asinh atan atanh bitwise_invert cbrt ceil cos cosh erf exp exp2 expm1 floor "
    "isfinite isinf isnan log log10 log1p log2 logical_not negative reciprocal round sigmoid sign signbit "
    "sin sinh sqrt square tan tanh trunc",
    2: "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide "
    "equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or "
    "logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract",
}
__all__ = ["clip", "conj", "imag", "positive", "real", "where"]


def _unary(name):
    call = _eager.unary(name)

    def function(x, /):
        return call(x)

    return function


def _binary(name):
    call = _eager.binary(name)

    def function(x1, x2, /):
        return call(x1, x2)

    return function


for _arity, _make in ((1, _unary), (2, _binary)):
    for _name in NAMES[_arity].split():
        _function = _make(_name)
        _function.__name__ = _function.__qualname__ = _name
        _function.__module__ = __name__
        globals()[_name] = _function
        __all__.append(_name)

_conj = _eager.unary("conj")


def _is_complex(x):
    return x.dtype in dtypes.COMPLEX_FLOATING


def conj(x, /):
    return _conj(x) if _is_complex(x) else positive(x)


def real(x, /):
    return _eager.part(x, False) if _is_complex(x) else positive(x)


def imag(x, /):
    return _eager.part(x, True) if _is_complex(x) else dtypes.beside(_eager.full(x.shape, 0, x.dtype), x)


def positive(x, /):
    return +x


def where(condition, x1, x2, /):
    return _eager.where(condition, x1, x2)


def clip(x, /, min=None, max=None):
    if min is None and max is None:
        return positive(x)
    result = x
    if min is not None:
        bound = min if isinstance(min, Tensor) else _bound(min, x.dtype)
        result = _eager.where(_less(result, bound), bound, result)
    if max is not None:
        bound = max if isinstance(max, Tensor) else _bound(max, x.dtype)
        result = _eager.where(_less(bound, result), bound, result)
    for each in (min, max):  # NaN bounds give NaN
        if isinstance(each, Tensor) and each.dtype in dtypes.REAL_FLOATING:
            result = _eager.where(_isnan(each), each, result)
    return result if result.dtype == x.dtype else _eager.cast(result, x.dtype)


_less, _isnan = _eager.binary("less"), _eager.unary("isnan")


def _bound(number, dtype):
    if dtype in dtypes.SIGNED + dtypes.UNSIGNED and isinstance(number, int):
        limits = dtypes.iinfo(dtype)
        number = sorted((limits.min, number, limits.max))[1]
    return _eager.from_list(number, dtype if not (isinstance(number, float) and dtype in dtypes.SIGNED + dtypes.UNSIGNED) else None)

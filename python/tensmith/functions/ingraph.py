"""Python's numbers as tensors of no dimensions: what Python computes with numbers that were read from tensors, computed in the graph.

A number is float64, an integer int64 and a truth bool there, so results are Python's own. Where they might not be (integers whose product is
beyond 64 bits, a quotient whose divisor may be 0, which raises), a function has no form here.
Sources: for what numbers of Python become in graphs, Jeong et al., JANUS, NSDI 2019, section 4.
"""

import math
import operator

from .. import _eager
from .. import numpy as tnp
from ..numpy.dtypes import REAL_FLOATING
from ..recorded.operators import operator as operator_of_graph
from .scalars import Traced, plain

LARGEST = 2**62  # below it all integers of the graph stay, so that the sum of two has 64 bits
DTYPES = {float: tnp.float64, int: tnp.int64, bool: tnp.bool}
_ARITHMETIC = {operator.add: tnp.add, operator.sub: tnp.subtract, operator.mul: tnp.multiply}
_COMPARED = {operator.lt: tnp.less, operator.le: tnp.less_equal, operator.gt: tnp.greater, operator.ge: tnp.greater_equal, operator.eq: tnp.equal,
             operator.ne: tnp.not_equal}  # fmt: skip
_OF_ONE = {operator.neg: tnp.negative, operator.pos: lambda x: x, operator.abs: tnp.abs, abs: tnp.abs}
_TRUTHS = {math.isnan: tnp.isnan, math.isinf: tnp.isinf, math.isfinite: tnp.isfinite}
_LOGICAL = {operator.and_: tnp.logical_and, operator.or_: tnp.logical_or, operator.xor: tnp.logical_xor}


def scalar(tensor, kind):
    """A tensor's only element as a number of Python's."""
    x = tnp.reshape(_eager.copy(tensor), ())
    if kind is int and (x.dtype in REAL_FLOATING or x.dtype in (tnp.int64, tnp.uint64)):
        return checked(_eager.cast(x, tnp.int64), LARGEST, x)
    return _eager.cast(x, DTYPES[kind])


def checked(x, bound, of=None):
    """An integer. The graph fails where it (or what it is made of) is not below the bound, by an index that is not there."""
    of = x if of is None else of
    holds = tnp.less(of, bound) if of.dtype == tnp.uint64 else tnp.logical_and(tnp.less(of, bound), tnp.greater(of, -bound))
    place = tnp.where(holds, tnp.asarray(0, dtype=tnp.int64), tnp.asarray(1, dtype=tnp.int64))
    (zero,) = operator_of_graph("gather", [tnp.zeros(1, dtype=tnp.int64), place], [(tnp.int64, [])], axis=0)
    return tnp.add(x, zero)


def applied(numbers, function, arguments):
    """The tensor of what the function gives, None where that has no form. `numbers`: gives the tensor of an argument."""
    kinds = [type(plain(x)) for x in arguments]
    if any(kind not in DTYPES for kind in kinds) or any(type(plain(x)) is int and abs(plain(x)) >= LARGEST for x in arguments):
        return None

    def given(x, kind):
        return _eager.cast(numbers(x), DTYPES[kind])

    def promoted():
        kind = float if float in kinds else int
        return [given(x, kind) for x in arguments]

    if len(arguments) == 2 and function in _COMPARED:
        return _COMPARED[function](*(_exact(numbers, x, kind) for x, kind in zip(arguments, kinds)) if float in kinds else promoted())
    if len(arguments) == 2 and function in _ARITHMETIC and float in kinds:
        return _ARITHMETIC[function](*promoted())
    if len(arguments) == 2 and function in (operator.add, operator.sub):
        return _counted(function, arguments, promoted())
    if len(arguments) == 2 and function in (operator.truediv, operator.floordiv, operator.mod):
        return _divided(function, arguments, kinds, given, numbers)
    if len(arguments) == 2 and function in _LOGICAL and kinds == [bool, bool]:
        return _LOGICAL[function](*(numbers(x) for x in arguments))
    if function in (min, max) and len(set(kinds)) == 1 and len(arguments) > 1:
        return _extreme(function, [numbers(x) for x in arguments])
    return _of_one(function, arguments, kinds, given) if len(arguments) == 1 else None


def _exact(numbers, x, kind):
    """A number as a float of the same value, which an integer has up to 53 bits."""
    if kind is int and (isinstance(x, Traced) or abs(x) > 2**53):
        return _eager.cast(checked(numbers(x), 2**53), tnp.float64)
    return _eager.cast(numbers(x), tnp.float64)


def _counted(function, arguments, values):
    """Of integers: to come from within the bound beyond 64 bits by small constants takes a loop more turns than there is time for."""
    if abs(plain(function(*map(plain, arguments)))) >= LARGEST:
        return None
    result = _ARITHMETIC[function](*values)
    return result if any(not isinstance(x, Traced) and abs(x) <= 2**31 for x in arguments) else checked(result, LARGEST)


def _of_one(function, arguments, kinds, given):
    (x,), (kind,) = arguments, kinds
    if function in _OF_ONE:
        return _OF_ONE[function](given(x, int if kind is bool else kind))
    if function in _TRUTHS:
        return _TRUTHS[function](given(x, float))
    if function is bool or function is operator.truth:
        return given(x, bool)
    if function is operator.not_:
        return tnp.logical_not(given(x, bool))
    if function is float or function is int and kind is not float:
        return given(x, function)
    return None


def _divided(function, arguments, kinds, given, given_number):
    """By a constant that is not 0; integers downwards."""
    divisor = arguments[1]
    if isinstance(divisor, Traced) or divisor == 0:
        return None
    if function is operator.truediv:
        return tnp.divide(*(_exact(given_number, x, kind) for x, kind in zip(arguments, kinds)))
    if float in kinds or divisor < 0:
        return None
    x, by = (given(x, int) for x in arguments)
    return (tnp.floor_divide if function is operator.floordiv else tnp.remainder)(x, by)


def _extreme(function, values):
    """The first of the least or the largest, as Python goes through them, NaN included."""
    result = values[0]
    for each in values[1:]:
        result = tnp.where(tnp.less(each, result) if function is min else tnp.greater(each, result), each, result)
    return result


def cannot_raise(function, arguments):
    """Whether Python may leave it out, where nobody uses what it gives."""
    kinds = {type(plain(x)) for x in arguments}
    return function in _COMPARED or function in _LOGICAL or function in (operator.neg, abs, operator.not_, bool) or kinds == {float} and function in _ARITHMETIC

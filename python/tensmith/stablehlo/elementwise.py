"""StableHLO's arithmetic. Its operands are of one shape and type already."""

import numpy

from .. import ElementType, Error, formulas
from .graph import lowers


def _unary(theirs, ours):
    lowers(theirs)(lambda g, operation, x: g.op(ours, [x]))


for _theirs, _ours in {
    "abs": "abs", "negate": "neg", "sign": "sign", "ceil": "ceil", "floor": "floor", "round_nearest_even": "round", "sqrt": "sqrt",
    "rsqrt": "rsqrt", "exponential": "exp", "log": "log", "log_plus_one": "log1p", "sine": "sin", "cosine": "cos", "tan": "tan",
    "tanh": "tanh", "logistic": "sigmoid",
}.items():  # fmt: skip
    _unary("stablehlo." + _theirs, _ours)

for _name in "erf asin acos atan sinh cosh asinh acosh atanh tan".split():
    _unary("chlo." + _name, _name)
    _unary("composite:chlo." + _name, _name)


def _binary(theirs, ours, on_truths=None, on_integers=None):
    @lowers("stablehlo." + theirs)
    def lower(g, operation, a, b):
        name = on_truths if a.dtype == "bool" and on_truths else on_integers if not a.is_float and on_integers else ours
        return g.op(name, [a, b])


_binary("add", "add", on_truths="or")
_binary("subtract", "sub")
_binary("multiply", "mul", on_truths="and")
_binary("divide", "div")
_binary("power", "pow")
_binary("maximum", "max", on_truths="or")
_binary("minimum", "min", on_truths="and")
_binary("and", "and", on_truths="and", on_integers="bitwise_and")
_binary("or", "or", on_truths="or", on_integers="bitwise_or")
_binary("xor", "xor", on_truths="xor", on_integers="bitwise_xor")


@lowers("stablehlo.not")
def _not(g, operation, x):
    return g.op("not" if x.dtype == "bool" else "bitwise_not", [x])


@lowers("stablehlo.remainder")
def _remainder(g, operation, a, b):
    return g.op("mod", [a, b], fmod=True)


@lowers("stablehlo.shift_left")
def _shift_left(g, operation, x, by):
    return g.op("bit_shift", [x, by], left=True)


@lowers("stablehlo.shift_right_logical")
def _shift_right_logical(g, operation, x, by):
    """Of the bits as a number without sign."""
    if not x.is_signed:
        return g.op("bit_shift", [x, by], left=False)
    bare = "u" + x.dtype[1:]
    x, by = (g.op("bit_cast", [value], to=ElementType(bare)) for value in (x, by))
    return g.op("bit_cast", [g.op("bit_shift", [x, by], left=False)], to=ElementType("i" + bare[1:]))


@lowers("stablehlo.shift_right_arithmetic")
def _shift_right_arithmetic(g, operation, x, by):
    if x.is_signed:
        return g.op("bit_shift", [x, by], left=False)
    signed = "i" + x.dtype[1:]
    shifted = g.op("bit_shift", [g.op("bit_cast", [value], to=ElementType(signed)) for value in (x, by)], left=False)
    return g.op("bit_cast", [shifted], to=ElementType(x.dtype))


@lowers("stablehlo.exponential_minus_one")
def _expm1(g, operation, x):
    return formulas.expm1(g, x)


@lowers("stablehlo.cbrt")
def _cbrt(g, operation, x):
    return g.op("mul", [g.op("sign", [x]), g.op("pow", [g.op("abs", [x]), g.scalar(1 / 3, x.dtype)])])


@lowers("stablehlo.round_nearest_afz")
def _round_away(g, operation, x):
    """Halves away from zero: whole numbers down of |x|, and one more from a half on."""
    size = g.op("abs", [x])
    whole = g.op("floor", [size])
    up = g.op("greater_or_equal", [g.op("sub", [size, whole]), g.scalar(0.5, x.dtype)])
    return g.op("mul", [g.op("sign", [x]), g.op("add", [whole, g.cast(up, x.dtype)])])


@lowers("chlo.erfc", "composite:chlo.erfc")
def _erfc(g, operation, x):
    return g.cast(formulas.erfc(g, x if x.dtype == "f64" else g.cast(x, "f32")), x.dtype)


@lowers("chlo.square", "composite:chlo.square")
def _square(g, operation, x):
    return g.op("mul", [x, x])


@lowers("stablehlo.atan2")
def _atan2(g, operation, y, x):
    return formulas.atan2(g, y, x)


@lowers("stablehlo.is_finite")
def _is_finite(g, operation, x):
    return g.op("not", [g.op("or", [g.op("isnan", [x]), g.op("isinf", [x])])])


@lowers("chlo.is_inf")
def _is_inf(g, operation, x):
    return g.op("isinf", [x])


@lowers("stablehlo.convert")
def _convert(g, operation, x):
    from .program import element_type

    return g.cast(x, element_type(operation.results[0].type.element_type))


@lowers("stablehlo.reduce_precision")
def _reduce_precision(g, operation, x):
    bits = operation.attributes["exponent_bits"].value, operation.attributes["mantissa_bits"].value
    narrow = {(8, 7): "bf16", (5, 10): "f16", (8, 23): "f32"}.get(bits)
    if narrow is None:
        raise Error(f"numbers of {bits[0]} bits of exponent and {bits[1]} of mantissa are no type")
    return g.cast(g.cast(x, narrow), x.dtype)


@lowers("stablehlo.bitcast_convert")
def _bitcast(g, operation, x):
    from .program import element_type

    target = element_type(operation.results[0].type.element_type)
    if operation.results[0].type.rank != x.rank:
        raise Error("bits are taken apart to numbers of another width")
    return g.op("bit_cast", [x], to=ElementType(target)) if target != x.dtype else x


def direction_of(operation):
    """EQ, NE, LT, LE, GT or GE."""
    return str(operation.attributes["comparison_direction"]).split()[-1].rstrip(">")


@lowers("stablehlo.compare")
def _compare(g, operation, a, b):
    direction = direction_of(operation)
    if a.dtype == "bool":
        a, b = g.cast(a, "i32"), g.cast(b, "i32")
    if direction == "NE":
        return g.op("not", [g.op("equal", [a, b])])
    names = {"EQ": "equal", "LT": "less", "LE": "less_or_equal", "GT": "greater", "GE": "greater_or_equal"}
    return g.op(names[direction], [a, b])


@lowers("stablehlo.select")
def _select(g, operation, condition, a, b):
    return g.where(condition, a, b)


@lowers("stablehlo.clamp")
def _clamp(g, operation, low, x, high):
    return g.clamp(x, low, high)


# ---- constants ----


@lowers("stablehlo.constant")
def _constant(g, operation):
    from .program import element_type

    array, dtype = array_of(operation), element_type(operation.results[0].type.element_type)
    if array.size > 1 and not any(array.strides):
        return g.broadcast(g.constant(numpy.array(array[(0,) * array.ndim]), dtype), array.shape)
    return g.constant(array, dtype)


def array_of(operation):
    """A constant's elements as a NumPy array; numbers that NumPy doesn't have are given as f32. Of one value throughout it has the strides 0:
    a few characters may stand for any number of elements."""
    from jaxlib.mlir import ir

    type_ = operation.results[0].type
    shape = [type_.get_dim_size(dim) for dim in range(type_.rank)]
    try:
        attribute = operation.attributes["value"]
        if str(type_.element_type) == "bf16":
            elements = ir.DenseFPElementsAttr(attribute)
            if elements.is_splat:
                return numpy.broadcast_to(numpy.float32(ir.FloatAttr(elements.get_splat_value()).value), shape)
            return numpy.array(list(elements), "float32").reshape(shape)
        if getattr(attribute, "is_splat", False):
            return numpy.asarray(memoryview(attribute))
        return numpy.array(attribute).reshape(shape)
    except (TypeError, ValueError, BufferError):
        raise Error(f"constants of {type_.element_type} can't be read") from None

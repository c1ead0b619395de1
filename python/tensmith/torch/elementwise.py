"""ATen's arithmetic. Operands are brought to the type that the result has, or that PyTorch compares in, as PyTorch does."""

import math

import torch

from .. import ElementType, formulas
from . import sizes
from .lowering import TYPES, Value, lowers


def _common(a, b):
    """The type that PyTorch computes in: tensors with dimensions count before those without, and those before numbers."""

    def sample(x):
        if isinstance(x, Value):
            return torch.empty([1] * min(x.rank, 1), dtype=x.dtype, device="meta")
        return 1.0 if isinstance(x, torch.SymFloat) else 1 if isinstance(x, torch.SymInt) else x

    return torch.result_type(sample(a), sample(b))


for _name in (
    "abs neg sign ceil floor round sqrt rsqrt exp log log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf sigmoid"
).split():

    def _register(name):
        lowers(f"aten.{name}.default")(lambda g, x: g.op(name, [g.cast(x, g.meta.dtype)]))

    _register(_name)


def _binary(name, *targets):
    @lowers(*targets)
    def lower(g, a, b):
        dtype = g.meta.dtype
        return g.binary(name, g.tensor(a, dtype), g.tensor(b, dtype))


_binary("mul", "aten.mul.Tensor", "aten.mul.Scalar")
_binary("pow", "aten.pow.Tensor_Tensor")
_binary("min", "aten.minimum.default")
_binary("max", "aten.maximum.default")
_binary("mod", "aten.remainder.Tensor", "aten.remainder.Scalar")


@lowers("aten.add.Tensor", "aten.add.Scalar")
def _add(g, a, b, alpha=1):
    return _sum(g, "add", a, b, alpha)


@lowers("aten.sub.Tensor", "aten.sub.Scalar")
def _sub(g, a, b, alpha=1):
    return _sum(g, "sub", a, b, alpha)


@lowers("aten.rsub.Scalar", "aten.rsub.Tensor")
def _rsub(g, a, b, alpha=1):
    return _sum(g, "sub", b, a, alpha)


def _sum(g, name, a, b, alpha):
    dtype = g.meta.dtype
    if dtype == torch.bool:
        b = g.tensor(b, dtype)
        return g.binary("or", g.tensor(a, dtype), b if alpha else g.broadcast(g.scalar(False, dtype), b.shape))
    b = g.tensor(b, dtype)
    return g.binary(name, g.tensor(a, dtype), b if alpha == 1 else g.binary("mul", b, g.scalar(alpha, dtype)))


@lowers("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def _div(g, a, b):
    dtype = g.meta.dtype
    return g.binary("div", g.tensor(a, dtype), g.tensor(b, dtype))


@lowers("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def _div_mode(g, a, b, rounding_mode=None):
    dtype = g.meta.dtype
    a, b = g.tensor(a, dtype), g.tensor(b, dtype)
    quotient = g.binary("div", a, b)
    if rounding_mode is None or (rounding_mode == "trunc" and not dtype.is_floating_point):
        return quotient
    if dtype.is_floating_point:
        return g.op("floor", [quotient]) if rounding_mode == "floor" else _truncated(g, quotient)
    # (a - (a mod b)) / b, whose remainder has the sign of b, is rounded down.
    return g.binary("div", g.binary("sub", a, g.binary("mod", a, b)), b)


@lowers("aten.floor_divide.default")
def _floor_divide(g, a, b):
    return _div_mode(g, a, b, rounding_mode="floor")


@lowers("aten.fmod.Tensor", "aten.fmod.Scalar")
def _fmod(g, a, b):
    dtype = g.meta.dtype
    return g.binary("mod", g.tensor(a, dtype), g.tensor(b, dtype), fmod=True)


def _truncated(g, x):
    down, up = g.op("floor", [x]), g.op("ceil", [x])
    return g.op("where", [compare(g, "less", x, g.scalar(0, x.dtype)), up, down], x.shape, x.dtype)


@lowers("aten.trunc.default")
def _trunc(g, x):
    return _truncated(g, x) if x.dtype.is_floating_point else x


@lowers("aten.pow.Tensor_Scalar")
def _pow_scalar(g, x, exponent):
    x = g.cast(x, g.meta.dtype)
    if exponent == 2:
        return g.binary("mul", x, x)
    if exponent == 3:
        return g.binary("mul", g.binary("mul", x, x), x)
    if exponent == 0.5:
        return g.op("sqrt", [x])
    if exponent == -0.5:
        return g.op("rsqrt", [x])
    return g.binary("pow", x, g.scalar(exponent, x.dtype))


@lowers("aten.pow.Scalar")
def _pow_base(g, base, x):
    dtype = g.meta.dtype
    return g.binary("pow", g.scalar(base, dtype), g.cast(x, dtype))


@lowers("aten.reciprocal.default")
def _reciprocal(g, x):
    dtype = g.meta.dtype
    return g.binary("div", g.scalar(1, dtype), g.cast(x, dtype))


@lowers("aten.exp2.default")
def _exp2(g, x):
    x = g.cast(x, g.meta.dtype)
    return g.op("exp", [g.binary("mul", x, g.scalar(math.log(2), x.dtype))])


@lowers("aten.expm1.default")
def _expm1(g, x):
    return formulas.expm1(g, g.cast(x, g.meta.dtype))


@lowers("aten.log2.default", "aten.log10.default")
def _log_base(g, x):
    x = g.cast(x, g.meta.dtype)
    base = 2 if "log2" in str(g.node.target) else 10
    return g.binary("mul", g.op("log", [x]), g.scalar(1 / math.log(base), x.dtype))


def compare(g, name, a, b):
    return g.binary(name, a, b, torch.bool)


def _comparison(name, word):
    @lowers(f"aten.{word}.Tensor", f"aten.{word}.Scalar")
    def lower(g, a, b):
        dtype = _common(a, b)
        a, b = g.tensor(a, dtype), g.tensor(b, dtype)
        if name == "equal" and word == "ne":
            return g.op("not", [compare(g, "equal", a, b)])
        return compare(g, name, a, b)


for _name, _word in (("equal", "eq"), ("equal", "ne"), ("less", "lt"), ("less_or_equal", "le"), ("greater", "gt"), ("greater_or_equal", "ge")):
    _comparison(_name, _word)


def _logical(name, word):
    @lowers(f"aten.logical_{word}.default")
    def lower(g, *operands):
        operands = [g.tensor(x, torch.bool) for x in operands]
        return g.binary(name, *operands) if len(operands) == 2 else g.op(name, operands)

    @lowers(f"aten.bitwise_{word}.Tensor", f"aten.bitwise_{word}.Scalar", f"aten.bitwise_{word}.default")
    def lower_bits(g, *operands):
        dtype = g.meta.dtype
        operands = [g.tensor(x, dtype) for x in operands]
        full = name if dtype == torch.bool else f"bitwise_{name}"
        return g.binary(full, *operands) if len(operands) == 2 else g.op(full, operands)


for _name in ("and", "or", "xor", "not"):
    _logical(_name, _name)


@lowers("aten.isnan.default")
def _isnan(g, x):
    return g.op("isnan", [x], dtype=torch.bool)


@lowers("aten.isinf.default")
def _isinf(g, x):
    return g.op("isinf", [x], dtype=torch.bool)


@lowers("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf")
def where(g, condition, a, b):
    dtype = g.meta.dtype
    a, b = g.tensor(a, dtype), g.tensor(b, dtype)
    return g.op("where", [g.cast(condition, torch.bool), a, b], sizes.broadcast(condition.shape, a.shape, b.shape), dtype)


@lowers("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def _masked_fill(g, x, mask, value):
    return where(g, mask, value, x)


@lowers("aten.clamp.default", "aten.clamp.Tensor", "aten.hardtanh.default")
def _clamp(g, x, low=None, high=None):
    if "hardtanh" in str(g.node.target):
        low, high = (-1.0 if low is None else low), (1.0 if high is None else high)
    x = g.cast(x, g.meta.dtype)
    if low is not None:
        x = g.binary("max", x, g.tensor(low, x.dtype))
    return x if high is None else g.binary("min", x, g.tensor(high, x.dtype))


@lowers("aten.clamp_min.default", "aten.clamp_min.Tensor")
def _clamp_min(g, x, low):
    return _clamp(g, x, low)


@lowers("aten.clamp_max.default", "aten.clamp_max.Tensor")
def _clamp_max(g, x, high):
    return _clamp(g, x, None, high)


@lowers("aten.relu.default")
def _relu(g, x):
    return g.binary("max", x, g.scalar(0, x.dtype))


@lowers("aten.leaky_relu.default")
def _leaky_relu(g, x, slope=0.01):
    positive = compare(g, "greater", x, g.scalar(0, x.dtype))
    return g.op("where", [positive, x, g.binary("mul", x, g.scalar(slope, x.dtype))], x.shape, x.dtype)


@lowers("aten.elu.default")
def _elu(g, x, alpha=1.0, scale=1.0, input_scale=1.0):
    inner = g.binary("mul", _expm1(g, g.binary("mul", x, g.scalar(input_scale, x.dtype))), g.scalar(alpha, x.dtype))
    positive = compare(g, "greater", x, g.scalar(0, x.dtype))
    return g.binary("mul", g.op("where", [positive, x, inner], x.shape, x.dtype), g.scalar(scale, x.dtype))


@lowers("aten.silu.default")
def _silu(g, x):
    return g.binary("mul", x, g.op("sigmoid", [x]))


@lowers("aten.gelu.default")
def _gelu(g, x, approximate="none"):
    c = lambda number: g.scalar(number, x.dtype)  # noqa: E731
    if approximate == "tanh":
        cube = g.binary("mul", g.binary("mul", x, x), x)
        inner = g.binary("mul", g.binary("add", x, g.binary("mul", cube, c(0.044715))), c(math.sqrt(2 / math.pi)))
        gate = g.op("tanh", [inner])
    else:
        gate = g.op("erf", [g.binary("mul", x, c(math.sqrt(0.5)))])
    return g.binary("mul", g.binary("mul", x, c(0.5)), g.binary("add", gate, c(1)))


def _gate(g, x):
    """min(max(x + 3, 0), 6) / 6"""
    c = lambda number: g.scalar(number, x.dtype)  # noqa: E731
    return g.binary("mul", g.binary("min", g.binary("max", g.binary("add", x, c(3)), c(0)), c(6)), c(1 / 6))


@lowers("aten.hardsigmoid.default")
def _hardsigmoid(g, x):
    return _gate(g, x)


@lowers("aten.hardswish.default")
def _hardswish(g, x):
    return g.binary("mul", x, _gate(g, x))


@lowers("aten.softplus.default")
def _softplus(g, x, beta=1, threshold=20):
    scaled = g.binary("mul", x, g.scalar(beta, x.dtype))
    soft = g.binary("div", g.op("log1p", [g.op("exp", [scaled])]), g.scalar(beta, x.dtype))
    return g.op("where", [compare(g, "greater", scaled, g.scalar(threshold, x.dtype)), x, soft], x.shape, x.dtype)


@lowers("aten.threshold_backward.default")
def _threshold_backward(g, gradient, x, threshold):
    passes = compare(g, "greater", x, g.scalar(threshold, x.dtype))
    return g.op("where", [passes, gradient, g.scalar(0, gradient.dtype)], gradient.shape, gradient.dtype)


@lowers("aten.addcmul.default")
def _addcmul(g, x, a, b, value=1):
    dtype = g.meta.dtype
    product = g.binary("mul", g.tensor(a, dtype), g.tensor(b, dtype))
    return g.binary("add", g.tensor(x, dtype), g.binary("mul", product, g.scalar(value, dtype)))


@lowers("prims.fma.default")
def _fma(g, a, b, c):
    return g.binary("add", g.binary("mul", g.tensor(a, g.meta.dtype), g.tensor(b, g.meta.dtype)), g.tensor(c, g.meta.dtype))


@lowers("aten.addcdiv.default")
def _addcdiv(g, x, a, b, value=1):
    dtype = g.meta.dtype
    quotient = g.binary("div", g.tensor(a, dtype), g.tensor(b, dtype))
    return g.binary("add", g.tensor(x, dtype), g.binary("mul", quotient, g.scalar(value, dtype)))


@lowers("aten._to_copy.default", "prims.convert_element_type.default", "aten.to.dtype")
def _to(g, x, *_, **__):
    if not isinstance(x, Value):
        return g.tensor(x, g.meta.dtype)
    if x.dtype == torch.bool or g.meta.dtype == torch.bool or x.dtype != g.meta.dtype:
        return g.cast(x, g.meta.dtype)
    return x


@lowers("aten.view.dtype")
def _bits(g, x, dtype):
    return g.op("bit_cast", [x], dtype=dtype, to=ElementType(TYPES[dtype]))


@lowers(
    "aten.clone.default", "aten.alias.default", "aten.detach.default", "aten.contiguous.default", "aten.lift_fresh_copy.default",
    "aten.detach_.default", "aten.lift_fresh.default",
)  # fmt: skip
def _same(g, x, **_):
    return x


@lowers("aten.copy.default")
def _copy(g, x, source, non_blocking=False):
    return g.broadcast(g.cast(source, x.dtype), x.shape)


# ---- of two arguments, and of their bits ----


@lowers("aten.atan2.default")
def _atan2(g, y, x):
    return formulas.atan2(g, *(g.broadcast(g.tensor(part, g.meta.dtype), g.meta.shape) for part in (y, x)))


def choose(g, condition, a, b):
    return g.op("where", [condition, a, b], sizes.broadcast(condition.shape, a.shape, b.shape), a.dtype)


def _is_negative(g, x):
    return formulas.is_negative(g, x) if x.dtype.is_floating_point else compare(g, "less", x, g.scalar(0, x.dtype))


@lowers("aten.signbit.default")
def _signbit(g, x):
    return _is_negative(g, x) if x.dtype != torch.bool else g.broadcast(g.scalar(False, torch.bool), x.shape)


@lowers("aten.copysign.Tensor", "aten.copysign.Scalar")
def _copysign(g, x, sign):
    dtype = g.meta.dtype
    size, sign = g.op("abs", [g.tensor(x, dtype)]), g.tensor(sign, dtype)
    return choose(g, _is_negative(g, sign), g.op("neg", [size]), size)


@lowers("aten.bitwise_left_shift.Tensor", "aten.bitwise_left_shift.Tensor_Scalar", "aten.bitwise_right_shift.Tensor",
        "aten.bitwise_right_shift.Tensor_Scalar", "aten.__lshift__.Scalar", "aten.__rshift__.Scalar")  # fmt: skip
def _shift(g, x, by):
    name, dtype = str(g.node.target), g.meta.dtype
    return g.binary("bit_shift", g.tensor(x, dtype), g.tensor(by, dtype), left="left" in name or "lshift" in name)


@lowers("aten.fmax.default", "aten.fmin.default")
def _without_nan(g, a, b):
    """The larger or smaller; of a number and what is none, the number."""
    dtype, name = g.meta.dtype, "max" if "fmax" in str(g.node.target) else "min"
    a, b = g.tensor(a, dtype), g.tensor(b, dtype)
    result = g.binary(name, a, b)
    if not dtype.is_floating_point:
        return result
    result = choose(g, g.op("isnan", [a], dtype=torch.bool), b, result)
    return choose(g, g.op("isnan", [b], dtype=torch.bool), g.broadcast(a, result.shape), result)


@lowers("aten.hypot.default")
def _hypot(g, a, b):
    """By the larger, so that no square overflows."""
    a, b = (g.op("abs", [g.tensor(x, g.meta.dtype)]) for x in (a, b))
    large, small = g.binary("max", a, b), g.binary("min", a, b)
    one, zero = g.scalar(1, a.dtype), g.scalar(0, a.dtype)
    ratio = choose(g, compare(g, "equal", large, zero), zero, g.binary("div", small, large))
    length = g.binary("mul", large, g.op("sqrt", [g.binary("add", one, g.binary("mul", ratio, ratio))]))
    return choose(g, compare(g, "equal", large, g.scalar(math.inf, a.dtype)), large, length)


@lowers("aten.erfc.default")
def _erfc(g, x):
    dtype = g.meta.dtype
    return g.cast(formulas.erfc(g, g.cast(x, torch.float64 if dtype == torch.float64 else torch.float32)), dtype)


@lowers("aten.round.decimals")
def _round_decimals(g, x, decimals=0):
    if not x.dtype.is_floating_point:
        return x
    scale = g.scalar(10.0 ** abs(decimals), x.dtype)
    there, back = ("mul", "div") if decimals >= 0 else ("div", "mul")
    return g.binary(back, g.op("round", [g.binary(there, x, scale)]), scale)


@lowers("aten.lerp.Scalar", "aten.lerp.Tensor")
def _lerp(g, a, b, weight):
    """From the nearer end, as PyTorch goes, so that both ends are exact."""
    dtype = g.meta.dtype
    a, b, weight = g.tensor(a, dtype), g.tensor(b, dtype), g.tensor(weight, dtype)
    way = g.binary("sub", b, a)
    near_a = g.binary("add", a, g.binary("mul", weight, way))
    near_b = g.binary("sub", b, g.binary("mul", way, g.binary("sub", g.scalar(1, dtype), weight)))
    return choose(g, compare(g, "less", g.op("abs", [weight]), g.scalar(0.5, dtype)), near_a, near_b)

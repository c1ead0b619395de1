// The element-wise operators as arithmetic (Elementwise::emitScalar).
//
// Semantics are the records' (ElementwiseOps.td). No code here may trap or be undefined for any
// operand: integer division guards its divisor, shifts their amount. Where a type has no code, such
// as transcendental functions of f64, the emitter returns null and the runtime evaluates the
// operator as its reference does.
#include "compiler/graph/Bounds.h"
#include "compiler/graph/ElementaryFunctions.h"
#include "compiler/graph/Graph.h"

#include "mlir/IR/Matchers.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tensmith::graph {

namespace {
using FloatIs = arith::CmpFPredicate;
using IntIs = arith::CmpIPredicate;

Type elementOf(Value tensor) { return getElementTypeOrSelf(tensor.getType()); }

/// Whether elements of the type are computed with inside kernels, not only moved as bytes.
bool isArithmetic(Type element) {
  if (auto integer = dyn_cast<IntegerType>(element))
    return integer.getWidth() == 1 || integer.getWidth() >= 8;
  return element.isF32() || element.isF64() || element.isF16() || element.isBF16();
}

bool isArithmetic(Operation *op) {
  return llvm::all_of(op->getOperands(), [](Value v) { return isArithmetic(elementOf(v)); });
}

using F32Function = Value (*)(const ScalarCode &, Value);

/// A function that has code for f32 alone.
Value emitF32(OpBuilder &builder, Location location, ValueRange operands, F32Function function) {
  if (!ScalarCode::element(operands[0]).isF32())
    return {};
  return function(ScalarCode(builder, location), operands[0]);
}

/// A function that leaves integers as they are (rounding).
template <typename MathOp>
Value emitRounding(OpBuilder &builder, Location location, Operation *op, Value x) {
  if (!isArithmetic(op))
    return {};
  return ScalarCode::isFloat(x) ? builder.createOrFold<MathOp>(location, x) : x;
}

Value emitCompare(OpBuilder &builder, Location location, Operation *op, ValueRange operands,
                  FloatIs onFloats, IntIs onSigned, IntIs onUnsigned) {
  if (!isArithmetic(op))
    return {};
  ScalarCode code(builder, location);
  if (ScalarCode::isFloat(operands[0]))
    return code.compare(onFloats, operands[0], operands[1]);
  bool isUnsignedType = isUnsigned(elementOf(op->getOperand(0)));
  return code.compare(isUnsignedType ? onUnsigned : onSigned, operands[0], operands[1]);
}

/// A divisor that neither traps nor overflows: 1 in place of 0, and of -1 where signed.
struct Divisor {
  Value safe, isZero, isMinusOne; // isMinusOne is null for unsigned types
};

Divisor guardDivisor(const ScalarCode &code, Value b, bool isUnsignedType) {
  Divisor divisor;
  divisor.isZero = code.equal(b, code.integer(b, 0));
  Value isUnsafe = divisor.isZero;
  if (!isUnsignedType) {
    divisor.isMinusOne = code.equal(b, code.integer(b, -1));
    isUnsafe = code.bitOr(isUnsafe, divisor.isMinusOne);
  }
  divisor.safe = code.select(isUnsafe, code.integer(b, 1), b);
  return divisor;
}

Value divideIntegers(const ScalarCode &code, Value a, Value b, bool isUnsignedType) {
  Divisor divisor = guardDivisor(code, b, isUnsignedType);
  Value zero = code.integer(a, 0);
  if (isUnsignedType)
    return code.select(divisor.isZero, zero, code.make<arith::DivUIOp>(a, divisor.safe));
  Value quotient = code.make<arith::DivSIOp>(a, divisor.safe);
  quotient = code.select(divisor.isMinusOne, code.sub(zero, a), quotient);
  return code.select(divisor.isZero, zero, quotient);
}

Value remainderOfIntegers(const ScalarCode &code, Value a, Value b, bool isUnsignedType,
                          bool fmod) {
  Divisor divisor = guardDivisor(code, b, isUnsignedType);
  Value zero = code.integer(a, 0);
  if (isUnsignedType)
    return code.select(divisor.isZero, zero, code.make<arith::RemUIOp>(a, divisor.safe));
  Value r = code.make<arith::RemSIOp>(a, divisor.safe); // 0 where the divisor was replaced
  if (fmod)
    return r;
  Value differs = code.compare(IntIs::slt, code.bitXor(r, b), zero);
  Value isNotZero = code.compare(IntIs::ne, r, zero);
  Value adjust = code.bitAnd(code.bitAnd(differs, isNotZero),
                             code.compare(IntIs::ne, divisor.isZero, code.boolean(r, true)));
  return code.select(adjust, code.add(r, b), r);
}

/// What is left of |x| by multiples of |y|, of f32 and narrower in f64: 28 bits of the quotient at
/// a time, from the highest that it can have, so that each product with 24 bits of y is exact.
Value remainderOfMagnitudes(const ScalarCode &code, Value x, Value y, bool ofHalves) {
  constexpr int kBits = 28, kLongest = 277 / kBits, kLongestOfHalves = 40 / kBits;
  Value r = code.abs(x), divisor = code.abs(y);
  for (int step = ofHalves ? kLongestOfHalves : kLongest; step >= 0; --step) {
    Value multiple =
        step ? code.mul(divisor, code.real(divisor, std::ldexp(1.0, step * kBits))) : divisor;
    Value quotient = code.make<math::TruncOp>(code.div(r, multiple));
    r = code.multiplyAdd(code.neg(quotient), multiple, r);
    // The quotient may have been rounded up to the next integer.
    r = code.select(code.less(r, code.real(r, 0)), code.add(r, multiple), r);
  }
  return r;
}

/// a - b * trunc(a / b), exactly.
Value remainderOfFloats(const ScalarCode &code, Value a, Value b, bool fmod) {
  Type narrow = ScalarCode::element(a);
  if (narrow.isF64())
    return {}; // a quotient may have 2,000 bits
  Value x = code.toFloat(a, code.f64()), y = code.toFloat(b, code.f64());
  Value zero = code.real(x, 0);
  Value r = code.copySign(remainderOfMagnitudes(code, x, y, narrow.isF16()), x);
  if (!fmod) {
    Value differs = code.less(
        code.mul(code.copySign(code.real(x, 1), r), code.copySign(code.real(y, 1), y)), zero);
    Value isNotZero = code.compare(FloatIs::ONE, r, zero);
    r = code.select(code.bitAnd(differs, isNotZero), code.add(r, y), r);
  }
  // A finite number below an infinite one is its own remainder (with Python's sign: the infinity).
  Value infinity = code.real(y, std::numeric_limits<double>::infinity());
  Value isUnbounded =
      code.bitAnd(code.equal(code.abs(y), infinity), code.less(code.abs(x), infinity));
  Value whole = x;
  if (!fmod) {
    Value opposite = code.bitOr(code.bitAnd(code.less(x, zero), code.greater(y, zero)),
                                code.bitAnd(code.greater(x, zero), code.less(y, zero)));
    whole = code.select(opposite, y, x);
  }
  return code.toFloat(code.select(isUnbounded, whole, r), narrow);
}

/// The number that every element of `value` is, as far as the code shows it: a constant here, or a
/// constant of the graph.
std::optional<double> uniformValue(Value value, Value tensor) {
  Attribute attribute;
  if (!matchPattern(value, m_Constant(&attribute))) {
    auto constant = tensor.getDefiningOp<ConstantOp>();
    if (!constant)
      return std::nullopt;
    attribute = constant.getValue();
  }
  if (auto dense = dyn_cast<DenseElementsAttr>(attribute)) {
    if (!dense.isSplat())
      return std::nullopt;
    attribute = dense.getSplatValue<Attribute>();
  }
  if (auto real = dyn_cast<FloatAttr>(attribute))
    return real.getValueAsDouble();
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return double(integer.getValue().getSExtValue());
  return std::nullopt;
}

/// The powers that models are full of, without a logarithm; null for any other.
Value emitSimplePower(const ScalarCode &code, Value a, double exponent) {
  if (exponent == 0)
    return code.number(a, 1);
  if (exponent == 1)
    return a;
  if (exponent == 2)
    return code.mul(a, a);
  if (exponent == 3)
    return code.mul(code.mul(a, a), a);
  if (exponent == 4) {
    Value square = code.mul(a, a);
    return code.mul(square, square);
  }
  if (!ScalarCode::isFloat(a))
    return {};
  Value one = code.real(a, 1);
  if (exponent == -1)
    return code.div(one, a);
  if (exponent == -2)
    return code.div(one, code.mul(a, a));
  if (exponent == 0.5 || exponent == -0.5) {
    // A power of -infinity is +infinity, a square root is none; and of -0, +0.
    Value isInfinite = code.equal(a, code.real(a, -std::numeric_limits<double>::infinity()));
    Value base = code.add(code.select(isInfinite, code.neg(a), a), code.real(a, 0));
    Value root = code.sqrt(base);
    return exponent > 0 ? root : code.div(one, root);
  }
  return {};
}

/// By squaring, over every bit of the exponent; a negative exponent gives the integer part of the
/// reciprocal: 0, or a power of 1 or -1.
Value powerOfIntegers(const ScalarCode &code, Value a, Value b, bool isUnsignedBase,
                      bool isUnsignedExponent) {
  Value result = code.integer(a, 1), base = a, zero = code.integer(b, 0);
  for (unsigned bit = 0, bits = ScalarCode::width(b); bit < bits; ++bit) {
    Value digit = code.bitAnd(b, code.integer(b, int64_t(uint64_t(1) << bit)));
    result = code.select(code.compare(IntIs::ne, digit, zero), code.mul(result, base), result);
    base = code.mul(base, base);
  }
  if (isUnsignedExponent)
    return result;
  Value isUnit = code.equal(a, code.integer(a, 1));
  if (!isUnsignedBase)
    isUnit = code.bitOr(isUnit, code.equal(a, code.integer(a, -1)));
  Value isNegative = code.compare(IntIs::slt, b, zero);
  Value isVanishing = code.bitAnd(isNegative, code.bitXor(isUnit, code.boolean(a, true)));
  return code.select(isVanishing, code.integer(a, 0), result);
}

/// A shift amount in `a`'s width, and whether it is below that width.
std::pair<Value, Value> shiftAmount(const ScalarCode &code, Value a, Value b,
                                    bool isUnsignedAmount) {
  unsigned width = ScalarCode::width(a);
  if (ScalarCode::width(b) < width)
    b = code.resize(b, width, isUnsignedAmount);
  Value inRange = code.compare(IntIs::ult, b, code.integer(b, width));
  Value amount = code.select(inRange, b, code.integer(b, 0));
  return {code.resize(amount, width, true), inRange};
}
} // namespace

Value AbsOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  if (!isArithmetic(*this))
    return {};
  if (!ScalarCode::isFloat(operands[0]) && isUnsigned(elementOf(getX())))
    return operands[0];
  return ScalarCode(builder, location).abs(operands[0]);
}

Value NegOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return isArithmetic(*this) ? ScalarCode(builder, location).neg(operands[0]) : Value();
}

Value SignOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  if (!isArithmetic(*this))
    return {};
  ScalarCode code(builder, location);
  Value x = operands[0], zero = code.number(x, 0), one = code.number(x, 1);
  if (ScalarCode::isFloat(x))
    return code.select(code.greater(x, zero), one,
                       code.select(code.less(x, zero), code.real(x, -1), x));
  if (isUnsigned(elementOf(getX())))
    return code.select(code.equal(x, zero), zero, one);
  Value isNegative = code.compare(IntIs::slt, x, zero);
  return code.select(code.compare(IntIs::sgt, x, zero), one,
                     code.select(isNegative, code.integer(x, -1), zero));
}

Value CeilOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitRounding<math::CeilOp>(builder, location, *this, operands[0]);
}
Value FloorOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitRounding<math::FloorOp>(builder, location, *this, operands[0]);
}
Value RoundOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitRounding<math::RoundEvenOp>(builder, location, *this, operands[0]);
}

Value SqrtOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  if (!ScalarCode::isFloat(operands[0]))
    return {};
  return ScalarCode(builder, location).sqrt(operands[0]);
}
Value RsqrtOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  if (!ScalarCode::isFloat(operands[0]))
    return {};
  ScalarCode code(builder, location);
  return code.div(code.real(operands[0], 1), code.sqrt(operands[0]));
}

Value ExpOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitF32(builder, location, operands,
                 [](const ScalarCode &code, Value x) { return emitExp(code, x); });
}
Value LogOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitF32(builder, location, operands, emitLog);
}
Value Log1pOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitF32(builder, location, operands, emitLog1p);
}
Value SinOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitF32(builder, location, operands, emitSin);
}
Value CosOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitF32(builder, location, operands, emitCos);
}
Value TanOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitF32(builder, location, operands, emitTan);
}
Value AsinOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitF32(builder, location, operands, emitAsin);
}
Value AcosOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitF32(builder, location, operands, emitAcos);
}
Value AtanOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitF32(builder, location, operands, emitAtan);
}
Value SinhOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitF32(builder, location, operands, emitSinh);
}
Value CoshOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitF32(builder, location, operands, emitCosh);
}
Value TanhOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitF32(builder, location, operands, emitTanh);
}
Value AsinhOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitF32(builder, location, operands, emitAsinh);
}
Value AcoshOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitF32(builder, location, operands, emitAcosh);
}
Value AtanhOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitF32(builder, location, operands, emitAtanh);
}
Value ErfOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitF32(builder, location, operands, emitErf);
}
Value SigmoidOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return emitF32(builder, location, operands, emitSigmoid);
}

Value NotOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  if (!elementOf(getX()).isSignlessInteger(1))
    return {};
  ScalarCode code(builder, location);
  return code.bitXor(operands[0], code.boolean(operands[0], true));
}
Value BitwiseNotOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  if (!isArithmetic(*this) || ScalarCode::isFloat(operands[0]))
    return {};
  ScalarCode code(builder, location);
  return code.bitXor(operands[0], code.integer(operands[0], -1));
}

Value IsNanOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  if (!ScalarCode::isFloat(operands[0]))
    return {};
  return ScalarCode(builder, location).isNan(operands[0]);
}
Value IsInfOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  if (!ScalarCode::isFloat(operands[0]))
    return {};
  ScalarCode code(builder, location);
  Value x = operands[0];
  Value infinity = code.real(x, std::numeric_limits<double>::infinity());
  if (getDetectNegative() && getDetectPositive())
    return code.equal(code.abs(x), infinity);
  if (getDetectNegative() || getDetectPositive())
    return code.equal(x, getDetectPositive() ? infinity : code.neg(infinity));
  return code.boolean(x, false);
}

Value BitCastOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  Type from = elementOf(getX()), to = getTo();
  auto isPlain = [](Type type) { // the kernel's form has the bits of the storage
    auto integer = dyn_cast<IntegerType>(type);
    return type.isF32() || type.isF64() || (integer && integer.getWidth() >= 8);
  };
  if (!isPlain(from) || !isPlain(to))
    return {};
  if (from.getIntOrFloatBitWidth() != to.getIntOrFloatBitWidth())
    return {};
  ScalarCode code(builder, location);
  Type kernelType = kernelElementType(to);
  return ScalarCode::element(operands[0]) == kernelType ? operands[0]
                                                        : code.reinterpret(operands[0], kernelType);
}

static bool isContracted(Operation *op) {
  return op->hasAttr(kContract) && getElementTypeOrSelf(op->getResult(0).getType()).isF32();
}

Value AddOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  if (isArithmetic(*this) && isContracted(*this))
    return builder.create<arith::AddFOp>(location, operands[0], operands[1],
                                         arith::FastMathFlags::contract);
  return isArithmetic(*this) ? ScalarCode(builder, location).add(operands[0], operands[1])
                             : Value();
}
Value SubOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return isArithmetic(*this) ? ScalarCode(builder, location).sub(operands[0], operands[1])
                             : Value();
}
Value MulOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  if (isArithmetic(*this) && isContracted(*this))
    return builder.create<arith::MulFOp>(location, operands[0], operands[1],
                                         arith::FastMathFlags::contract);
  return isArithmetic(*this) ? ScalarCode(builder, location).mul(operands[0], operands[1])
                             : Value();
}
Value DivOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  if (!isArithmetic(*this))
    return {};
  ScalarCode code(builder, location);
  if (ScalarCode::isFloat(operands[0]))
    return code.div(operands[0], operands[1]);
  return divideIntegers(code, operands[0], operands[1], isUnsigned(elementOf(getA())));
}
Value ModOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  if (!isArithmetic(*this))
    return {};
  ScalarCode code(builder, location);
  if (ScalarCode::isFloat(operands[0]))
    return remainderOfFloats(code, operands[0], operands[1], getFmod());
  return remainderOfIntegers(code, operands[0], operands[1], isUnsigned(elementOf(getA())),
                             getFmod());
}

Value PowOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  if (!isArithmetic(*this))
    return {};
  ScalarCode code(builder, location);
  Value a = operands[0], b = operands[1];
  if (std::optional<double> exponent = uniformValue(b, getB()))
    if (Value simple = emitSimplePower(code, a, *exponent))
      return simple;
  bool isUnsignedExponent = isUnsigned(elementOf(getB()));
  if (!ScalarCode::isFloat(a) && !ScalarCode::isFloat(b))
    return powerOfIntegers(code, a, b, isUnsigned(elementOf(getA())), isUnsignedExponent);
  if (!ScalarCode::element(a).isF32())
    return {};
  if (ScalarCode::isFloat(b))
    return emitPow(code, a, code.toFloat(b, code.f32()));
  Type type = ScalarCode::withElement(b, code.f32());
  return emitPow(code, a,
                 isUnsignedExponent ? code.make<arith::UIToFPOp>(type, b)
                                    : code.make<arith::SIToFPOp>(type, b));
}

Value MinOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  if (!isArithmetic(*this))
    return {};
  ScalarCode code(builder, location);
  if (ScalarCode::isFloat(operands[0]))
    return code.minimum(operands[0], operands[1]);
  return isUnsigned(elementOf(getA())) ? code.make<arith::MinUIOp>(operands[0], operands[1])
                                       : code.make<arith::MinSIOp>(operands[0], operands[1]);
}
Value MaxOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  if (!isArithmetic(*this))
    return {};
  ScalarCode code(builder, location);
  if (ScalarCode::isFloat(operands[0]))
    return code.maximum(operands[0], operands[1]);
  return isUnsigned(elementOf(getA())) ? code.make<arith::MaxUIOp>(operands[0], operands[1])
                                       : code.make<arith::MaxSIOp>(operands[0], operands[1]);
}

#define BITWISE(GRAPH_OP, EMIT, IS_LOGICAL)                                                        \
  Value GRAPH_OP::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {         \
    bool isBoolean = elementOf(getA()).isInteger(1);                                               \
    if (!isArithmetic(*this) || ScalarCode::isFloat(operands[0]) || (IS_LOGICAL && !isBoolean))    \
      return {};                                                                                   \
    return ScalarCode(builder, location).EMIT(operands[0], operands[1]);                           \
  }
BITWISE(AndOp, bitAnd, true)
BITWISE(OrOp, bitOr, true)
BITWISE(XorOp, bitXor, true)
BITWISE(BitwiseAndOp, bitAnd, false)
BITWISE(BitwiseOrOp, bitOr, false)
BITWISE(BitwiseXorOp, bitXor, false)
#undef BITWISE

Value BitShiftOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  if (!isArithmetic(*this) || ScalarCode::isFloat(operands[0]))
    return {};
  ScalarCode code(builder, location);
  Value a = operands[0];
  auto [amount, inRange] = shiftAmount(code, a, operands[1], isUnsigned(elementOf(getB())));
  Value shifted;
  if (getLeft())
    shifted = code.make<arith::ShLIOp>(a, amount);
  else
    shifted = isUnsigned(elementOf(getA())) ? code.make<arith::ShRUIOp>(a, amount)
                                            : code.make<arith::ShRSIOp>(a, amount);
  Value beyond = code.integer(a, 0);
  if (!getLeft() && !isUnsigned(elementOf(getA())))
    beyond = code.make<arith::ShRSIOp>(a, code.integer(a, int64_t(ScalarCode::width(a)) - 1));
  return code.select(inRange, shifted, beyond);
}

#define COMPARE(GRAPH_OP, ON_FLOATS, ON_SIGNED, ON_UNSIGNED)                                       \
  Value GRAPH_OP::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {         \
    return emitCompare(builder, location, *this, operands, FloatIs::ON_FLOATS, IntIs::ON_SIGNED,   \
                       IntIs::ON_UNSIGNED);                                                        \
  }
COMPARE(EqualOp, OEQ, eq, eq)
COMPARE(LessOp, OLT, slt, ult)
COMPARE(LessOrEqualOp, OLE, sle, ule)
COMPARE(GreaterOp, OGT, sgt, ugt)
COMPARE(GreaterOrEqualOp, OGE, sge, uge)
#undef COMPARE

Value WhereOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  if (!kernelElementType(elementOf(getA())))
    return {};
  return ScalarCode(builder, location).select(operands[0], operands[1], operands[2]);
}

} // namespace tensmith::graph

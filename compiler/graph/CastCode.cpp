// Conversion between element types as arithmetic.
//
// A conversion is defined for every operand: floats out of an integer's range saturate and NaN
// becomes 0, so that no machine's own answer, nor LLVM's undefined value, shows. 16-bit floats are
// f32 inside kernels, rounded to what memory can hold.
#include "compiler/graph/Bounds.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/ScalarCode.h"

using namespace mlir;

namespace tensmith::graph {

namespace {
using FloatIs = arith::CmpFPredicate;
using IntIs = arith::CmpIPredicate;

/// The number of 16 bits that is nearest to an f32 or f64, as f32. From f64 at once: by way of the
/// nearest f32 it would be rounded twice.
Value roundTo(const ScalarCode &code, Value x, Type half) {
  Value rounded = code.make<arith::TruncFOp>(ScalarCode::withElement(x, half), x);
  return code.make<arith::ExtFOp>(ScalarCode::withElement(x, code.builder.getF32Type()), rounded);
}

/// Truncated toward zero and clamped to an integer of `bits` bits, in a kernel integer of
/// `storage`.
Value floatToInteger(const ScalarCode &code, Value x, unsigned bits, unsigned storage,
                     bool isUnsignedType) {
  double low = isUnsignedType ? -1.0 : -std::ldexp(1.0, int(bits) - 1) - (bits < 24 ? 1 : 0);
  double high = std::ldexp(1.0, int(bits) - (isUnsignedType ? 0 : 1));
  Value lower = code.real(x, low), upper = code.real(x, high);
  // Bounds that are no integer's image are excluded, the others (-2^31 of i32) included.
  bool isLowExcluded = isUnsignedType || bits < 24;
  Value inRange = code.bitAnd(code.compare(isLowExcluded ? FloatIs::OGT : FloatIs::OGE, x, lower),
                              code.less(x, upper));
  Value safe = code.select(inRange, x, code.real(x, 0));
  // Narrow integers through i32: that conversion is one vector instruction.
  unsigned via = bits < 32 ? 32 : bits;
  Type type = ScalarCode::withElement(x, code.integerType(via));
  Value converted = isUnsignedType && bits >= 32 ? code.make<arith::FPToUIOp>(type, safe)
                                                 : code.make<arith::FPToSIOp>(type, safe);
  converted = code.resize(converted, storage, isUnsignedType);
  llvm::APInt maximum =
      isUnsignedType ? llvm::APInt::getMaxValue(bits) : llvm::APInt::getSignedMaxValue(bits);
  llvm::APInt minimum =
      isUnsignedType ? llvm::APInt::getMinValue(bits) : llvm::APInt::getSignedMinValue(bits);
  Value largest = code.integer(converted, int64_t(maximum.getZExtValue()));
  Value smallest = code.integer(converted, isUnsignedType ? 0 : minimum.getSExtValue());
  converted = code.select(code.compare(FloatIs::OGE, x, upper), largest, converted);
  return code.select(code.compare(FloatIs::OLE, x, lower), smallest, converted);
}

/// The same of a number that is known to be in range: only NaN is not.
Value boundedToInteger(const ScalarCode &code, Value x, unsigned storage) {
  Value number = code.select(code.isNan(x), code.real(x, 0), x);
  Type type = ScalarCode::withElement(x, code.integerType(32));
  return code.resize(code.make<arith::FPToSIOp>(type, number), storage, false);
}

/// The low `bits` bits of a byte, extended to it again.
Value wrapToNarrow(const ScalarCode &code, Value byte, unsigned bits, bool isUnsignedType) {
  if (isUnsignedType)
    return code.bitAnd(byte, code.integer(byte, (1 << bits) - 1));
  return code.shiftRight(code.shiftLeft(byte, 8 - bits), 8 - bits);
}

Value integerToFloat(const ScalarCode &code, Value x, Type to, bool isUnsignedType) {
  Type type = ScalarCode::withElement(x, to);
  // Narrow ones through i32, which every machine converts.
  if (ScalarCode::width(x) < 32) {
    x = code.resize(x, 32, isUnsignedType);
    isUnsignedType = false;
  }
  return isUnsignedType ? code.make<arith::UIToFPOp>(type, x) : code.make<arith::SIToFPOp>(type, x);
}

Value castToFloat(const ScalarCode &code, Value x, Type from, Type to) {
  Type kernelType = kernelElementType(to);
  bool isHalf = to.isF16() || to.isBF16();
  if (isHalf && from.isF64())
    return roundTo(code, x, to);
  Value converted = ScalarCode::isFloat(x) ? code.toFloat(x, kernelType)
                                           : integerToFloat(code, x, kernelType, isUnsigned(from));
  return isHalf && from != to ? roundTo(code, converted, to) : converted;
}

Value castToInteger(const ScalarCode &code, Value x, Type from, IntegerType to) {
  unsigned bits = to.getWidth();
  unsigned storage = kernelElementType(to).getIntOrFloatBitWidth();
  if (bits == 1)
    return ScalarCode::isFloat(x) ? code.compare(FloatIs::UNE, x, code.real(x, 0))
                                  : code.compare(IntIs::ne, x, code.integer(x, 0));
  if (ScalarCode::isFloat(x) && bits >= 8)
    return floatToInteger(code, x, bits, storage, isUnsigned(to));
  if (ScalarCode::isFloat(x))
    x = floatToInteger(code, x, 32, 32, false);
  Value resized = code.resize(x, storage, isUnsigned(from));
  return bits < 8 ? wrapToNarrow(code, resized, bits, isUnsigned(to)) : resized;
}
} // namespace

bool staysWithin(CastOp cast) {
  auto to = dyn_cast<IntegerType>(cast.getTo());
  if (!to || to.getWidth() < 8 || to.getWidth() > 16 ||
      !getElementTypeOrSelf(cast.getX().getType()).isF32())
    return false;
  double low = isUnsigned(to) ? 0 : -std::ldexp(1.0, int(to.getWidth()) - 1);
  double high = std::ldexp(1.0, int(to.getWidth()) - (isUnsigned(to) ? 0 : 1)) - 1;
  return cast->hasAttr(kBounded) || boundsOf(cast.getX()).within(low, high);
}

Value CastOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  Type from = getElementTypeOrSelf(getX().getType()), to = getTo();
  auto hasCode = [](Type type) {
    return isa<IntegerType>(type) || type.isF32() || type.isF64() || type.isF16() || type.isBF16();
  };
  if (!hasCode(from) || !hasCode(to))
    return {};
  ScalarCode code(builder, location);
  auto integer = dyn_cast<IntegerType>(to);
  if (from.isF32() && to.isSignlessInteger(32) && getOperation()->hasAttr(kInRange))
    return code.make<arith::FPToSIOp>(ScalarCode::withElement(operands[0], to), operands[0]);
  if (integer && staysWithin(*this))
    return boundedToInteger(code, operands[0], kernelElementType(to).getIntOrFloatBitWidth());
  if (integer)
    return castToInteger(code, operands[0], from, integer);
  return castToFloat(code, operands[0], from, to);
}

} // namespace tensmith::graph

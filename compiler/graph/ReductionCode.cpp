// Reductions as loops over their axes (Indexed::emitElement).
//
// The loops run over the axes in order, so that the innermost is the last and walks memory. Sums of
// halves are carried in f32 (what they are inside kernels); narrow integers wrap at their width.
#include "compiler/graph/IndexCode.h"

#include <limits>

using namespace mlir;

namespace tensmith::graph {

namespace {
bool isReducible(Operation *op) {
  if (!hasKernelTypes(op))
    return false;
  Type element = rankedType(op->getOperand(0)).getElementType();
  auto integer = dyn_cast<IntegerType>(element);
  return integer ? integer.getWidth() >= 8 || integer.getWidth() == 1
                 : element.isF32() || element.isF64() || element.isF16() || element.isBF16();
}

Value constantOf(ElementContext &context, Type type, double real, const llvm::APInt &integer) {
  TypedAttr attribute = isa<FloatType>(type)
                            ? TypedAttr(context.builder.getFloatAttr(type, real))
                            : TypedAttr(context.builder.getIntegerAttr(type, integer));
  return context.builder.create<arith::ConstantOp>(context.location, attribute);
}

Value numberOf(ElementContext &context, Type type, int64_t value) {
  unsigned bits = type.getIntOrFloatBitWidth();
  return constantOf(context, type, double(value), llvm::APInt(bits, uint64_t(value)));
}

/// What the largest (or smallest) of no elements is: what every element beats or equals.
Value extremeOf(ElementContext &context, Type element, bool isMaximum) {
  Type type = kernelElementType(element);
  unsigned bits = type.getIntOrFloatBitWidth();
  double infinity = std::numeric_limits<double>::infinity();
  llvm::APInt integer;
  if (isUnsigned(element))
    integer = isMaximum ? llvm::APInt::getMinValue(bits) : llvm::APInt::getMaxValue(bits);
  else
    integer =
        isMaximum ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getSignedMaxValue(bits);
  return constantOf(context, type, isMaximum ? -infinity : infinity, integer);
}

using Combine = llvm::function_ref<Value(const ScalarCode &, Value, Value)>;

Value emitReduction(ElementContext &context, ElementContext::Join join, Value x,
                    ArrayRef<int64_t> axes, bool keepdims, ValueRange indices, Value initial,
                    Combine combine) {
  unsigned rank = rankedType(x).getRank();
  SmallVector<Value> source(rank), extents;
  unsigned next = 0;
  for (unsigned dim = 0; dim < rank; ++dim) {
    bool isReduced = llvm::is_contained(axes, int64_t(dim));
    if (isReduced)
      extents.push_back(context.operandSize(0, dim));
    if (!isReduced)
      source[dim] = indices[keepdims ? dim : next++];
  }
  auto term = [&](ValueRange reduced) -> SmallVector<Value> {
    SmallVector<Value> position(source);
    for (auto [axis, index] : llvm::zip_equal(axes, reduced))
      position[axis] = index;
    return {context.operand(0, position)};
  };
  return context.reduce(join, extents, initial, term, [&](Value carried, ValueRange element) {
    return combine(ScalarCode(context.builder, context.location), carried, element[0]);
  });
}

/// The better of two by value, or a NaN if either is.
Value emitExtreme(const ScalarCode &code, Value a, Value b, bool isUnsignedType, bool isMaximum) {
  if (ScalarCode::isFloat(a))
    return isMaximum ? code.maximum(a, b) : code.minimum(a, b);
  if (isUnsignedType)
    return isMaximum ? code.make<arith::MaxUIOp>(a, b) : code.make<arith::MinUIOp>(a, b);
  return isMaximum ? code.make<arith::MaxSIOp>(a, b) : code.make<arith::MinSIOp>(a, b);
}

/// The bits of a float as a signed integer that is ordered as floats are, and back: negative ones
/// are ordered by their bits the other way round.
Value orderedBits(const ScalarCode &code, Value bits) {
  unsigned width = bits.getType().getIntOrFloatBitWidth();
  Value sign = code.make<arith::ShRSIOp>(
      bits, code.make<arith::ConstantIntOp>(int64_t(width) - 1, bits.getType()));
  int64_t all = llvm::APInt::getSignedMaxValue(width).getSExtValue();
  Value flips = code.bitAnd(sign, code.make<arith::ConstantIntOp>(all, bits.getType()));
  return code.make<arith::XOrIOp>(bits, flips);
}

/// What is compared for the largest (or smallest) of floats: integers of their order, of which LLVM
/// knows the extreme as a reduction. A NaN is beyond all.
Value orderedFloat(const ScalarCode &code, Value x, bool isMaximum) {
  Type bits = code.builder.getIntegerType(x.getType().getIntOrFloatBitWidth());
  Value key = orderedBits(code, code.make<arith::BitcastOp>(bits, x));
  unsigned width = bits.getIntOrFloatBitWidth();
  llvm::APInt beyond =
      isMaximum ? llvm::APInt::getSignedMaxValue(width) : llvm::APInt::getSignedMinValue(width);
  return code.select(code.isNan(x), code.make<arith::ConstantIntOp>(beyond.getSExtValue(), bits),
                     key);
}

/// The extreme first, then where it is: two reductions, while one that carries both is none. Along
/// the last dimension each is a loop that can be vectorised. `source`: the position of an element,
/// but for its index along the axis.
Value emitPlaceOfExtreme(ElementContext &context, Value x, unsigned axis, bool last,
                         ArrayRef<Value> source, bool isMaximum) {
  IndexCode index(context);
  Type element = rankedType(x).getElementType(), type = kernelElementType(element);
  bool isUnsignedType = isUnsigned(element), isReal = isa<FloatType>(type);
  Value extent = context.operandSize(0, axis), none = index.constant(-1);
  Value nowhere = last ? none : extent;
  auto elementAt = [&](ValueRange reduced) {
    SmallVector<Value> position(source);
    position[axis] = reduced[0];
    return context.operand(0, position);
  };
  using Join = ElementContext::Join;
  ScalarCode code(context.builder, context.location);
  bool byOrder = isReal && !context.isForNest();
  Value first = extremeOf(context, element, isMaximum);
  Value extreme = context.reduce(
      isMaximum ? Join::Largest : Join::Smallest, extent,
      byOrder ? orderedFloat(code, first, isMaximum) : first,
      [&](ValueRange reduced) -> SmallVector<Value> {
        Value own = elementAt(reduced);
        return {byOrder ? orderedFloat(code, own, isMaximum) : own};
      },
      [&](Value carried, ValueRange own) {
        return emitExtreme(code, carried, own[0], isUnsignedType, isMaximum);
      });
  if (byOrder)
    extreme = code.make<arith::BitcastOp>(type, orderedBits(code, extreme));
  return context.reduce(
      last ? Join::Largest : Join::Smallest, extent, nowhere,
      [&](ValueRange reduced) -> SmallVector<Value> {
        Value own = elementAt(reduced), is;
        // A NaN is the extreme where there is one.
        if (isReal)
          is = code.bitOr(code.compare(arith::CmpFPredicate::OEQ, own, extreme), code.isNan(own));
        else
          is = code.compare(arith::CmpIPredicate::eq, own, extreme);
        return {code.select(is, reduced[0], nowhere)};
      },
      [&](Value carried, ValueRange place) {
        return last ? code.make<arith::MaxSIOp>(carried, place[0])
                    : code.make<arith::MinSIOp>(carried, place[0]);
      });
}

Value emitArgExtreme(ElementContext &context, Value x, unsigned axis, bool keepdims, bool last,
                     ValueRange indices, bool isMaximum) {
  IndexCode index(context);
  auto type = rankedType(x);
  auto asInteger = [&](Value place) {
    return context.builder.create<arith::IndexCastOp>(context.location,
                                                      context.builder.getI64Type(), place);
  };
  SmallVector<Value> source;
  for (unsigned dim = 0, next = 0; dim < type.getRank(); ++dim) {
    bool isReduced = dim == axis;
    source.push_back(isReduced ? Value() : indices[keepdims ? dim : next]);
    next += !isReduced;
  }
  if (axis + 1 == type.getRank() || context.isForNest())
    return asInteger(emitPlaceOfExtreme(context, x, axis, last, source, isMaximum));
  bool isUnsignedType = isUnsigned(type.getElementType());
  // From before the first element on, which any beats: a first NaN too, since all then compare
  // false but the test for it. Once a NaN is held, only a later NaN where `last` replaces it.
  Value none = index.constant(-1);
  Value initial = extremeOf(context, type.getElementType(), isMaximum);
  auto body = [&](ValueRange reduced, ValueRange carried) -> SmallVector<Value> {
    ScalarCode code(context.builder, context.location);
    SmallVector<Value> position(source);
    position[axis] = reduced[0];
    Value element = context.operand(0, position), best = carried[0];
    Value isBetter;
    if (ScalarCode::isFloat(element)) {
      using Is = arith::CmpFPredicate;
      Is strict = isMaximum ? Is::OGT : Is::OLT, equal = isMaximum ? Is::OGE : Is::OLE;
      isBetter = code.compare(last ? equal : strict, element, best);
      Value isNan = code.isNan(element);
      Value replacesNan = last ? isNan : code.bitAnd(isNan, code.compare(Is::ORD, best, best));
      isBetter = code.bitOr(isBetter, replacesNan);
    } else {
      using Is = arith::CmpIPredicate;
      Is strict =
          isUnsignedType ? (isMaximum ? Is::ugt : Is::ult) : (isMaximum ? Is::sgt : Is::slt);
      Is equal = isUnsignedType ? (isMaximum ? Is::uge : Is::ule) : (isMaximum ? Is::sge : Is::sle);
      isBetter = code.compare(last ? equal : strict, element, best);
    }
    Value isFirst = index.isNegative(carried[1]);
    isBetter = code.bitOr(isBetter, isFirst);
    return {code.select(isBetter, element, best), code.select(isBetter, reduced[0], carried[1])};
  };
  Value extent = context.operandSize(0, axis);
  return asInteger(context.loop(extent, {initial, none}, body)[1]);
}
} // namespace

Value ReduceSumOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!isReducible(*this))
    return {};
  Type type = kernelElementType(rankedType(getX()).getElementType());
  return emitReduction(context, ElementContext::Join::Sum, getX(), getAxes(), getKeepdims(),
                       indices, numberOf(context, type, 0),
                       [](const ScalarCode &code, Value a, Value b) { return code.add(a, b); });
}
Value ReduceProdOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!isReducible(*this))
    return {};
  Type type = kernelElementType(rankedType(getX()).getElementType());
  return emitReduction(context, ElementContext::Join::Product, getX(), getAxes(), getKeepdims(),
                       indices, numberOf(context, type, 1),
                       [](const ScalarCode &code, Value a, Value b) { return code.mul(a, b); });
}
Value ReduceMaxOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!isReducible(*this))
    return {};
  Type element = rankedType(getX()).getElementType();
  return emitReduction(context, ElementContext::Join::Largest, getX(), getAxes(), getKeepdims(),
                       indices, extremeOf(context, element, true),
                       [&](const ScalarCode &code, Value a, Value b) {
                         return emitExtreme(code, a, b, isUnsigned(element), true);
                       });
}
Value ReduceMinOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!isReducible(*this))
    return {};
  Type element = rankedType(getX()).getElementType();
  return emitReduction(context, ElementContext::Join::Smallest, getX(), getAxes(), getKeepdims(),
                       indices, extremeOf(context, element, false),
                       [&](const ScalarCode &code, Value a, Value b) {
                         return emitExtreme(code, a, b, isUnsigned(element), false);
                       });
}
bool ReduceSumOp::isMovement() { return false; }
bool ReduceProdOp::isMovement() { return false; }
bool ReduceMaxOp::isMovement() { return false; }
bool ReduceMinOp::isMovement() { return false; }

Value ArgMaxOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!isReducible(*this))
    return {};
  return emitArgExtreme(context, getX(), getAxis(), getKeepdims(), getLast(), indices, true);
}
Value ArgMinOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!isReducible(*this))
    return {};
  return emitArgExtreme(context, getX(), getAxis(), getKeepdims(), getLast(), indices, false);
}
bool ArgMaxOp::isMovement() { return false; }
bool ArgMinOp::isMovement() { return false; }

} // namespace tensmith::graph

// Pooling windows as loops (Indexed::emitElement).
//
// A window's position outside the operand reads a clamped index and is left out by a select (by a
// branch where the operand may be empty). Windows that never leave it have neither.
#include "compiler/graph/ElementaryFunctions.h"
#include "compiler/graph/IndexCode.h"

#include <limits>

using namespace mlir;

namespace tensmith::graph {

namespace {
/// The attributes that all pools share.
struct Window {
  ArrayRef<int64_t> kernel, strides, pads, dilations;
  bool ceilMode, channelsLast;

  unsigned rank() const { return kernel.size(); }
  unsigned dimension(unsigned spatial) const { return spatial + (channelsLast ? 1 : 2); }
};

template <typename Op> Window windowOf(Op op) {
  return {op.getKernel(),    op.getStrides(),  op.getPads(),
          op.getDilations(), op.getCeilMode(), op.getChannelsLast()};
}

/// Whether the window at the end of a dimension may reach beyond the operand.
bool isPadded(const Window &window, RankedTensorType type, unsigned spatial) {
  unsigned rank = window.rank();
  return window.pads[spatial] != 0 || window.pads[spatial + rank] != 0 || window.ceilMode ||
         type.getDimSize(window.dimension(spatial)) == 0;
}

/// The operand's element at a position of the window, or `outside` where that is beyond it.
Value readWindow(ElementContext &context, const Window &window, RankedTensorType type,
                 ValueRange indices, ValueRange position, Value outside) {
  IndexCode code(context);
  SmallVector<Value> source(indices);
  Value inside;
  bool mayBeEmpty = false;
  for (unsigned spatial = 0; spatial < window.rank(); ++spatial) {
    unsigned dim = window.dimension(spatial);
    Value index = code.add(code.mul(indices[dim], window.strides[spatial]), -window.pads[spatial]);
    index = code.add(index, code.mul(position[spatial], window.dilations[spatial]));
    if (isPadded(window, type, spatial)) {
      Value size = context.operandSize(0, dim);
      mayBeEmpty |= type.isDynamicDim(dim);
      inside = code.both(inside, code.within(index, size));
      index = code.clamp(index, size);
    }
    source[dim] = index;
  }
  if (!inside)
    return context.operand(0, source);
  return readWhere(code, inside, mayBeEmpty, outside, [&] { return context.operand(0, source); });
}

SmallVector<Value> extentsOf(const IndexCode &code, const Window &window) {
  SmallVector<Value> extents;
  for (int64_t size : window.kernel)
    extents.push_back(code.constant(size));
  return extents;
}

bool isFloatPool(Operation *op) {
  return hasKernelTypes(op) &&
         isa<FloatType>(kernelElementType(rankedType(op->getOperand(0)).getElementType()));
}

bool hasEmptySpace(const Window &window, RankedTensorType type) {
  for (unsigned spatial = 0; spatial < window.rank(); ++spatial)
    if (type.getDimSize(window.dimension(spatial)) == 0)
      return true;
  return false;
}

/// How many positions of the window lie between `low` and `high` (exclusive) of one dimension:
/// ceil((high - start) / dilation) of those from the start, less those before `low`.
Value positionsWithin(const IndexCode &code, Value start, int64_t kernel, int64_t dilation,
                      Value low, Value high) {
  Value zero = code.constant(0), step = code.constant(dilation), all = code.constant(kernel);
  auto before = [&](Value bound) { // positions below the bound
    Value distance = code.make<arith::MaxSIOp>(code.sub(bound, start), zero);
    Value count = code.div(code.add(distance, dilation - 1), step);
    return code.make<arith::MinSIOp>(count, all);
  };
  return code.sub(before(high), before(low));
}

/// The divisor of a mean: how many positions count, along all dimensions.
Value countPositions(ElementContext &context, const Window &window, RankedTensorType type,
                     ValueRange indices, bool includesPadding) {
  IndexCode code(context);
  Value count = code.constant(1);
  for (unsigned spatial = 0; spatial < window.rank(); ++spatial) {
    unsigned dim = window.dimension(spatial);
    int64_t kernel = window.kernel[spatial], low = window.pads[spatial];
    bool isWhole = includesPadding ? !window.ceilMode : !isPadded(window, type, spatial);
    if (isWhole) {
      count = code.mul(count, kernel);
      continue;
    }
    Value start = code.add(code.mul(indices[dim], window.strides[spatial]), -low);
    Value size = context.operandSize(0, dim);
    Value first = code.constant(includesPadding ? -low : 0);
    Value end = includesPadding ? code.add(size, window.pads[spatial + window.rank()]) : size;
    count = code.mul(count,
                     positionsWithin(code, start, kernel, window.dilations[spatial], first, end));
  }
  return count;
}
} // namespace

Value MaxPoolOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!hasKernelTypes(*this))
    return {};
  auto type = rankedType(getX());
  Window window = windowOf(*this);
  Type kernelType = kernelElementType(type.getElementType());
  auto integer = dyn_cast<IntegerType>(type.getElementType());
  bool isCode = integer ? integer.getWidth() < 8 : !isa<FloatType>(kernelType);
  if (isCode || hasEmptySpace(window, type))
    return {};
  IndexCode index(context);
  ScalarCode code(context.builder, context.location);
  bool isUnsignedType = isUnsigned(type.getElementType());
  unsigned bits = kernelType.getIntOrFloatBitWidth();
  TypedAttr lowest;
  if (integer)
    lowest = context.builder.getIntegerAttr(kernelType, isUnsignedType
                                                            ? llvm::APInt::getMinValue(bits)
                                                            : llvm::APInt::getSignedMinValue(bits));
  else
    lowest = context.builder.getFloatAttr(kernelType, -std::numeric_limits<double>::infinity());
  Value initial = context.builder.create<arith::ConstantOp>(context.location, lowest);
  auto body = [&](ValueRange position, ValueRange carried) -> SmallVector<Value> {
    Value element = readWindow(context, window, type, indices, position, initial);
    if (!integer)
      return {code.maximum(carried[0], element)};
    return {isUnsignedType ? code.make<arith::MaxUIOp>(carried[0], element)
                           : code.make<arith::MaxSIOp>(carried[0], element)};
  };
  return context.loop(extentsOf(index, window), initial, body)[0];
}

Value AveragePoolOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  auto type = rankedType(getX());
  Window window = windowOf(*this);
  if (!isFloatPool(*this) || hasEmptySpace(window, type))
    return {};
  IndexCode index(context);
  ScalarCode code(context.builder, context.location);
  Value zero = zeroElement(context, getX());
  auto body = [&](ValueRange position, ValueRange carried) -> SmallVector<Value> {
    Value element = readWindow(context, window, type, indices, position, zero);
    return {code.add(carried[0], element)};
  };
  Value sum = context.loop(extentsOf(index, window), zero, body)[0];
  Value count = countPositions(context, window, type, indices, getCountIncludePad());
  Value integer = context.builder.createOrFold<arith::IndexCastOp>(
      context.location, context.builder.getI32Type(), count);
  return code.div(sum, code.make<arith::SIToFPOp>(sum.getType(), integer));
}

Value LpPoolOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  auto type = rankedType(getX());
  Window window = windowOf(*this);
  if (!isFloatPool(*this) || hasEmptySpace(window, type))
    return {};
  IndexCode index(context);
  ScalarCode code(context.builder, context.location);
  Value zero = zeroElement(context, getX());
  int64_t p = getP();
  bool needsPower = p != 1 && p != 2;
  if (needsPower && !zero.getType().isF32())
    return {};
  auto body = [&](ValueRange position, ValueRange carried) -> SmallVector<Value> {
    Value element = code.abs(readWindow(context, window, type, indices, position, zero));
    if (p == 2)
      element = code.mul(element, element);
    else if (needsPower)
      element = emitPow(code, element, code.real(element, double(p)));
    return {code.add(carried[0], element)};
  };
  Value sum = context.loop(extentsOf(index, window), zero, body)[0];
  if (p == 1)
    return sum;
  return p == 2 ? code.sqrt(sum) : emitPow(code, sum, code.real(sum, 1.0 / double(p)));
}

bool MaxPoolOp::isMovement() { return false; }
bool AveragePoolOp::isMovement() { return false; }
bool LpPoolOp::isMovement() { return false; }

} // namespace tensmith::graph

// Pooling windows as loops (Indexed::emitElement).
//
// Of vectors of channels, and of large windows, the loops are over the positions that are inside:
// where they begin and end is told once for all lanes, and no position is tested. In others, which
// are straight code, and in nests, a position outside is a guarded read. Windows that never leave
// the operand have neither.
#include "compiler/graph/ElementaryFunctions.h"
#include "compiler/graph/IndexCode.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

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
          op.getDilations(), op.getCeilMode(), isChannelsLast(op)};
}

/// Whether the window at the end of a dimension may reach beyond the operand.
bool isPadded(const Window &window, RankedTensorType type, unsigned spatial) {
  unsigned rank = window.rank();
  return window.pads[spatial] != 0 || window.pads[spatial + rank] != 0 || window.ceilMode ||
         type.getDimSize(window.dimension(spatial)) == 0;
}

/// Small windows are straight code (see ElementContext::loop), in which tests are cheap.
constexpr int64_t kMostStraight = 16;

/// How many of a window's positions, `kernel` of them from `start` on, lie below the bound:
/// ceil((bound - start) / dilation).
Value positionsBelow(const IndexCode &code, Value start, int64_t kernel, int64_t dilation,
                     Value bound) {
  Value distance = code.make<arith::MaxSIOp>(code.sub(bound, start), code.constant(0));
  Value count = code.div(code.add(distance, dilation - 1), code.constant(dilation));
  return code.make<arith::MinSIOp>(count, code.constant(kernel));
}

/// Where the window of an element of the result begins along a dimension.
Value startOf(const IndexCode &code, const Window &window, ValueRange indices, unsigned spatial) {
  Value index = code.mul(indices[window.dimension(spatial)], window.strides[spatial]);
  return code.add(index, -window.pads[spatial]);
}

/// The operand's element at a position of the window, or `outside` where that is beyond it.
Value readWindow(ElementContext &context, const Window &window, RankedTensorType type,
                 ValueRange indices, ValueRange position, Value outside) {
  IndexCode code(context);
  SmallVector<Value> source(indices);
  SmallVector<unsigned> guarded;
  for (unsigned spatial = 0; spatial < window.rank(); ++spatial) {
    unsigned dim = window.dimension(spatial);
    Value start = startOf(code, window, indices, spatial);
    source[dim] = code.add(start, code.mul(position[spatial], window.dilations[spatial]));
    if (isPadded(window, type, spatial))
      guarded.push_back(dim);
  }
  return guarded.empty() ? context.operand(0, source) : context.read(0, source, guarded, outside);
}

/// Of an element of the window.
using Own = llvm::function_ref<Value(Value element)>;
using Combine = llvm::function_ref<Value(Value carried, Value own)>;

/// Combines what is made of the elements of a window, in order, those outside left out: `initial`
/// changes nothing.
Value overWindow(ElementContext &context, ElementContext::Join join, const Window &window,
                 RankedTensorType type, ValueRange indices, Value initial, Own own,
                 Combine combine) {
  IndexCode code(context);
  int64_t positions = 1;
  for (int64_t size : window.kernel)
    positions *= size;
  SmallVector<Value> firsts, extents;
  bool onlyInside = !context.isForNest() && (context.lanes() > 1 || positions > kMostStraight);
  for (unsigned spatial = 0; spatial < window.rank(); ++spatial) {
    int64_t kernel = window.kernel[spatial], dilation = window.dilations[spatial];
    firsts.push_back(code.constant(0));
    extents.push_back(code.constant(kernel));
    if (!onlyInside || !isPadded(window, type, spatial))
      continue;
    Value start = startOf(code, window, indices, spatial);
    Value size = context.operandSize(0, window.dimension(spatial));
    firsts.back() = positionsBelow(code, start, kernel, dilation, code.constant(0));
    extents.back() = code.sub(positionsBelow(code, start, kernel, dilation, size), firsts.back());
  }
  auto term = [&](ValueRange position) -> SmallVector<Value> {
    if (!onlyInside)
      return {own(readWindow(context, window, type, indices, position, initial))};
    SmallVector<Value> source(indices);
    for (unsigned spatial = 0; spatial < window.rank(); ++spatial) {
      Value steps =
          code.mul(code.add(firsts[spatial], position[spatial]), window.dilations[spatial]);
      source[window.dimension(spatial)] = code.add(startOf(code, window, indices, spatial), steps);
    }
    return {own(context.operand(0, source))};
  };
  return context.reduce(join, extents, initial, term,
                        [&](Value carried, ValueRange made) { return combine(carried, made[0]); });
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
    Value start = startOf(code, window, indices, spatial);
    Value size = context.operandSize(0, dim);
    Value first = code.constant(includesPadding ? -low : 0);
    Value end = includesPadding ? code.add(size, window.pads[spatial + window.rank()]) : size;
    auto below = [&](Value bound) {
      return positionsBelow(code, start, kernel, window.dilations[spatial], bound);
    };
    count = code.mul(count, code.sub(below(end), below(first)));
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
  return overWindow(
      context, ElementContext::Join::Largest, window, type, indices, initial,
      [](Value element) { return element; },
      [&](Value largest, Value element) {
        if (!integer)
          return code.maximum(largest, element);
        return isUnsignedType ? code.make<arith::MaxUIOp>(largest, element)
                              : code.make<arith::MaxSIOp>(largest, element);
      });
}

Value AveragePoolOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  auto type = rankedType(getX());
  Window window = windowOf(*this);
  if (!isFloatPool(*this) || hasEmptySpace(window, type))
    return {};
  ScalarCode code(context.builder, context.location);
  Value sum = overWindow(
      context, ElementContext::Join::Sum, window, type, indices, zeroElement(context, getX()),
      [](Value element) { return element; },
      [&](Value sum, Value element) { return code.add(sum, element); });
  Value count = countPositions(context, window, type, indices, getCountIncludePad());
  Value integer = code.make<arith::IndexCastOp>(context.builder.getI32Type(), count);
  Value divisor = code.make<arith::SIToFPOp>(ScalarCode::element(sum), integer);
  if (isa<VectorType>(sum.getType()))
    divisor = code.make<vector::BroadcastOp>(sum.getType(), divisor);
  return code.div(sum, divisor);
}

Value LpPoolOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  auto type = rankedType(getX());
  Window window = windowOf(*this);
  if (!isFloatPool(*this) || hasEmptySpace(window, type))
    return {};
  ScalarCode code(context.builder, context.location);
  Value zero = zeroElement(context, getX());
  int64_t p = getP();
  bool needsPower = p != 1 && p != 2;
  if (needsPower && !zero.getType().isF32())
    return {};
  auto power = [&](Value element) {
    element = code.abs(element);
    if (p == 2)
      return code.mul(element, element);
    return needsPower ? emitPow(code, element, code.real(element, double(p))) : element;
  };
  Value sum = overWindow(context, ElementContext::Join::Sum, window, type, indices, zero, power,
                         [&](Value sum, Value element) { return code.add(sum, element); });
  if (p == 1)
    return sum;
  return p == 2 ? code.sqrt(sum) : emitPow(code, sum, code.real(sum, 1.0 / double(p)));
}

bool MaxPoolOp::isMovement() { return false; }
bool AveragePoolOp::isMovement() { return false; }
bool LpPoolOp::isMovement() { return false; }

} // namespace tensmith::graph

// Bounds through a handful of operators; see Bounds.h.
#include "compiler/graph/Bounds.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"

#include <cmath>

using namespace mlir;

namespace tensmith::graph {
namespace {

constexpr int kDeepest = 16; // operators that are looked through, one behind another
constexpr int kMost = 256;   // in all: values that are read twice would double them each time
/// Elements of a constant that are looked at: of scales and biases, not pictures.
constexpr int64_t kLargestConstant = 1 << 16;
/// By which a few operations on floats miss the bounds of exact ones.
constexpr double kRounding = 1e-6;

Bounds boundsOfType(Type element) {
  auto integer = dyn_cast<IntegerType>(element);
  if (!integer || integer.getWidth() > 32)
    return {};
  double codes = std::ldexp(1.0, int(integer.getWidth()));
  return integer.isUnsigned() ? Bounds{0, codes - 1, true}
                              : Bounds{-codes / 2, codes / 2 - 1, true};
}

std::optional<Bounds> boundsOfConstant(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto type = constant ? cast<ShapedType>(constant.getType()) : ShapedType();
  bool isSmall = type && type.hasStaticShape() && type.getNumElements() > 0 &&
                 type.getNumElements() <= kLargestConstant &&
                 dataType(type.getElementType()) != DataType::String;
  auto tensor = isSmall ? hostTensor(constant.getValue()) : Result<HostTensor>(HostTensor());
  if (!isSmall || !tensor.ok())
    return std::nullopt;
  Bounds bounds{tensor->getDouble(0), tensor->getDouble(0), true};
  for (int64_t i = 0; i < tensor->size(); ++i) {
    double number = tensor->getDouble(i);
    bounds.numbers = bounds.numbers && !std::isnan(number);
    bounds.low = std::min(bounds.low, number);
    bounds.high = std::max(bounds.high, number);
  }
  return bounds.numbers ? std::optional(bounds) : std::nullopt;
}

/// Of the result of arithmetic on floats, from the bounds of the exact one. Beyond what f32 holds
/// there may be infinities, and NaN after them.
Bounds rounded(double low, double high, bool numbers) {
  low -= std::abs(low) * kRounding;
  high += std::abs(high) * kRounding;
  double most = std::numeric_limits<float>::max();
  return low >= -most && high <= most && numbers ? Bounds{low, high, true} : Bounds{};
}

Bounds ofProduct(Bounds a, Bounds b) {
  auto [low, high] = std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
  return rounded(low, high, a.numbers && b.numbers);
}

/// Arithmetic on f32.
Bounds ofFloats(Operation *op, Bounds a, Bounds b) {
  if (!std::isfinite(a.low + a.high + b.low + b.high))
    return {};
  if (isa<AddOp>(op))
    return rounded(a.low + b.low, a.high + b.high, a.numbers && b.numbers);
  if (isa<SubOp>(op))
    return rounded(a.low - b.high, a.high - b.low, a.numbers && b.numbers);
  if (isa<MulOp>(op))
    return ofProduct(a, b);
  bool divides = isa<DivOp>(op) && (b.low > 0 || b.high < 0);
  return divides ? ofProduct(a, {1 / b.high, 1 / b.low, b.numbers}) : Bounds{};
}

/// How far is still looked.
struct Search {
  int depth;
  int &left;
  Search deeper() const { return {depth - 1, left}; }
};

Bounds bounds(Value value, Search search);

/// Of minima and maxima, one side of which may be known alone.
Bounds ofLimit(Operation *op, Search search) {
  Bounds a = bounds(op->getOperand(0), search.deeper()),
         b = bounds(op->getOperand(1), search.deeper());
  // A NaN of either side stays, so that a bound of the other one holds for all numbers.
  bool numbers = a.numbers && b.numbers;
  if (isa<MinOp>(op))
    return {std::min(a.low, b.low), std::min(a.high, b.high), numbers};
  return {std::max(a.low, b.low), std::max(a.high, b.high), numbers};
}

Bounds bounds(Value value, Search search) {
  Type element = getElementTypeOrSelf(value.getType());
  Bounds own = boundsOfType(element);
  Operation *op = value.getDefiningOp();
  if (!op || search.depth == 0 || --search.left < 0)
    return own;
  auto tighter = [&](Bounds other) {
    return Bounds{std::max(own.low, other.low), std::min(own.high, other.high),
                  own.numbers || other.numbers};
  };
  if (isa<ConstantOp>(op)) {
    auto known = boundsOfConstant(value);
    return known ? *known : own;
  }
  if (isa<TransposeOp, ReshapeOp, BroadcastOp>(op))
    return bounds(op->getOperand(0), search.deeper());
  if (isa<ConcatOp>(op)) {
    Bounds all = bounds(op->getOperand(0), search.deeper());
    for (Value operand : op->getOperands().drop_front()) {
      Bounds one = bounds(operand, search.deeper());
      all = {std::min(all.low, one.low), std::max(all.high, one.high), all.numbers && one.numbers};
    }
    return all;
  }
  if (isa<CastOp>(op)) {
    // An operand out of the type's range would wrap around.
    Bounds from = bounds(op->getOperand(0), search.deeper());
    bool fits = !isa<IntegerType>(element) || from.within(own.low, own.high);
    return fits ? tighter(from) : own;
  }
  if (isa<MinOp, MaxOp>(op))
    return ofLimit(op, search);
  if (element.isF32() && isa<RoundOp>(op)) {
    Bounds from = bounds(op->getOperand(0), search.deeper());
    return {std::nearbyint(from.low), std::nearbyint(from.high), from.numbers};
  }
  if (element.isF32() && isa<AddOp, SubOp, MulOp, DivOp>(op))
    return ofFloats(op, bounds(op->getOperand(0), search.deeper()),
                    bounds(op->getOperand(1), search.deeper()));
  if (auto difference = dyn_cast<SubOp>(op)) {
    Bounds a = bounds(difference.getA(), search.deeper()),
           b = bounds(difference.getB(), search.deeper());
    Bounds result{a.low - b.high, a.high - b.low, own.numbers};
    return result.within(own.low, own.high) ? result : own;
  }
  return own;
}

} // namespace

Bounds boundsOf(Value value) {
  int left = kMost;
  return bounds(value, {kDeepest, left});
}

} // namespace tensmith::graph

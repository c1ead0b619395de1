// Bounds through a handful of operators; see Bounds.h.
#include "compiler/graph/Bounds.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

constexpr int kDeepest = 16; // operators that are looked through

Bounds boundsOfType(Type element) {
  auto integer = dyn_cast<IntegerType>(element);
  if (!integer || integer.getWidth() > 32)
    return {};
  double codes = std::ldexp(1.0, int(integer.getWidth()));
  return integer.isUnsigned() ? Bounds{0, codes - 1} : Bounds{-codes / 2, codes / 2 - 1};
}

std::optional<double> scalarConstant(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto tensor = constant ? hostTensor(constant.getValue()) : Result<HostTensor>(HostTensor());
  bool isNumber = constant && tensor.ok() && tensor->size() == 1 &&
                  dataType(getElementTypeOrSelf(value.getType())) != DataType::String;
  return isNumber ? std::optional(tensor->getDouble(0)) : std::nullopt;
}

Bounds bounds(Value value, int depth) {
  Bounds own = boundsOfType(getElementTypeOrSelf(value.getType()));
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return own;
  auto tighter = [&](Bounds other) {
    return Bounds{std::max(own.low, other.low), std::min(own.high, other.high)};
  };
  if (isa<TransposeOp, ReshapeOp, BroadcastOp>(op))
    return bounds(op->getOperand(0), depth - 1);
  if (isa<CastOp>(op)) {
    // An operand out of the type's range would wrap around.
    Bounds from = bounds(op->getOperand(0), depth - 1);
    bool fits =
        !isa<IntegerType>(getElementTypeOrSelf(value.getType())) || from.within(own.low, own.high);
    return fits ? tighter(from) : own;
  }
  if (auto difference = dyn_cast<SubOp>(op)) {
    Bounds a = bounds(difference.getA(), depth - 1), b = bounds(difference.getB(), depth - 1);
    Bounds result{a.low - b.high, a.high - b.low};
    return result.within(own.low, own.high) ? result : own;
  }
  auto limit = isa<MinOp, MaxOp>(op) ? scalarConstant(op->getOperand(1)) : std::nullopt;
  if (!limit)
    return own;
  Bounds from = bounds(op->getOperand(0), depth - 1);
  if (isa<MinOp>(op))
    return {std::min(from.low, *limit), std::min(from.high, *limit)};
  return {std::max(from.low, *limit), std::max(from.high, *limit)};
}

} // namespace

Bounds boundsOf(Value value) { return bounds(value, kDeepest); }

} // namespace tensmith::graph

// Rules of arithmetic as patterns, and what they ask of values; see AlgebraicRules.td and
// RealRules.td, which have the rules.
#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/rewrite/Simplify.h"

#include <cmath>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

bool isFloat(Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); }
bool isInteger(Value value) {
  Type element = getElementTypeOrSelf(value.getType());
  return isa<IntegerType>(element) && !element.isInteger(1);
}
bool isScalar(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() == 0;
}

/// The constant that the value's elements are of; null where it is none.
graph::ConstantOp constantOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto constant = dyn_cast<graph::ConstantOp>(op))
      return constant;
    if (!isa<graph::BroadcastOp, graph::ReshapeOp>(op))
      break;
    value = op->getOperand(0);
  }
  return {};
}
bool isConstant(Value value) { return bool(constantOf(value)); }

/// Whether all elements are that number, zeros of the same sign.
bool isNumber(Value value, double number) {
  constexpr int64_t kMostElements = 1 << 12; // that are looked at
  graph::ConstantOp constant = constantOf(value);
  if (!constant || !(isFloat(value) || isInteger(value)) ||
      constant.getValue().getNumElements() > kMostElements)
    return false;
  auto tensor = graph::hostTensor(constant.getValue());
  if (!tensor.ok() || tensor->size() == 0)
    return false;
  for (int64_t i = 0; i < tensor->size(); ++i) {
    double element = tensor->getDouble(i);
    if (element != number || std::signbit(element) != (std::signbit(number) && isFloat(value)))
      return false;
  }
  return true;
}

/// Whether each number of the narrow value's type is one of the wide one's.
bool holdsAllOf(Value wide, Value narrow) {
  Type to = getElementTypeOrSelf(wide.getType()), from = getElementTypeOrSelf(narrow.getType());
  if (to == from)
    return true;
  auto isKnown = [](Type type) {
    return type.isF64() || type.isF32() || type.isF16() || type.isBF16() ||
           (isa<IntegerType>(type) && !type.isInteger(1));
  };
  if (!isKnown(to) || !isKnown(from))
    return false;
  if (auto toFloat = dyn_cast<FloatType>(to)) {
    auto fromFloat = dyn_cast<FloatType>(from);
    if (!fromFloat)
      return from.getIntOrFloatBitWidth() < toFloat.getFPMantissaWidth();
    return toFloat.isF64() || (toFloat.isF32() && !fromFloat.isF64());
  }
  auto toInteger = cast<IntegerType>(to);
  auto fromInteger = dyn_cast<IntegerType>(from);
  return fromInteger && toInteger.isUnsigned() == fromInteger.isUnsigned() &&
         toInteger.getWidth() >= fromInteger.getWidth();
}

template <typename Op> Value built(OpBuilder &builder, Location location, ValueRange operands) {
  graph::ShapeContext shapes(builder.getContext());
  graph::GraphBuilder graph(builder, shapes, location);
  return graph::GraphBuilder::first(graph.create(Op::getOperationName(), operands));
}

Value sumOver(OpBuilder &builder, Location location, Value x, DenseI64ArrayAttr axes,
              BoolAttr keepdims) {
  graph::ShapeContext shapes(builder.getContext());
  graph::GraphBuilder graph(builder, shapes, location);
  return graph.reduce("graph.reduce_sum", x, axes.asArrayRef(), keepdims.getValue());
}

/// A constant that is broadcast to the value's type.
Value filledLike(OpBuilder &builder, Location location, Value like, double number) {
  graph::ShapeContext shapes(builder.getContext());
  graph::GraphBuilder graph(builder, shapes, location);
  Value scalar = graph.scalar(getElementTypeOrSelf(like.getType()), number);
  return builder.create<graph::BroadcastOp>(location, like.getType(), scalar);
}

namespace exact {
#include "compiler/rewrite/AlgebraicRules.inc"
}
namespace real {
#include "compiler/rewrite/RealRules.inc"
}

} // namespace

void addAlgebraicRules(RewritePatternSet &patterns, bool ofReals) {
  exact::populateWithGenerated(patterns);
  if (ofReals)
    real::populateWithGenerated(patterns);
}

} // namespace tensmith::rewrite

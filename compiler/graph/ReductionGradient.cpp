// Reductions: the cotangent is spread over what was reduced.
//
// Of equal extremes each takes an equal share. A product's derivative by an element is the product
// of the others, which is not the result divided by the element where that is zero. So products of
// a known number of factors are differentiated as trees of products of two, which is right to any
// order; others by their zeros, whose second derivative isn't.
#include "compiler/graph/Gradient.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

/// A reduced value with the axes that it has lost, of size one.
Value withAxes(const GradientCode &code, Value reduced, Operation *op) {
  auto axes = integersOf(op, "axes");
  if (!reduced || flagOf(op, "keepdims"))
    return reduced;
  GraphCode::Dims dims = code.dims(reduced);
  for (int64_t axis : axes)
    dims.insert(dims.begin() + axis, code.size(1));
  return code.reshape(reduced, dims);
}

Value sum(const Pullback &pull, unsigned) {
  return pull.code.broadcastLike(withAxes(pull.code, pull.cotangent(), pull.op), pull.operand(0));
}

Value extreme(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0);
  auto axes = integersOf(pull.op, "axes");
  Value is = code.op("graph.equal", {x, withAxes(code, pull.op->getResult(0), pull.op)});
  Value count =
      code.reduce("graph.reduce_sum", code.cast(is, GradientCode::element(x)), axes, true);
  Value share = code.div(withAxes(code, pull.cotangent(), pull.op), count);
  return code.broadcastLike(code.where(is, share, code.scalar(x, 0)), x);
}

Value product(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0), zero = code.scalar(x, 0), one = code.scalar(x, 1);
  auto axes = integersOf(pull.op, "axes");
  Value isZero = code.op("graph.equal", {x, zero});
  Value factors = code.where(isZero, one, x);
  Value zeros =
      code.reduce("graph.reduce_sum", code.cast(isZero, GradientCode::element(x)), axes, true);
  Value others = code.div(code.reduce("graph.reduce_prod", factors, axes, true), factors);
  // Zeros among the others make their product zero.
  Value own = code.where(isZero, one, zero);
  Value slope = code.where(code.op("graph.equal", {zeros, own}), others, zero);
  return code.mul(withAxes(code, pull.cotangent(), pull.op), slope);
}

std::optional<int64_t> knownSize(const GradientCode &code, Value x, int64_t axis) {
  auto known = dyn_cast_or_null<AffineConstantExpr>(code.dims(x)[size_t(axis)]);
  return known ? std::optional(known.getValue()) : std::nullopt;
}

Value part(const GradientCode &code, Value x, int64_t axis, int64_t first, int64_t count) {
  return code.sliceDim(x, axis, first, 1, code.size(count));
}

/// The product along a dimension, by halves: of an odd number of factors the last one waits.
Value productByHalves(const GradientCode &code, Value x, int64_t axis, int64_t size) {
  for (; x && size > 1; size = size / 2 + size % 2) {
    int64_t half = size / 2;
    Value y = code.mul(part(code, x, axis, 0, half), part(code, x, axis, half, half));
    x = size % 2 ? code.concat({y, part(code, x, axis, size - 1, 1)}, axis) : y;
  }
  return x;
}

LogicalResult multiplyingByHalves(const GradientCode &code, Operation *op,
                                  SmallVectorImpl<Value> &results) {
  Value x = op->getOperand(0), y = code.widen(x);
  for (int64_t axis : integersOf(op, "axes")) {
    auto size = knownSize(code, x, axis);
    if (!size || *size == 0)
      return failure();
    y = productByHalves(code, y, axis, *size);
  }
  return finish(code.reshapeLike(code.cast(y, GraphCode::element(x)), op->getResult(0)), results);
}

/// Each element times those 1, 2, 4, ... before it (Hillis and Steele, 1986).
LogicalResult multiplyingOn(const GradientCode &code, Operation *op,
                            SmallVectorImpl<Value> &results) {
  Value x = op->getOperand(0), y = code.widen(x);
  int64_t axis = axisOf(op, GraphCode::rank(x));
  auto size = knownSize(code, x, axis);
  if (!size || *size == 0)
    return failure();
  auto turned = [&](Value value) {
    return flagOf(op, "reverse")
               ? code.op("graph.reverse", {value}, {code.integers("axes", {axis})})
               : value;
  };
  y = turned(y);
  if (flagOf(op, "exclusive"))
    y = code.concat(
        {code.filledLike(part(code, y, axis, 0, 1), 1), part(code, y, axis, 0, *size - 1)}, axis);
  for (int64_t distance = 1; y && distance < *size; distance *= 2) {
    int64_t rest = *size - distance;
    Value later = code.mul(part(code, y, axis, distance, rest), part(code, y, axis, 0, rest));
    y = code.concat({part(code, y, axis, 0, distance), later}, axis);
  }
  return finish(code.cast(turned(y), GraphCode::element(x)), results);
}

Value runningSumOf(const GradientCode &code, Value x, Operation *op, bool exclusive) {
  return code.op("graph.cumsum", {x},
                 {code.integer("axis", integerOf(op, "axis")), code.flag("exclusive", exclusive),
                  code.flag("reverse", !flagOf(op, "reverse"))});
}
bool isExclusive(Operation *op) { return flagOf(op, "exclusive"); }

Value runningSum(const Pullback &pull, unsigned) {
  return runningSumOf(pull.code, pull.cotangent(), pull.op, isExclusive(pull.op));
}
/// Of an unknown number of factors. Zeros have no derivative here: what comes after is divided by
/// them.
Value runningProduct(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  Value terms = code.mul(pull.cotangent(), pull.op->getResult(0));
  return code.div(runningSumOf(code, terms, pull.op, isExclusive(pull.op)), pull.operand(0));
}

/// What is differentiated is the sum of what all processes give: each one's operand counts in all
/// their means.
Value meanOfAll(const Pullback &pull, unsigned) {
  return pull.code.op("graph.all_reduce_mean", {pull.cotangent()});
}

} // namespace

std::span<const NamedGradientRule> reductionGradients() {
  static const NamedGradientRule kRules[] = {
      {"reduce_sum", pulled(sum, Linear::Jointly)},
      {"reduce_prod", expandedOrPulled(multiplyingByHalves, product, Linear::No)},
      {"reduce_max", pulled(extreme)},
      {"reduce_min", pulled(extreme)},
      {"arg_max", kStep},
      {"arg_min", kStep},
      {"cumsum", pulled(runningSum, Linear::Jointly)},
      {"cumprod", expandedOrPulled(multiplyingOn, runningProduct, Linear::No)},
      {"all_reduce_mean", pulled(meanOfAll, Linear::Jointly)},
  };
  return kRules;
}

} // namespace tensmith::graph

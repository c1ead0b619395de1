// Reductions: the cotangent is spread over what was reduced.
//
// Of equal extremes each takes an equal share. A product's derivative by an element is the product
// of the others, which is not the result divided by the element where that is zero.
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

Value runningSumOf(const GradientCode &code, Value x, Operation *op, bool exclusive) {
  return code.op("graph.cumsum", {x},
                 {code.integer("axis", integerOf(op, "axis")), code.flag("exclusive", exclusive),
                  code.flag("reverse", !flagOf(op, "reverse"))});
}
bool isExclusive(Operation *op) { return flagOf(op, "exclusive"); }

Value runningSum(const Pullback &pull, unsigned) {
  return runningSumOf(pull.code, pull.cotangent(), pull.op, isExclusive(pull.op));
}
/// Zero elements have no derivative here: the products after them are divided by them.
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
      {"reduce_prod", pulled(product)},
      {"reduce_max", pulled(extreme)},
      {"reduce_min", pulled(extreme)},
      {"arg_max", kZeroGradient},
      {"arg_min", kZeroGradient},
      {"cumsum", pulled(runningSum, Linear::Jointly)},
      {"cumprod", pulled(runningProduct)},
      {"all_reduce_mean", pulled(meanOfAll, Linear::Jointly)},
  };
  return kRules;
}

} // namespace tensmith::graph

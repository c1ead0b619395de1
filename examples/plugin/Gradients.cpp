// How changes go through the operators; compiler/graph/Gradient.h says what rules there are.
#include "Example.h"

using namespace mlir;
using namespace tensmith::graph;

namespace example {
namespace {

/// By x: 1 where it is farther from zero than the threshold, else 0. By the threshold: what comes
/// nearer to zero by it does so from its own side.
Value throughSoftThreshold(const GradientCode &code, Operation *op, Value change,
                           unsigned operand) {
  Value x = op->getOperand(0), threshold = op->getOperand(1);
  Value isFar = code.op("graph.greater", {code.unary("graph.abs", x), threshold});
  Value slope = operand == 0 ? change : code.negate(code.mul(code.unary("graph.sign", x), change));
  return code.where(isFar, slope, code.scalar(change, 0));
}

/// Each cotangent goes to two places, of which the one counts against it.
Value pullDifference(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  Value change = pull.cotangent();
  if (!GradientCode::isRanked(pull.operand(0)))
    return {};
  int64_t rank = GradientCode::rank(pull.operand(0));
  auto difference = cast<DifferenceOp>(pull.op);
  SmallVector<int64_t> none(rank, 0), shift(rank, 0);
  shift[axisOf(difference, rank)] = difference.getShift();
  return code.reshapeLike(code.sub(code.pad(change, shift, none), code.pad(change, none, shift)),
                          pull.operand(0));
}

} // namespace

std::span<const NamedGradientRule> gradients() {
  static constexpr NamedGradientRule kRows[] = {
      {"example.soft_threshold", scaled(throughSoftThreshold)},
      {"example.difference", pulled(pullDifference, Linear::Jointly)}};
  return kRows;
}

} // namespace example

// Normalisations whose gradient is simpler than that of their decomposition; the others have that.
//
// In the softmax family the derivative is over the result, so that nothing is computed again. A
// layer's norm keeps its mean and deviation for the way back.
#include "compiler/graph/Gradient.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

SmallVector<int64_t> axesFrom(int64_t first, int64_t rank) {
  return llvm::to_vector(llvm::seq<int64_t>(first, rank));
}

/// y * (g - sum(g * y))
Value softmax(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  Value g = code.widen(pull.cotangent()), y = code.widen(pull.op->getResult(0));
  Value product = code.mul(g, y);
  Value sum = code.reduce("graph.reduce_sum", product, integerOf(pull.op, "axis"), true);
  Value x = code.sub(product, code.mul(y, sum));
  return code.cast(x, GraphCode::element(pull.operand(0)));
}

/// g - exp(y) * sum(g)
Value logSoftmax(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  Value g = code.widen(pull.cotangent()), y = code.widen(pull.op->getResult(0));
  Value sum = code.reduce("graph.reduce_sum", g, integerOf(pull.op, "axis"), true);
  return code.cast(code.sub(g, code.mul(code.unary("graph.exp", y), sum)),
                   GraphCode::element(pull.operand(0)));
}

struct Moments {
  Value mean, inverseDeviation;
};

/// Those that the operator gives; but where nothing else asks it for them and its bits are to stay,
/// computed beside it, since a kernel that gives them too sums in another order.
Moments momentsOf(const Pullback &pull, Value x, ArrayRef<int64_t> axes) {
  const GradientCode &code = pull.code;
  Value mean = pull.op->getResult(1), inverse = pull.op->getResult(2);
  if (!code.keepsBits || !mean.use_empty() || !inverse.use_empty())
    return {code.widen(mean), code.widen(inverse)};
  mean = code.mean(x, axes);
  Value centred = code.sub(x, mean);
  double epsilon = mlir::cast<LayerNormOp>(pull.op).getEpsilon().convertToDouble();
  Value variance = code.mean(code.mul(centred, centred), axes);
  return {mean, code.rsqrt(code.add(variance, epsilon))};
}

/// (g - mean(g) - n * mean(g * n)) / deviation, of g = cotangent * scale and the normal values n;
/// and what the mean and the deviation have got as results.
Value layerNorm(const Pullback &pull, unsigned operand) {
  const GradientCode &code = pull.code;
  Value own = pull.operand(operand), x = code.widen(pull.operand(0));
  if (!x || !GraphCode::isRanked(x))
    return {};
  auto axes = axesFrom(axisOf(pull.op, GraphCode::rank(x)), GraphCode::rank(x));
  auto [mean, inverse] = momentsOf(pull, x, axes);
  Value normal = code.mul(code.sub(x, mean), inverse);
  Value g = code.widen(pull.cotangent());
  if (operand == 2)
    return code.cast(code.sumLike(g, own), GraphCode::element(own));
  if (operand == 1)
    return code.cast(code.sumLike(code.mul(g, normal), own), GraphCode::element(own));
  g = code.mul(g, code.widen(pull.operand(1)));
  Value along = code.mul(normal, code.mean(code.mul(g, normal), axes));
  Value result = code.mul(code.sub(code.sub(g, code.mean(g, axes)), along), inverse);
  if (pull.cotangents[1] || pull.cotangents[2]) {
    Value count = code.reduce("graph.reduce_sum", code.filledLike(x, 1), axes, true);
    Value slope = code.mul(code.widen(pull.cotangent(2)), code.mul(inverse, inverse));
    Value own = code.sub(code.widen(pull.cotangent(1)), code.mul(slope, normal));
    result = code.add(result, code.div(own, count));
  }
  return code.cast(code.reshapeLike(result, own), GraphCode::element(own));
}

} // namespace

std::span<const NamedGradientRule> normalizationGradients() {
  static const NamedGradientRule kRules[] = {
      {"softmax", pulled(softmax)},
      {"log_softmax", pulled(logSoftmax)},
      {"hardmax", kStep},
      {"layer_norm", pulled(layerNorm)},
  };
  return kRules;
}

} // namespace tensmith::graph

// Losses over classes (dimension 1).
#include "frontends/onnx/Widened.h"

namespace tensmith::onnx_import {
namespace {

/// -weight[target] * logProbability[target], averaged or summed: elements whose target is
/// ignore_index have weight 0.
Value negativeLogLikelihood(NodeImport &n, Value logProbabilities, Value target, Value weight) {
  Value ignored;
  if (n.hasAttribute("ignore_index")) {
    Value index = n.scalar(target, double(n.intAttr("ignore_index")));
    ignored = n("graph.equal", {target, index});
    target = n.where(ignored, n.scalar(target, 0), target);
  }
  auto dims = n.dims(target), unit = dims;
  unit.insert(unit.begin() + 1, n.size(1));
  Value picked =
      n("graph.gather_elements", {logProbabilities, n.reshape(target, unit)}, n.integer("axis", 1));
  Value loss = n.unary("graph.neg", n.reshape(picked, dims));
  std::string reduction = n.stringAttr("reduction", "mean");
  Value factors = weight ? n("graph.gather", {weight, target}, n.integer("axis", 0)) : Value();
  if (!factors && (ignored || reduction == "mean"))
    factors = n.broadcast(n.scalar(loss, 1), dims);
  if (ignored)
    factors = n.where(ignored, n.scalar(loss, 0), factors);
  if (factors)
    loss = n.mul(loss, factors);
  if (reduction == "none" || !loss)
    return loss;
  Ints all = llvm::to_vector(llvm::seq<int64_t>(0, int64_t(dims.size())));
  Value sum = n.reduce("graph.reduce_sum", loss, all, false);
  return reduction == "sum" ? sum : n.div(sum, n.reduce("graph.reduce_sum", factors, all, false));
}

LogicalResult checkOperands(NodeImport &n) {
  if (failed(n.needRank(0)) || failed(n.needRank(1)))
    return failure();
  if (n.rank(n.input(0)) < 2 || n.rank(n.input(1)) != n.rank(n.input(0)) - 1)
    return n.error("operands have ranks " + llvm::Twine(n.rank(n.input(0))) + " and " +
                   llvm::Twine(n.rank(n.input(1))));
  std::string reduction = n.stringAttr("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    return n.error("reduction is '" + reduction + "', which is not known");
  return success();
}

LogicalResult nllLoss(NodeImport &n) {
  if (failed(checkOperands(n)))
    return failure();
  return n.give({negativeLogLikelihood(n, n.input(0), n.input(1), n.input(2))});
}

LogicalResult softmaxCrossEntropy(NodeImport &n) {
  if (failed(checkOperands(n)))
    return failure();
  Value logProbabilities = n("graph.log_softmax", {n.input(0)}, n.integer("axis", 1));
  if (!logProbabilities)
    return failure();
  return n.give(
      {negativeLogLikelihood(n, logProbabilities, n.input(1), n.input(2)), logProbabilities});
}

constexpr Operator kOperators[] = {
    {"NegativeLogLikelihoodLoss", widened<nllLoss>},
    {"SoftmaxCrossEntropyLoss", widened<softmaxCrossEntropy>},
};

} // namespace

std::span<const Operator> lossOperators() { return kOperators; }

} // namespace tensmith::onnx_import

// The operators on ensembles of decision trees; see Trees.h.
#include "frontends/onnx/Trees.h"
#include "frontends/onnx/Classifiers.h"

#include <set>

namespace tensmith::onnx_import {
namespace {

LogicalResult treeEnsemble(NodeImport &n) {
  if (failed(n.needRank(0)) || n.rank(n.input(0)) != 2)
    return n.error("operand 0 has not rank 2");
  int64_t aggregate = n.intAttr("aggregate_function", Sum);
  int64_t transform = n.intAttr("post_transform", 0);
  if (aggregate < Average || aggregate > Maximum || transform < 0 ||
      transform > int64_t(Transform::Probit))
    return n.error("aggregate_function " + llvm::Twine(aggregate) + " or post_transform " +
                   llvm::Twine(transform) + " is not supported");
  auto forest = readForest(n);
  if (failed(forest))
    return failure();
  return n.give({transformed(n, predict(n, n.input(0), *forest, aggregate), Transform(transform))});
}

constexpr const char *kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};

LogicalResult treeEnsembleRegressor(NodeImport &n) {
  if (failed(n.needRank(0)) || n.rank(n.input(0)) != 2)
    return n.error("operand 0 has not rank 2");
  auto aggregate = numberOf(kAggregates, n.stringAttr("aggregate_function", "SUM"));
  auto transform = transformOf(n);
  if (!aggregate)
    return n.error("aggregate_function is not AVERAGE, SUM, MIN or MAX");
  auto forest = readNamedForest(n, "target", n.intAttr("n_targets", 1));
  if (failed(transform) || failed(forest))
    return failure();
  auto base = floatsOrTensor(n, "base_values");
  if (!base.empty() && int64_t(base.size()) != forest->targetCount)
    return n.error("has not a base value for each target");
  Value x = n.cast(n.input(0), n.element(n.input(0)).isF64() ? n.builder.getF64Type()
                                                             : Type(n.builder.getF32Type()));
  Value y = predict(n, x, *forest, *aggregate);
  if (y && !base.empty())
    y = n.add(y, constantOf(n, n.element(x), base, {int64_t(base.size())}));
  return n.give({n.cast(transformed(n, y, *transform), n.builder.getF32Type())});
}

/// The label and the scores of two classes of which leaves say only one, as ONNX Runtime has them:
/// of the first one's score s both, as 1 - s and s where no weight is negative, and as -s and s
/// otherwise; of the second's, nothing and s. Either way s decides, and only LOGISTIC changes it.
LogicalResult giveOneOfTwo(NodeImport &n, const ClassLabels &labels, Value score, bool isSecond,
                           bool isProbability, Transform transform) {
  Value isAbove = n("graph.greater", {score, n.scalar(score, isProbability ? 0.5 : 0)});
  if (!isAbove)
    return failure();
  Value number = n.cast(n.reshape(isAbove, {n.dims(score)[0]}), n.builder.getI64Type());
  Value opposite = n.unary("graph.neg", score), both;
  if (isSecond)
    both = transformed(n, n.concat({n.mul(score, 0), score}, 1), transform);
  else if (transform == Transform::Logistic)
    both = transformed(n, n.concat({opposite, score}, 1), transform);
  else if (Value y = transform == Transform::Probit ? transformed(n, score, transform) : score)
    both = n.concat({isProbability ? n.sub(n.scalar(y, 1), y) : n.unary("graph.neg", y), y}, 1);
  return n.give({labelled(n, labels, number), n.cast(both, n.builder.getF32Type())});
}

LogicalResult treeEnsembleClassifier(NodeImport &n) {
  ClassLabels labels = classLabels(n, "classlabels_int64s");
  auto transform = transformOf(n);
  Value x = featuresOf(n);
  if (failed(transform) || !x)
    return failure();
  Ints ids = n.intsAttr("class_ids");
  bool isOneOfTwo = labels.count() == 2 && std::set<int64_t>(ids.begin(), ids.end()).size() == 1;
  auto forest = readNamedForest(n, "class", std::max<int64_t>(labels.count(), 1));
  if (failed(forest))
    return failure();
  auto base = floatsOrTensor(n, "base_values");
  bool isSecond = isOneOfTwo && ids.front() == 1;
  if (isOneOfTwo) { // one column, whichever it is
    std::fill(forest->targets.begin(), forest->targets.end(), 0);
    forest->targetCount = 1;
    if (base.size() == 2)
      base = {base[isSecond]};
    else if (isSecond)
      base.clear(); // the first's
  }
  if (labels.count() < 2 || (!base.empty() && int64_t(base.size()) != forest->targetCount))
    return n.error("has not two class labels or more, or not a base value for each class");
  bool isProbability = llvm::none_of(forest->weights, [](double weight) { return weight < 0; });
  Value scores = predict(n, x, *forest, Sum);
  if (scores && !base.empty())
    scores = n.add(scores, constantOf(n, n.element(x), base, {int64_t(base.size())}));
  if (!scores)
    return failure();
  Type f32 = n.builder.getF32Type();
  if (isOneOfTwo)
    return giveOneOfTwo(n, labels, scores, isSecond, isProbability, *transform);
  Value best = largestOfRows(n, scores);
  return n.give({labelled(n, labels, best), n.cast(transformed(n, scores, *transform), f32)});
}

constexpr Operator kOperators[] = {
    {"TreeEnsemble", treeEnsemble, "ai.onnx.ml"},
    {"TreeEnsembleRegressor", treeEnsembleRegressor, "ai.onnx.ml"},
    {"TreeEnsembleClassifier", treeEnsembleClassifier, "ai.onnx.ml"},
};

} // namespace

std::span<const Operator> treeOperators() { return kOperators; }

} // namespace tensmith::onnx_import

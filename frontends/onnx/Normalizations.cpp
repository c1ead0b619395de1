// Imports softmax and the normalisations, with what older opsets meant by them.
#include "frontends/onnx/NodeImport.h"
#include "frontends/onnx/OperatorName.h"
#include "frontends/onnx/Widened.h"

namespace tensmith::onnx_import {
namespace {

/// Up to opset 12 over all dimensions from `axis` on as one; since then along `axis`.
template <OperatorName name> LogicalResult softmax(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  Value x = n.input(0);
  auto dims = n.dims(x);
  int64_t rank = int64_t(dims.size());
  bool flattens = n.opset < 13;
  auto axis = n.axis(n.intAttr("axis", flattens ? 1 : -1), rank);
  if (failed(axis))
    return failure();
  if (!flattens || *axis == rank - 1)
    return n.give({n(name, {x}, {n.integer("axis", *axis)})});
  auto &shapes = n.graph.shapes;
  ArrayRef<AffineExpr> all(dims);
  Value flat = n.reshape(x, {shapes.product(all.take_front(size_t(*axis))),
                             shapes.product(all.drop_front(size_t(*axis)))});
  return n.give({n.reshape(n(name, {flat}, {n.integer("axis", 1)}), dims)});
}

/// Of the batch, for each channel; in training of all processes' batches.
struct Moments {
  Value mean, variance;
};

Moments momentsOf(NodeImport &n) {
  Value x = n.widen(n.input(0));
  Ints axes{0};
  for (int64_t dim = 2; dim < n.rank(x); ++dim)
    axes.push_back(dim);
  auto meanOfBatch = [&](Value value) {
    Value mean = n.mean(value, axes);
    return n.importer.options.form == ModelForm::Training ? n("graph.all_reduce_mean", {mean})
                                                          : mean;
  };
  Value mean = meanOfBatch(x), centred = n.sub(x, mean);
  NodeImport::Dims channels{n.dims(x)[1]};
  return {n.reshape(mean, channels), n.reshape(meanOfBatch(n.mul(centred, centred)), channels)};
}

/// Normalised by the batch, and the running statistics moved toward the batch's, which opsets
/// before 14 give as well.
LogicalResult batchNormTraining(NodeImport &n, NamedAttribute epsilon) {
  double momentum = n.floatAttr("momentum", 0.9);
  Moments now = momentsOf(n);
  Value mean = n.cast(now.mean, n.element(n.input(3))),
        variance = n.cast(now.variance, n.element(n.input(4)));
  // The batch's statistics as they are: a variance may be beyond what halves hold.
  auto moved = [&](Value running, Value now) {
    return n.add(n.mul(running, momentum), n.mul(now, 1 - momentum));
  };
  Value y =
      n("graph.batch_norm", {n.input(0), n.input(1), n.input(2), now.mean, now.variance}, epsilon);
  Value nextMean = moved(n.input(3), mean), nextVariance = moved(n.input(4), variance);
  if (n.importer.options.form == ModelForm::Training && nextMean && nextVariance) {
    n.importer.updates.push_back({n.input(3), nextMean});
    n.importer.updates.push_back({n.input(4), nextVariance});
  }
  return n.give({y, nextMean, nextVariance, mean, variance});
}

/// Before opset 9, with spatial = 0: statistics for each place of each channel.
LogicalResult batchNormByPlace(NodeImport &n, bool isTraining) {
  Value x = n.input(0), mean = n.input(3), variance = n.input(4);
  Value nextMean = mean, nextVariance = variance;
  if (isTraining) {
    double momentum = n.floatAttr("momentum", 0.9);
    Value wide = n.widen(x), of = n.mean(wide, {0}), centred = n.sub(wide, of);
    auto placed = [&](Value value, Value like) {
      return n.reshape(n.cast(value, n.element(like)), n.dims(like));
    };
    Value now = placed(of, mean), spread = placed(n.mean(n.mul(centred, centred), {0}), variance);
    nextMean = n.add(n.mul(mean, momentum), n.mul(now, 1 - momentum));
    nextVariance = n.add(n.mul(variance, momentum), n.mul(spread, 1 - momentum));
    mean = now;
    variance = spread;
  }
  Value epsilon = n.scalar(variance, n.floatAttr("epsilon", 1e-5));
  Value factor = n.mul(n.input(1), n.rsqrt(n.add(variance, epsilon)));
  Value y = n.add(n.mul(n.sub(x, mean), factor), n.input(2));
  return n.give({y, nextMean, nextVariance, mean, variance});
}

/// Whether the node as it stands normalises by the batch. Before opset 14 it does where it gives
/// statistics, unless it says that it is a test.
bool normalisesByBatch(NodeImport &n) {
  if (n.opset >= 14)
    return n.intAttr("training_mode") != 0;
  bool givesStatistics = n.wants(1) || n.wants(2) || n.wants(3) || n.wants(4);
  return givesStatistics && !(n.opset < 7 && n.intAttr("is_test"));
}

LogicalResult batchNorm(NodeImport &n) {
  if (n.inputCount() < 5 || llvm::is_contained(n.inputs, Value()))
    return n.error("has not the 5 operands x, scale, bias, mean and variance");
  if (failed(n.needRank(0)))
    return failure();
  if (n.rank(n.input(0)) < 2)
    return n.error("operand 0 has not a rank of 2 or more");
  ModelForm form = n.importer.options.form;
  bool isTraining = form == ModelForm::AsGiven && normalisesByBatch(n);
  if (n.opset < 9 && !n.intAttr("spatial", 1))
    return batchNormByPlace(n, isTraining);
  NamedAttribute epsilon = n.real("epsilon", n.floatAttr("epsilon", 1e-5));
  bool becomesTraining = form == ModelForm::Training;
  if (becomesTraining &&
      !isa_and_nonnull<mlir::func::FuncOp>(n.builder.getInsertionBlock()->getParentOp()))
    return n.error("stands in a branch or a loop, where its running statistics can't be trained");
  if (becomesTraining || isTraining)
    return batchNormTraining(n, epsilon);
  Value y = n("graph.batch_norm", ArrayRef<Value>(n.inputs).take_front(5), epsilon);
  return n.give({y, n.input(3), n.input(4), n.input(3), n.input(4)});
}

LogicalResult instanceNorm(NodeImport &n) {
  return n.give({n("graph.instance_norm", {n.input(0), n.input(1), n.input(2)},
                   {n.real("epsilon", n.floatAttr("epsilon", 1e-5))})});
}

LogicalResult lrn(NodeImport &n) {
  return n.give(
      {n("graph.lrn", {n.input(0)},
         {n.integer("size", n.intAttr("size", 1)), n.real("alpha", n.floatAttr("alpha", 1e-4)),
          n.real("beta", n.floatAttr("beta", 0.75)), n.real("bias", n.floatAttr("bias", 1))})});
}

LogicalResult layerNorm(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  auto axis = n.axis(n.intAttr("axis", -1), n.rank(n.input(0)));
  if (failed(axis))
    return failure();
  return n.give(
      n.graph.create("graph.layer_norm", {n.input(0), n.input(1), n.maybe(2)},
                     {n.integer("axis", *axis), n.real("epsilon", n.floatAttr("epsilon", 1e-5))}));
}

LogicalResult rmsNorm(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  auto axis = n.axis(n.intAttr("axis", -1), n.rank(n.input(0)));
  if (failed(axis))
    return failure();
  return n.give({n("graph.rms_norm", {n.input(0), n.input(1)},
                   {n.integer("axis", *axis), n.real("epsilon", n.floatAttr("epsilon", 1e-5))})});
}

/// Up to opset 20 scale and bias are of groups, since then of channels.
LogicalResult groupNorm(NodeImport &n) {
  if (failed(n.needRank(0)) || n.rank(n.input(0)) < 2 || failed(n.needRank(1)) ||
      failed(n.needRank(2)))
    return failure();
  int64_t groups = n.intAttr("num_groups", 1);
  if (groups < 1)
    return n.error("num_groups is " + llvm::Twine(groups));
  AffineExpr channels = n.dims(n.input(0))[1];
  auto ofChannels = [&](Value v) {
    if (n.opset >= 21)
      return v;
    AffineExpr each = n.graph.shapes.simplify(channels.floorDiv(groups));
    return n.reshape(n.broadcast(n.reshape(v, {n.size(groups), n.size(1)}), {n.size(groups), each}),
                     {channels});
  };
  return n.give(
      {n("graph.group_norm", {n.input(0), ofChannels(n.input(1)), ofChannels(n.input(2))},
         {n.integer("groups", groups), n.real("epsilon", n.floatAttr("epsilon", 1e-5))})});
}

/// x / |x|_p along the axis; 0 where the norm is.
LogicalResult lpNorm(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  auto axis = n.axis(n.intAttr("axis", -1), n.rank(n.input(0)));
  int64_t p = n.intAttr("p", 2);
  if (failed(axis))
    return failure();
  if (p != 1 && p != 2)
    return n.error("p is " + llvm::Twine(p) + ", not 1 or 2");
  Value x = n.input(0);
  Value sum =
      n.reduce("graph.reduce_sum", p == 1 ? n.unary("graph.abs", x) : n.mul(x, x), {*axis}, true);
  Value norm = p == 1 ? sum : n.unary("graph.sqrt", sum);
  Value isZero = n("graph.equal", {norm, n.scalar(x, 0)});
  return n.give({n.where(isZero, n.scalar(x, 0), n.div(x, n.where(isZero, n.scalar(x, 1), norm)))});
}

/// (x - mean) / (standard deviation + 1e-9), as the standard's definition has it.
LogicalResult meanVarianceNorm(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  auto axes = n.axes(n.intsAttr("axes", {0, 2, 3}), n.rank(n.input(0)));
  if (failed(axes))
    return failure();
  Value x = n.input(0), centred = n.sub(x, n.mean(x, *axes));
  Value deviation = n.unary("graph.sqrt", n.mean(n.mul(centred, centred), *axes));
  return n.give({n.div(centred, n.add(deviation, 1e-9))});
}

constexpr Operator kOperators[] = {
    {"Softmax", softmax<"graph.softmax">},
    {"LogSoftmax", softmax<"graph.log_softmax">},
    {"Hardmax", softmax<"graph.hardmax">},
    {"BatchNormalization", batchNorm},
    {"InstanceNormalization", instanceNorm},
    {"LRN", lrn},
    {"LayerNormalization", layerNorm},
    {"RMSNormalization", rmsNorm},
    {"GroupNormalization", groupNorm},
    {"LpNormalization", widened<lpNorm>},
    {"MeanVarianceNormalization", widened<meanVarianceNorm>},
};

} // namespace

std::span<const Operator> normalizationOperators() { return kOperators; }

} // namespace tensmith::onnx_import

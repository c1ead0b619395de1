// Imports softmax and the normalisations, with what older opsets meant by them.
#include "frontends/onnx/NodeImport.h"
#include "frontends/onnx/OperatorName.h"

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

/// Mean and variance of the batch, which in training are of all processes, and the running ones
/// moved toward them.
LogicalResult batchNormTraining(NodeImport &n, NamedAttribute epsilon) {
  Value x = n.input(0);
  int64_t rank = n.rank(x);
  Ints axes{0};
  for (int64_t dim = 2; dim < rank; ++dim)
    axes.push_back(dim);
  NodeImport::Dims channels{n.dims(x)[1]};
  double momentum = n.floatAttr("momentum", 0.9);
  Value wide = n.widen(x);
  auto meanOfBatch = [&](Value value) {
    Value mean = n.mean(value, axes);
    return n.importer.options.form == ModelForm::Training ? n("graph.all_reduce_mean", {mean})
                                                          : mean;
  };
  Value mean = meanOfBatch(wide), centred = n.sub(wide, mean);
  Value variance = meanOfBatch(n.mul(centred, centred));
  mean = n.reshape(mean, channels);
  variance = n.reshape(variance, channels);
  auto moved = [&](Value running, Value now) {
    return n.add(n.mul(running, momentum), n.mul(n.cast(now, n.element(running)), 1 - momentum));
  };
  Value y = n("graph.batch_norm",
              {x, n.input(1), n.input(2), n.cast(mean, n.element(n.input(3))),
               n.cast(variance, n.element(n.input(4)))},
              epsilon);
  Value nextMean = moved(n.input(3), mean), nextVariance = moved(n.input(4), variance);
  if (n.importer.options.form == ModelForm::Training && nextMean && nextVariance) {
    n.importer.updates.push_back({n.input(3), nextMean});
    n.importer.updates.push_back({n.input(4), nextVariance});
  }
  return n.give({y, nextMean, nextVariance});
}

/// Before opset 9, with spatial = 0: statistics for each place of each channel.
LogicalResult batchNormByPlace(NodeImport &n) {
  Value x = n.input(0), epsilon = n.scalar(n.input(4), n.floatAttr("epsilon", 1e-5));
  Value factor = n.mul(n.input(1), n.rsqrt(n.add(n.input(4), epsilon)));
  Value y = n.add(n.mul(n.sub(x, n.input(3)), factor), n.input(2));
  return n.give({y, n.input(3), n.input(4), n.input(3), n.input(4)});
}

LogicalResult batchNorm(NodeImport &n) {
  if (n.inputCount() < 5 || llvm::is_contained(n.inputs, Value()))
    return n.error("has not the 5 operands x, scale, bias, mean and variance");
  if (failed(n.needRank(0)) || n.rank(n.input(0)) < 2)
    return n.error("operand 0 has not a known rank of 2 or more");
  if (n.opset < 9 && !n.intAttr("spatial", 1))
    return batchNormByPlace(n);
  NamedAttribute epsilon = n.real("epsilon", n.floatAttr("epsilon", 1e-5));
  ModelForm form = n.importer.options.form;
  bool becomesTraining = form == ModelForm::Training;
  if (becomesTraining &&
      !isa_and_nonnull<mlir::func::FuncOp>(n.builder.getInsertionBlock()->getParentOp()))
    return n.error("stands in a branch or a loop, where its running statistics can't be trained");
  bool isTraining = n.opset >= 14 && n.intAttr("training_mode") && form == ModelForm::AsGiven;
  if (becomesTraining || isTraining)
    return batchNormTraining(n, epsilon);
  Value y = n("graph.batch_norm", ArrayRef<Value>(n.inputs).take_front(5), epsilon);
  // Before opset 14 the statistics, which inference does not change, could be asked for.
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

constexpr Operator kOperators[] = {
    {"Softmax", softmax<"graph.softmax">},   {"LogSoftmax", softmax<"graph.log_softmax">},
    {"Hardmax", softmax<"graph.hardmax">},   {"BatchNormalization", batchNorm},
    {"InstanceNormalization", instanceNorm}, {"LRN", lrn},
    {"LayerNormalization", layerNorm},       {"RMSNormalization", rmsNorm},
    {"GroupNormalization", groupNorm},       {"LpNormalization", lpNorm},
};

} // namespace

std::span<const Operator> normalizationOperators() { return kOperators; }

} // namespace tensmith::onnx_import

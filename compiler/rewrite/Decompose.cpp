// Larger operators stay whole where a kernel template is built around them, and are taken apart
// otherwise.
//
// before: softmax(x) along a dimension that is not the last     after: reduce_max, sub, exp,
// reduce_sum, div
// before: instance_norm(reshape(x))     after: reshape(group_norm(x)), and what that is made of
// before: matmul(a, b), a of n or 1 matrices, b of n     after: matmul(broadcast(a), b)
// before: comprehension C(i, j) +=! A(i, k) * B(k, j)    after: matmul(a, b)
// before: add(a, b), a of n or 1 numbers, b of m or 1    after: add(broadcast(a), broadcast(b))
#include "compiler/graph/Comprehension.h"
#include "compiler/graph/Decomposition.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/kernel/Kernel.h"
#include "compiler/rewrite/Rewrites.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// Vectors in a matrix product become matrices of one row or column, which the contraction template
/// takes.
LogicalResult decomposeVectorProduct(graph::MatMulOp op, graph::GraphBuilder &builder,
                                     SmallVectorImpl<Value> &results) {
  auto a = dyn_cast<RankedTensorType>(op.getA().getType()),
       b = dyn_cast<RankedTensorType>(op.getB().getType());
  auto result = dyn_cast<RankedTensorType>(op.getType());
  if (!a || !b || !result || (a.getRank() > 1 && b.getRank() > 1))
    return failure();
  auto &shapes = builder.shapes;
  Value left = op.getA(), right = op.getB();
  if (a.getRank() == 1)
    left = builder.reshape(left, {shapes.constant(1), shapes.dims(a)[0]});
  if (b.getRank() == 1)
    right = builder.reshape(right, {shapes.dims(b)[0], shapes.constant(1)});
  auto product = builder.create<graph::MatMulOp>(
      {left, right},
      builder.named("accumulate_i32", builder.builder.getBoolAttr(op.getAccumulateI32())));
  if (!product)
    return failure();
  results.push_back(builder.reshape(product, shapes.dims(result)));
  return success(results.back() != nullptr);
}

/// The operand of a matrix product as a stack that is certain to be as long as the other's where
/// only the run can tell whether it is that, or 1.
Value certainStack(graph::MatMulOp op, unsigned number, graph::GraphBuilder &builder) {
  auto &shapes = builder.shapes;
  auto own = shapes.dims(op->getOperand(number).getType());
  auto dims = own, result = shapes.dims(op.getType());
  size_t missing = result.size() - own.size();
  for (size_t dim = 0; dim + 2 < own.size(); ++dim) {
    AffineExpr size = result[missing + dim];
    if (own[dim] == shapes.constant(1) || shapes.equal(own[dim], size))
      continue;
    dims[dim] = size;
  }
  return builder.broadcast(op->getOperand(number), dims);
}

LogicalResult broadcastStacks(graph::MatMulOp op, graph::GraphBuilder &builder,
                              SmallVectorImpl<Value> &results) {
  auto isMatrices = [](Type type) {
    auto ranked = dyn_cast<RankedTensorType>(type);
    return ranked && ranked.getRank() > 1;
  };
  if (!llvm::all_of(op->getOperandTypes(), isMatrices) || !isMatrices(op.getType()) ||
      !hasKnownSizes(op))
    return failure();
  Value a = certainStack(op, 0, builder), b = certainStack(op, 1, builder);
  if (!a || !b || (a == op.getA() && b == op.getB()))
    return failure();
  results.push_back(builder.create<graph::MatMulOp>(
      {a, b}, builder.named("accumulate_i32", builder.builder.getBoolAttr(op.getAccumulateI32()))));
  return success(results.back() != nullptr);
}

/// instance_norm(reshape(x, [n, groups, ...])), x of n images  ->  reshape(group_norm(x))
///
/// As normalisations of groups are exported that older opsets have no operator for.
LogicalResult groupChannels(graph::InstanceNormOp op, graph::GraphBuilder &builder,
                            SmallVectorImpl<Value> &results) {
  auto reshape = op.getX().getDefiningOp<graph::ReshapeOp>();
  auto type = reshape ? dyn_cast<RankedTensorType>(reshape.getX().getType()) : nullptr;
  auto scale = dyn_cast<RankedTensorType>(op.getScale().getType());
  if (!type || type.getRank() < 3 || !isa<RankedTensorType>(op.getX().getType()))
    return failure();
  auto &shapes = builder.shapes;
  auto own = shapes.dims(op.getX().getType()), dims = shapes.dims(type);
  auto groups = dyn_cast<AffineConstantExpr>(own[1]),
       channels = dyn_cast<AffineConstantExpr>(dims[1]);
  if (!groups || !channels || groups.getValue() < 1 || channels.getValue() % groups.getValue() ||
      !shapes.equal(own[0], dims[0]) || !scale || scale.getShape() != ArrayRef(groups.getValue()))
    return failure();
  AffineExpr size = shapes.constant(channels.getValue() / groups.getValue());
  auto ofEachChannel = [&](Value vector) {
    Value column = builder.reshape(vector, {groups, shapes.constant(1)});
    return builder.reshape(builder.broadcast(column, {groups, size}), {channels});
  };
  auto norm = builder.create<graph::GroupNormOp>(
      {reshape.getX(), ofEachChannel(op.getScale()), ofEachChannel(op.getBias())},
      {builder.named("groups", builder.builder.getI64IntegerAttr(groups.getValue())),
       builder.named("epsilon", op.getEpsilonAttr())});
  if (!norm)
    return failure();
  results.push_back(builder.reshape(norm, own));
  return success(results.back() != nullptr);
}

/// Of an element-wise operator each operand as one that is certain to be as large as the result,
/// where only the run can tell: code of elements looks at no size.
LogicalResult broadcastOperands(Operation *op, graph::GraphBuilder &builder,
                                SmallVectorImpl<Value> &results) {
  auto result = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  auto isRanked = [](Value operand) { return isa<RankedTensorType>(operand.getType()); };
  if (!result || !llvm::all_of(op->getOperands(), isRanked))
    return failure();
  auto &shapes = builder.shapes;
  auto dims = shapes.dims(result);
  IRMapping mapping;
  bool changed = false;
  for (Value operand : op->getOperands()) {
    auto own = shapes.dims(operand.getType());
    for (auto [size, wanted] : llvm::zip_equal(own, ArrayRef(dims).take_back(own.size())))
      if (size != shapes.constant(1))
        size = wanted;
    Value whole = builder.broadcast(operand, own);
    if (!whole) // sizes that contradict each other: the run refuses them
      return failure();
    changed |= whole != operand;
    mapping.map(operand, whole);
  }
  if (!changed)
    return failure();
  results.push_back(builder.builder.clone(*op, mapping)->getResult(0));
  return success();
}

/// A statement becomes operators that say the same, unless it has a schedule, or something is asked
/// of its nest. Where a nest is asked for the operators are built, too: they tell that there is a
/// choice.
LogicalResult sayByOperators(graph::ComprehensionOp op, graph::GraphBuilder &builder,
                             const Options &options, SmallVectorImpl<Value> &results) {
  if (!hasKnownSizes(op) || !graph::scheduleOf(op).text.empty())
    return failure();
  kernel::Point asked = options.asked(op), made;
  bool isNest = asked[kernel::choice::asOperators].value_or(asked.empty()) == 0;
  if (failed(graph::asOperators(op, builder, results)))
    return failure();
  options.offer(op, kernel::choice::asOperators, {0, 1});
  made.set(kernel::choice::asOperators, !isNest);
  options.made(op, made, 0);
  return failure(isNest);
}

LogicalResult replacement(Operation *op, graph::GraphBuilder &builder, const Options &options,
                          SmallVectorImpl<Value> &results) {
  if (auto matmul = dyn_cast<graph::MatMulOp>(op))
    return success(succeeded(decomposeVectorProduct(matmul, builder, results)) ||
                   succeeded(broadcastStacks(matmul, builder, results)));
  if (isa<graph::Elementwise>(op))
    return kernel::canEmitElements(op) || !hasKnownSizes(op)
               ? failure()
               : broadcastOperands(op, builder, results);
  if (auto norm = dyn_cast<graph::InstanceNormOp>(op))
    if (succeeded(groupChannels(norm, builder, results)))
      return success();
  if (auto comprehension = dyn_cast<graph::ComprehensionOp>(op))
    if (succeeded(sayByOperators(comprehension, builder, options, results)))
      return success();
  if (!isa<graph::Decomposable>(op) || kernel::templateBefore(op, options.machine))
    return failure();
  return graph::decomposed(op, builder, results);
}

} // namespace

LogicalResult decompose(func::FuncOp function, const Options &options) {
  graph::SizeNames names;
  for (Block &block : function.getBody())
    names.add(block);
  graph::PartCounts parts;
  // What a decomposition is made of may itself be decomposable, so until nothing changes.
  for (bool changed = true; changed;) {
    changed = false;
    SmallVector<Operation *> candidates;
    function.walk([&](Operation *op) {
      if (isa<graph::Decomposable, graph::MatMulOp, graph::Elementwise>(op))
        candidates.push_back(op);
    });
    for (Operation *op : candidates) {
      auto replaced = parts.replace(
          op, names,
          [&](Operation *op, graph::GraphBuilder &builder, SmallVectorImpl<Value> &results) {
            return replacement(op, builder, options, results);
          });
      if (failed(replaced))
        return failure();
      changed |= *replaced;
    }
  }
  return success();
}

} // namespace tensmith::rewrite

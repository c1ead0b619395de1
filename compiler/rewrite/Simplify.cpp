// Small patterns that remove operators. Above each: before, after, and the condition.
#include "compiler/rewrite/Simplify.h"

#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/rewrite/Rewrites.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace tensmith::rewrite {

SmallVector<int64_t> inversePermutation(ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> inverse(permutation.size());
  for (auto [position, dim] : llvm::enumerate(permutation))
    inverse[dim] = position;
  return inverse;
}

Value transposed(PatternRewriter &rewriter, Location location, Value x,
                 ArrayRef<int64_t> permutation) {
  graph::ShapeContext shapes(rewriter.getContext());
  return graph::GraphBuilder(rewriter, shapes, location).transpose(x, permutation);
}

namespace {

/// transpose(transpose(x, p), q)  ->  transpose(x, p after q)
struct TransposeOfTranspose : OpRewritePattern<graph::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::TransposeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getX().getDefiningOp<graph::TransposeOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "operand is no transposition");
    SmallVector<int64_t> permutation;
    for (int64_t dim : op.getPermutation())
      permutation.push_back(inner.getPermutation()[dim]);
    Value result = transposed(rewriter, op.getLoc(), inner.getX(), permutation);
    if (result.getType() != op.getType())
      return rewriter.notifyMatchFailure(op, "types say different things");
    rewriter.replaceOp(op, result);
    return success();
  }
};

/// transpose(x, p)  ->  x where p is the identity; reshape(x) where only dimensions of size 1
/// change places
struct TransposeOfUnits : OpRewritePattern<graph::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::TransposeOp op, PatternRewriter &rewriter) const override {
    auto type = dyn_cast<RankedTensorType>(op.getX().getType());
    if (!type)
      return failure();
    int64_t last = -1;
    for (int64_t dim : op.getPermutation()) {
      if (type.getDimSize(dim) == 1)
        continue;
      if (dim < last)
        return rewriter.notifyMatchFailure(op, "dimensions change places");
      last = dim;
    }
    if (op.getX().getType() == op.getType())
      rewriter.replaceOp(op, op.getX());
    else
      rewriter.replaceOpWithNewOp<graph::ReshapeOp>(op, op.getType(), op.getX());
    return success();
  }
};

/// reshape(reshape(x))  ->  reshape(x);  reshape(x)  ->  x where the types are the same
struct ReshapeOfReshape : OpRewritePattern<graph::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::ReshapeOp op, PatternRewriter &rewriter) const override {
    if (op.getX().getType() == op.getType()) {
      rewriter.replaceOp(op, op.getX());
      return success();
    }
    auto inner = op.getX().getDefiningOp<graph::ReshapeOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "operand is no reshape");
    rewriter.replaceOpWithNewOp<graph::ReshapeOp>(op, op.getType(), inner.getX());
    return success();
  }
};

/// cast(x)  ->  x where the types are the same
struct CastToSame : OpRewritePattern<graph::CastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::CastOp op, PatternRewriter &rewriter) const override {
    if (op.getX().getType() != op.getType())
      return failure();
    rewriter.replaceOp(op, op.getX());
    return success();
  }
};

/// broadcast(x)  ->  x where the types are the same;
/// f(broadcast(x), y)  ->  f(x, y) where f is element-wise and y alone gives the result's shape
struct BroadcastBeforeElementwise : OpRewritePattern<graph::BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::BroadcastOp op, PatternRewriter &rewriter) const override {
    if (op.getX().getType() == op.getType()) {
      rewriter.replaceOp(op, op.getX());
      return success();
    }
    bool changed = false;
    for (OpOperand &use : llvm::make_early_inc_range(op->getUses())) {
      Operation *user = use.getOwner();
      if (!isa<graph::Elementwise>(user) || !givesShapeWithout(user, use.getOperandNumber()))
        continue;
      rewriter.modifyOpInPlace(user, [&] { use.set(op.getX()); });
      changed = true;
    }
    return success(changed);
  }

  static bool givesShapeWithout(Operation *user, unsigned number) {
    auto result = dyn_cast<RankedTensorType>(user->getResult(0).getType());
    for (OpOperand &operand : user->getOpOperands()) {
      auto type = dyn_cast<RankedTensorType>(operand.get().getType());
      if (operand.getOperandNumber() != number && result && type &&
          type.clone(result.getElementType()) == result)
        return true;
    }
    return false;
  }
};

/// axis = -1  ->  axis = rank - 1, of the operators that kernels compute: their templates count
/// from the front.
void countAxesFromTheFront(func::FuncOp function) {
  function.walk([](Operation *op) {
    if (!isa<graph::ConcatOp, graph::GatherOp, graph::GatherElementsOp, graph::ArgMaxOp,
             graph::ArgMinOp>(op))
      return;
    auto axis = op->getAttrOfType<IntegerAttr>("axis");
    auto type = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
    if (axis && type && axis.getInt() < 0)
      op->setAttr("axis", IntegerAttr::get(axis.getType(), axis.getInt() + type.getRank()));
  });
}

} // namespace

void addSimplifyPatterns(RewritePatternSet &patterns) {
  patterns.add<TransposeOfTranspose, TransposeOfUnits, ReshapeOfReshape, CastToSame,
               BroadcastBeforeElementwise>(patterns.getContext());
}

LogicalResult simplify(func::FuncOp function, const Options &) {
  countAxesFromTheFront(function);
  RewritePatternSet patterns(function.getContext());
  addSimplifyPatterns(patterns);
  GreedyRewriteConfig config;
  config.enableRegionSimplification = GreedySimplifyRegionLevel::Disabled;
  return applyPatternsAndFoldGreedily(function, std::move(patterns), config);
}

} // namespace tensmith::rewrite

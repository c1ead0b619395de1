// What models write for want of the operator becomes the operator:
//
//   max(x - t, 0) - max(-x - t, 0)   ->   soft_threshold(x, t)
//
// where t has no more elements than x has, so that the result has x's shape. Both give the same
// bits, NaN and infinities included, since the operator's code computes just that.
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include "Example.h"

using namespace mlir;
using namespace tensmith;

namespace example {
namespace {

bool isZero(Value value) {
  auto constant = value.getDefiningOp<graph::ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
  return elements && elements.isSplat() && isa<FloatType>(elements.getElementType()) &&
         elements.getSplatValue<APFloat>().isZero();
}

/// a and t of max(a - t, 0), in any order of the maximum's operands.
std::optional<std::pair<Value, Value>> matchShrunk(Value value) {
  auto larger = value.getDefiningOp<graph::MaxOp>();
  if (!larger || !(isZero(larger.getA()) || isZero(larger.getB())))
    return std::nullopt;
  Value operand = isZero(larger.getB()) ? larger.getA() : larger.getB();
  auto shrunk = operand.getDefiningOp<graph::SubOp>();
  return shrunk ? std::optional(std::pair(shrunk.getA(), shrunk.getB())) : std::nullopt;
}

struct Recognise : OpRewritePattern<graph::SubOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(graph::SubOp op, PatternRewriter &rewriter) const override {
    auto above = matchShrunk(op.getA()), below = matchShrunk(op.getB());
    if (!above || !below)
      return rewriter.notifyMatchFailure(op, "is no difference of two maxima with zero");
    auto negated = below->first.getDefiningOp<graph::NegOp>();
    if (!negated || negated.getX() != above->first || above->second != below->second)
      return rewriter.notifyMatchFailure(op, "is not of one value and its negation");
    if (op.getType() != above->first.getType())
      return rewriter.notifyMatchFailure(op, "has another shape than the value");
    rewriter.replaceOpWithNewOp<SoftThresholdOp>(op, op.getType(), above->first, above->second);
    return success();
  }
};

} // namespace

LogicalResult recogniseSoftThreshold(func::FuncOp function, const rewrite::Options &) {
  RewritePatternSet patterns(function.getContext());
  patterns.add<Recognise>(function.getContext());
  return applyPatternsAndFoldGreedily(function, std::move(patterns));
}

} // namespace example

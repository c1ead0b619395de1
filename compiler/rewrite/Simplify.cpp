// Small patterns that remove operators. Above each: before, after, and the condition.
#include "compiler/rewrite/Simplify.h"
#include "compiler/kernel/Contraction.h"

#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/graph/Precision.h"
#include "compiler/graph/States.h"
#include "compiler/kernel/Kernel.h"
#include "compiler/rewrite/Rewrites.h"

#include "mlir/IR/Matchers.h"
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

/// The type of the tensor with its dimensions in that order; null where its rank is open.
Type transposedType(Type type, ArrayRef<int64_t> permutation) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked || ranked.getRank() != int64_t(permutation.size()))
    return {};
  graph::ShapeContext shapes(type.getContext());
  auto dims = shapes.dims(ranked);
  SmallVector<AffineExpr> moved;
  for (int64_t dim : permutation)
    moved.push_back(dims[dim]);
  return shapes.tensorType(ranked.getElementType(), moved);
}

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
    if (transposedType(inner.getX().getType(), permutation) != op.getType())
      return rewriter.notifyMatchFailure(op, "types say different things");
    rewriter.replaceOp(op, transposed(rewriter, op.getLoc(), inner.getX(), permutation));
    return success();
  }
};

/// A product matmul(transpose(x), y) of floats that nothing else reads; null where it is none.
graph::MatMulOp productOfTurned(Value value) {
  auto product = value.getDefiningOp<graph::MatMulOp>();
  if (!product || !product->hasOneUse())
    return {};
  auto left = product.getA().getDefiningOp<graph::TransposeOp>();
  auto right = dyn_cast<RankedTensorType>(product.getB().getType());
  auto result = cast<RankedTensorType>(product.getType());
  bool isTurned = left && kernel::swapsLast(left) && right && right.getRank() == result.getRank() &&
                  int64_t(left.getPermutation().size()) == result.getRank() &&
                  isa<FloatType>(result.getElementType());
  return isTurned ? product : graph::MatMulOp();
}

/// transpose(matmul(transpose(x), y))  ->  matmul(transpose(y), x) where each exchanges the last
/// two dimensions, as of the gradient by a weight that is used transposed
struct TransposeOfProduct : OpRewritePattern<graph::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(graph::TransposeOp op, PatternRewriter &rewriter) const override {
    auto product = productOfTurned(op.getX());
    if (!product || !kernel::swapsLast(op))
      return rewriter.notifyMatchFailure(op, "operand is no product of a turned matrix");
    auto left = product.getA().getDefiningOp<graph::TransposeOp>();
    Value turned = transposed(rewriter, product.getLoc(), product.getB(), op.getPermutation());
    auto made =
        rewriter.create<graph::MatMulOp>(product.getLoc(), op.getType(), turned, left.getX());
    if (product->hasAttr(graph::kKeepsPrecision))
      graph::keepPrecision(made);
    rewriter.replaceOp(op, made);
    return success();
  }
};

/// transpose(add(p, q))  ->  add(transpose(p), transpose(q)) where all that is added are such
/// products, as of a weight that the steps of a recurrence use
struct TransposeOfSum : OpRewritePattern<graph::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  /// Whether the products of a sum can all be turned.
  static bool isSumOfTurned(graph::AddOp sum) {
    constexpr size_t kMostParts = 4096;
    SmallVector<graph::AddOp> sums{sum};
    for (size_t next = 0; next < sums.size(); ++next) {
      if (!sums[next]->hasOneUse() || sums.size() > kMostParts)
        return false;
      for (Value part : sums[next]->getOperands()) {
        if (part.getType() != sum.getType())
          return false;
        if (auto inner = part.getDefiningOp<graph::AddOp>())
          sums.push_back(inner);
        else if (!productOfTurned(part))
          return false;
      }
    }
    return true;
  }

  LogicalResult matchAndRewrite(graph::TransposeOp op, PatternRewriter &rewriter) const override {
    auto sum = op.getX().getDefiningOp<graph::AddOp>();
    if (!sum || !kernel::swapsLast(op) || !isSumOfTurned(sum))
      return rewriter.notifyMatchFailure(op, "operand is no sum of products of turned matrices");
    auto turned = [&](Value part) {
      return transposed(rewriter, op.getLoc(), part, op.getPermutation());
    };
    Value a = turned(sum.getA()), b = turned(sum.getB());
    rewriter.replaceOpWithNewOp<graph::AddOp>(op, op.getType(), a, b);
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
/// f(broadcast(x), y)  ->  f(x, y) where f is element-wise, y alone gives the result's shape, and
/// it is certain which dimensions of x are 1
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
      bool couldEmit = kernel::canEmitElements(user);
      rewriter.modifyOpInPlace(user, [&] { use.set(op.getX()); });
      if (couldEmit && !kernel::canEmitElements(user))
        rewriter.modifyOpInPlace(user, [&] { use.set(op); });
      else
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

/// f(reshape(x), reshape(y), c)  ->  reshape(f(x, y, c)) where f is element-wise, x and y have one
/// shape and c is a scalar, or a vector along a last dimension that stays
///
/// So what follows a product is applied to it in registers, whatever shape it is given afterwards.
struct ReshapeBehindElementwise : OpInterfaceRewritePattern<graph::Elementwise> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  static graph::ReshapeOp reshapeTo(Value operand, RankedTensorType result) {
    auto reshape = operand.getDefiningOp<graph::ReshapeOp>();
    auto own = dyn_cast<RankedTensorType>(operand.getType());
    bool whole = reshape && own && own.clone(result.getElementType()) == result &&
                 isa<RankedTensorType>(reshape.getX().getType());
    return whole ? reshape : graph::ReshapeOp();
  }

  /// Whether the operand broadcasts to `before` as it does to `after`.
  static bool broadcastsAlike(Value operand, RankedTensorType before, RankedTensorType after) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    if (!type || type.getRank() > 1)
      return false;
    if (type.getRank() == 0 || type.getDimSize(0) == 1)
      return true;
    return before.getRank() > 0 && after.getRank() > 0 && !type.isDynamicDim(0) &&
           before.getShape().back() == type.getDimSize(0) &&
           after.getShape().back() == type.getDimSize(0);
  }

  /// What updates a state stays of the state's shape, so that it can be written over it.
  static bool mayUpdate(graph::Elementwise op, RankedTensorType result) {
    auto function = op->getParentOfType<func::FuncOp>();
    bool hasStates = function && llvm::any_of(function.getArguments(), [&](BlockArgument argument) {
                       return function.getArgAttr(argument.getArgNumber(), graph::kState);
                     });
    return hasStates && llvm::any_of(op->getOperands(), [&](Value operand) {
             auto own = dyn_cast<RankedTensorType>(operand.getType());
             return own && own.getRank() > 0 && !reshapeTo(operand, result) &&
                    own.clone(result.getElementType()) == result;
           });
  }

  LogicalResult matchAndRewrite(graph::Elementwise op, PatternRewriter &rewriter) const override {
    auto result = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!result || op->getNumResults() != 1 || mayUpdate(op, result))
      return failure();
    RankedTensorType before;
    for (Value operand : op->getOperands())
      if (graph::ReshapeOp reshape = reshapeTo(operand, result))
        before = cast<RankedTensorType>(reshape.getX().getType());
    if (!before || before.getRank() == 0)
      return rewriter.notifyMatchFailure(op, "no operand is reshaped to the result's shape");
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      graph::ReshapeOp reshape = reshapeTo(operand, result);
      if (reshape &&
          cast<RankedTensorType>(reshape.getX().getType()).clone(before.getElementType()) == before)
        operands.push_back(reshape.getX());
      else if (broadcastsAlike(operand, before, result))
        operands.push_back(operand);
      else
        return rewriter.notifyMatchFailure(op, "an operand has another shape");
    }
    graph::ShapeContext shapes(op.getContext());
    Operation *moved = rewriter.clone(*op);
    moved->setOperands(operands);
    moved->getResult(0).setType(shapes.tensorType(result.getElementType(), shapes.dims(before)));
    graph::GraphBuilder builder(rewriter, shapes, op->getLoc());
    Value back = builder.reshape(moved->getResult(0), shapes.dims(result));
    back.setType(result);
    rewriter.replaceOp(op, back);
    return success();
  }
};

/// a - s * scatter_add(0, i, u)  ->  scatter_add(a, i, -s * u) where s is a scalar; likewise of
/// sums
///
/// So an update of a table that few rows of were read touches those rows alone.
template <typename Op> struct ScatterIntoSum : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  static bool isZero(Value value) {
    if (auto broadcast = value.getDefiningOp<graph::BroadcastOp>())
      value = broadcast.getX();
    DenseFPElementsAttr zeros;
    return matchPattern(value, m_Constant(&zeros)) && zeros.isSplat() &&
           zeros.getSplatValue<APFloat>().isPosZero();
  }
  static bool isScalar(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getRank() == 0;
  }

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    constexpr bool kSubtracts = std::is_same_v<Op, graph::SubOp>;
    auto whole = op.getA(), other = op.getB();
    Value factor;
    Value sum = other;
    if (auto product = other.template getDefiningOp<graph::MulOp>();
        product && product->hasOneUse()) {
      bool first = isScalar(product.getA());
      factor = first ? product.getA() : product.getB();
      sum = first ? product.getB() : product.getA();
      if (!isScalar(factor))
        return failure();
    }
    auto scatter = sum.getDefiningOp<graph::ScatterNDOp>();
    if (!scatter || !scatter->hasOneUse() || scatter.getReduction() != "add" ||
        whole.getType() != op.getType() || scatter.getType() != op.getType() ||
        !isZero(scatter.getX()))
      return rewriter.notifyMatchFailure(op, "nothing is scattered into zeros");
    graph::ShapeContext shapes(op.getContext());
    graph::GraphBuilder graph(rewriter, shapes, scatter.getLoc());
    Value updates = scatter.getUpdates();
    if (factor && kSubtracts)
      factor = graph.unary("graph.neg", factor);
    if (factor)
      updates = graph.binary("graph.mul", factor, updates);
    else if (kSubtracts)
      updates = graph.unary("graph.neg", updates);
    rewriter.replaceOpWithNewOp<graph::ScatterNDOp>(op, op.getType(), whole, scatter.getIndices(),
                                                    updates, "add");
    return success();
  }
};

/// scatter_elements(x, broadcast(i), u)  ->  scatter_nd(x, reshape(i), u) where i is [e, 1, ..., 1]
/// and the updates are whole rows of x; and of rank 1 whatever the indices are
///
/// As of messages that graph networks sum up; rows have a kernel.
struct ScatterOfRows : OpRewritePattern<graph::ScatterElementsOp> {
  using OpRewritePattern::OpRewritePattern;

  /// The value whose elements are the indices of rows; null where each element has its own.
  static Value rowIndices(graph::ShapeContext &shapes, Value indices) {
    auto type = cast<RankedTensorType>(indices.getType());
    if (type.getRank() == 1)
      return indices;
    auto broadcast = indices.getDefiningOp<graph::BroadcastOp>();
    auto own = broadcast ? dyn_cast<RankedTensorType>(broadcast.getX().getType()) : nullptr;
    bool isOnePerRow =
        own && own.getRank() == type.getRank() &&
        llvm::all_of(own.getShape().drop_front(), [](int64_t n) { return n == 1; }) &&
        shapes.equal(shapes.dims(own)[0], shapes.dims(type)[0]);
    return isOnePerRow ? broadcast.getX() : Value();
  }

  LogicalResult matchAndRewrite(graph::ScatterElementsOp op,
                                PatternRewriter &rewriter) const override {
    auto x = dyn_cast<RankedTensorType>(op.getX().getType()),
         indices = dyn_cast<RankedTensorType>(op.getIndices().getType());
    if (!x || !indices || op.getAxis() != 0 || x.getRank() != indices.getRank())
      return failure();
    graph::ShapeContext shapes(op.getContext());
    auto dims = shapes.dims(indices);
    for (auto [size, whole] : llvm::drop_begin(llvm::zip_equal(dims, shapes.dims(x))))
      if (!shapes.equal(size, whole))
        return rewriter.notifyMatchFailure(op, "the updates may be parts of rows");
    Value rows = rowIndices(shapes, op.getIndices());
    if (!rows)
      return rewriter.notifyMatchFailure(op, "the elements of a row have indices of their own");
    graph::GraphBuilder graph(rewriter, shapes, op.getLoc());
    rewriter.replaceOpWithNewOp<graph::ScatterNDOp>(
        op, op.getType(), op.getX(), graph.reshape(rows, {dims[0], shapes.constant(1)}),
        op.getUpdates(), op.getReduction());
    return success();
  }
};

/// conv(x, w)  ->  conv(x, w without the positions at its ends that see nothing but padding)
///
/// As of windows that are dilated by more than the image is wide.
struct CutUnreachedWeights : OpRewritePattern<graph::ConvOp> {
  using OpRewritePattern::OpRewritePattern;

  /// Positions of the window along one dimension that are cut off at either end; padding stays 0 or
  /// more.
  struct Cut {
    int64_t front = 0, back = 0;
  };
  static Cut cutOf(int64_t size, int64_t outputs, int64_t kernel, int64_t stride, int64_t dilation,
                   int64_t low, int64_t high) {
    Cut cut;
    int64_t lastStart = (outputs - 1) * stride - low, firstStart = -low;
    while (cut.front < kernel - 1 && cut.front * dilation + lastStart < 0 &&
           (cut.front + 1) * dilation <= low)
      ++cut.front;
    while (cut.front + cut.back < kernel - 1 &&
           (kernel - 1 - cut.back) * dilation + firstStart >= size &&
           (cut.back + 1) * dilation <= high)
      ++cut.back;
    return cut;
  }

  LogicalResult matchAndRewrite(graph::ConvOp op, PatternRewriter &rewriter) const override {
    auto x = dyn_cast<RankedTensorType>(op.getX().getType()),
         w = dyn_cast<RankedTensorType>(op.getW().getType()),
         y = dyn_cast<RankedTensorType>(op.getType());
    if (!x || !w || !y || !w.hasStaticShape())
      return failure();
    size_t spatial = size_t(w.getRank()) - 2, first = graph::isChannelsLast(op) ? 1 : 2;
    SmallVector<int64_t> starts(2, 0), pads(op.getPads()), dilations(op.getDilations());
    Shape kept(w.getShape().take_front(2).begin(), w.getShape().take_front(2).end());
    for (size_t dim = 0; dim < spatial; ++dim) {
      int64_t size = x.getDimSize(first + dim), outputs = y.getDimSize(first + dim),
              kernel = w.getDimSize(2 + dim);
      Cut cut;
      if (!ShapedType::isDynamic(size) && !ShapedType::isDynamic(outputs) && outputs > 0)
        cut = cutOf(size, outputs, kernel, op.getStrides()[dim], dilations[dim], pads[dim],
                    pads[spatial + dim]);
      starts.push_back(cut.front);
      kept.push_back(kernel - cut.front - cut.back);
      pads[dim] -= cut.front * dilations[dim];
      pads[spatial + dim] -= cut.back * dilations[dim];
      if (kept.back() == 1)
        dilations[dim] = 1;
    }
    if (ArrayRef(kept) == w.getShape())
      return rewriter.notifyMatchFailure(op, "all weights meet the image");
    graph::ShapeContext shapes(op.getContext());
    graph::GraphBuilder graph(rewriter, shapes, op.getLoc());
    SmallVector<AffineExpr> to;
    for (int64_t size : kept)
      to.push_back(shapes.constant(size));
    Value part = graph.slice(op.getW(), starts, SmallVector<int64_t>(starts.size(), 1), to);
    rewriter.modifyOpInPlace(op, [&] {
      op.getWMutable().assign(part);
      op.setPads(pads);
      op.setDilations(dilations);
    });
    return success();
  }
};

} // namespace

void addSimplifyPatterns(RewritePatternSet &patterns) {
  patterns.add<CutUnreachedWeights, TransposeOfTranspose, TransposeOfProduct, TransposeOfSum,
               ScatterIntoSum<graph::SubOp>, ScatterIntoSum<graph::AddOp>, ScatterOfRows,
               TransposeOfUnits, ReshapeOfReshape, CastToSame, BroadcastBeforeElementwise,
               ReshapeBehindElementwise>(patterns.getContext());
}

LogicalResult simplify(func::FuncOp function, const Options &options) {
  countAxesFromTheFront(function);
  RewritePatternSet patterns(function.getContext());
  addSimplifyPatterns(patterns);
  addAlgebraicRules(patterns, options.fastMath);
  GreedyRewriteConfig config;
  config.enableRegionSimplification = GreedySimplifyRegionLevel::Disabled;
  return applyPatternsAndFoldGreedily(function, std::move(patterns), config);
}

} // namespace tensmith::rewrite

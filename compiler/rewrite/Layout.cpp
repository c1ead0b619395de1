// Channels-last for what has a window, where the machine's templates take images so.
//
// Each convolution, and each pool that is worth it (LayoutCost.h), is turned channels-last between
// two transpositions; the one behind it
// is then moved down, through element-wise operators, concatenations, padding, slices and
// reductions, until it meets the one before the next window and both go. What is left stands at the
// borders of the model and at reshapes.
#include "compiler/graph/Bounds.h"
#include "compiler/graph/ChannelOrder.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/rewrite/LayoutCost.h"
#include "compiler/rewrite/Rewrites.h"
#include "compiler/rewrite/Simplify.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// Of a pool that is not worth it, while this rewrite runs.
constexpr char kStaysFirst[] = "graph.channels_first";

/// window(x)  ->  transpose(window_channels_last(transpose(x)))
template <typename Op> struct ToChannelsLast : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    auto type = dyn_cast<RankedTensorType>(op.getX().getType());
    if (!type || !isa<RankedTensorType>(op.getType()) || graph::isChannelsLast(op) ||
        type.getRank() < 3 || op->hasAttr(kStaysFirst))
      return rewriter.notifyMatchFailure(op, "is channels-last, stays first, or of unknown rank");
    SmallVector<int64_t> forward = graph::toChannelsLast(type.getRank());
    Value x = transposed(rewriter, op.getLoc(), op.getX(), forward);
    auto result = cast<RankedTensorType>(op.getType());
    Operation *window = rewriter.clone(*op);
    window->setOperand(0, x);
    cast<Op>(window).setLayout(graph::kChannelsLast);
    graph::ShapeContext shapes(op.getContext());
    auto dims = shapes.dims(result);
    SmallVector<AffineExpr> turned;
    for (int64_t dim : forward)
      turned.push_back(dims[dim]);
    window->getResult(0).setType(shapes.tensorType(result.getElementType(), turned));
    Value back =
        transposed(rewriter, op.getLoc(), window->getResult(0), inversePermutation(forward));
    back.setType(result);
    rewriter.replaceOp(op, back);
    return success();
  }
};

/// Whether only dimensions of size 1 change places.
bool keepsOrder(RankedTensorType type, ArrayRef<int64_t> permutation) {
  int64_t last = -1;
  for (int64_t dim : permutation) {
    if (type.getDimSize(dim) == 1)
      continue;
    if (dim < last)
      return false;
    last = dim;
  }
  return true;
}

/// Whether a value is turned at no cost, against the permutation of a result that it may be
/// broadcast to: a constant, or one of which only dimensions of size 1 change places.
bool turnsFreely(Value value, ArrayRef<int64_t> permutation) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || type.getRank() > int64_t(permutation.size()))
    return false;
  if (value.getDefiningOp<graph::ConstantOp>())
    return true;
  SmallVector<int64_t> sizes(permutation.size() - type.getRank(), 1);
  llvm::append_range(sizes, type.getShape());
  return keepsOrder(RankedTensorType::get(sizes, type.getElementType()),
                    inversePermutation(permutation));
}

/// Whether an operand can be seen as before the transposition at no cost: it is the operand of the
/// same transposition, or turns freely.
bool isUntransposable(Value operand, ArrayRef<int64_t> permutation) {
  auto transpose = operand.getDefiningOp<graph::TransposeOp>();
  return (transpose && transpose.getPermutation() == permutation) ||
         turnsFreely(operand, permutation);
}

/// Such an operand in the order in which it is without the transposition.
Value untransposed(PatternRewriter &rewriter, Location location, Value operand,
                   ArrayRef<int64_t> permutation) {
  if (auto transpose = operand.getDefiningOp<graph::TransposeOp>())
    if (transpose.getPermutation() == permutation)
      return transpose.getX();
  auto type = cast<RankedTensorType>(operand.getType());
  if (type.getRank() == 0)
    return operand;
  // Of lower rank than the result: leading dimensions of size 1 first.
  graph::ShapeContext shapes(rewriter.getContext());
  graph::GraphBuilder builder(rewriter, shapes, location);
  SmallVector<AffineExpr> dims = shapes.dims(type);
  dims.insert(dims.begin(), permutation.size() - dims.size(), shapes.constant(1));
  return builder.transpose(builder.reshape(operand, dims), inversePermutation(permutation));
}

/// The operand as a transposition worth moving. One that is free stays where it is: `untransposed`
/// makes such ones, and an operator between two of them would be turned for ever.
graph::TransposeOp transpositionOf(Value operand) {
  auto transpose = operand.getDefiningOp<graph::TransposeOp>();
  auto type = transpose ? dyn_cast<RankedTensorType>(transpose.getX().getType()) : nullptr;
  bool isFree = !type || transpose.getX().getDefiningOp<graph::ConstantOp>() ||
                keepsOrder(type, transpose.getPermutation());
  return isFree ? graph::TransposeOp() : transpose;
}

/// The permutation of the first operand that is a transposition.
std::optional<SmallVector<int64_t>> transposedBy(ValueRange operands, int64_t rank) {
  for (Value operand : operands)
    if (auto transpose = transpositionOf(operand))
      if (int64_t(transpose.getPermutation().size()) == rank)
        return SmallVector<int64_t>(transpose.getPermutation());
  return std::nullopt;
}

/// Whether moving the operator before a transposition leaves no copy of that behind: all that reads
/// it may be moved as well. A value that a gradient needs has several readers.
bool leavesNoCopy(ValueRange operands) {
  return llvm::any_of(operands, [](Value operand) {
    return transpositionOf(operand) && llvm::all_of(operand.getUsers(), passesTransposition);
  });
}

/// Puts `op` over `operands`, which are as before the transposition, and the transposition behind
/// it.
LogicalResult moveBefore(PatternRewriter &rewriter, Operation *op, ValueRange operands,
                         ArrayRef<int64_t> permutation, ArrayRef<NamedAttribute> changed = {}) {
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  graph::ShapeContext shapes(op->getContext());
  auto dims = shapes.dims(result);
  SmallVector<AffineExpr> before(dims.size());
  for (auto [position, dim] : llvm::enumerate(permutation))
    before[dim] = dims[position];
  Operation *moved = rewriter.clone(*op);
  moved->setOperands(operands);
  for (NamedAttribute attribute : changed)
    moved->setAttr(attribute.getName(), attribute.getValue());
  moved->getResult(0).setType(shapes.tensorType(result.getElementType(), before));
  Value back = transposed(rewriter, op->getLoc(), moved->getResult(0), permutation);
  back.setType(result);
  rewriter.replaceOp(op, back);
  return success();
}

/// f(transpose(x, p), transpose(y, p), c)  ->  transpose(f(x, y, c'), p) where f is element-wise
struct ThroughElementwise : OpInterfaceRewritePattern<graph::Elementwise> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;
  LogicalResult matchAndRewrite(graph::Elementwise op, PatternRewriter &rewriter) const override {
    auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    auto permutation = type ? transposedBy(op->getOperands(), type.getRank()) : std::nullopt;
    if (!permutation || !leavesNoCopy(op->getOperands()))
      return rewriter.notifyMatchFailure(op, "no operand is a transposition that can go");
    // Before anything is built: a pattern that builds and then fails is tried for ever.
    for (Value operand : op->getOperands())
      if (!isUntransposable(operand, *permutation))
        return rewriter.notifyMatchFailure(op, "an operand would have to be transposed");
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(untransposed(rewriter, op->getLoc(), operand, *permutation));
    return moveBefore(rewriter, op, operands, *permutation);
  }
};

/// concat(transpose(x, p), transpose(y, p))  ->  transpose(concat(x, y), p)
struct ThroughConcat : OpRewritePattern<graph::ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::ConcatOp op, PatternRewriter &rewriter) const override {
    auto type = dyn_cast<RankedTensorType>(op.getType());
    auto permutation = type ? transposedBy(op.getInputs(), type.getRank()) : std::nullopt;
    if (!permutation)
      return failure();
    SmallVector<Value> inputs;
    for (Value input : op.getInputs()) {
      auto transpose = input.getDefiningOp<graph::TransposeOp>();
      if (!transpose || transpose.getPermutation() != ArrayRef(*permutation))
        return rewriter.notifyMatchFailure(op, "inputs are not transposed alike");
      inputs.push_back(transpose.getX());
    }
    return moveBefore(
        rewriter, op, inputs, *permutation,
        {rewriter.getNamedAttr("axis", rewriter.getI64IntegerAttr((*permutation)[op.getAxis()]))});
  }
};

/// pad(transpose(x, p))  ->  transpose(pad(x), p)
struct ThroughPad : OpRewritePattern<graph::PadOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::PadOp op, PatternRewriter &rewriter) const override {
    graph::TransposeOp transpose = transpositionOf(op.getX());
    if (!transpose || !leavesNoCopy(op.getX()))
      return failure();
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    SmallVector<int64_t> low(permutation.size()), high(permutation.size());
    for (auto [position, dim] : llvm::enumerate(permutation)) {
      low[dim] = op.getLow()[position];
      high[dim] = op.getHigh()[position];
    }
    return moveBefore(rewriter, op, {transpose.getX(), op.getValue()},
                      SmallVector<int64_t>(permutation),
                      {rewriter.getNamedAttr("low", rewriter.getDenseI64ArrayAttr(low)),
                       rewriter.getNamedAttr("high", rewriter.getDenseI64ArrayAttr(high))});
  }
};

/// dynamic_pad(transpose(x, p), pads)  ->  transpose(dynamic_pad(x, pads in x's order), p)
struct ThroughDynamicPad : OpRewritePattern<graph::DynamicPadOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::DynamicPadOp op, PatternRewriter &rewriter) const override {
    graph::TransposeOp transpose = transpositionOf(op.getX());
    if (!transpose || !leavesNoCopy(op.getX()) || !isa<NoneType>(op.getAxes().getType()))
      return failure();
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    auto rank = int64_t(permutation.size());
    std::vector<int64_t> order(2 * rank);
    for (auto [position, dim] : llvm::enumerate(permutation)) {
      order[dim] = int64_t(position);
      order[dim + rank] = int64_t(position) + rank;
    }
    graph::ShapeContext shapes(op.getContext());
    graph::GraphBuilder graph(rewriter, shapes, op.getLoc());
    Value places = graph.constant(HostTensor::of<int64_t>(DataType::I64, {2 * rank}, order));
    Value pads = graph::GraphBuilder::first(
        graph.create("graph.gather", {op.getPads(), places},
                     graph.named("axis", rewriter.getI64IntegerAttr(0))));
    if (!pads)
      return failure();
    return moveBefore(rewriter, op, {transpose.getX(), pads, op.getValue(), op.getAxes()},
                      SmallVector<int64_t>(permutation), {});
  }
};

/// slice(transpose(x, p))  ->  transpose(slice(x), p)
struct ThroughSlice : OpRewritePattern<graph::SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::SliceOp op, PatternRewriter &rewriter) const override {
    graph::TransposeOp transpose = transpositionOf(op.getX());
    if (!transpose || !leavesNoCopy(op.getX()))
      return failure();
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    SmallVector<int64_t> starts(permutation.size()), steps(permutation.size());
    for (auto [position, dim] : llvm::enumerate(permutation)) {
      starts[dim] = op.getStarts()[position];
      steps[dim] = op.getSteps()[position];
    }
    return moveBefore(rewriter, op, transpose.getX(), SmallVector<int64_t>(permutation),
                      {rewriter.getNamedAttr("starts", rewriter.getDenseI64ArrayAttr(starts)),
                       rewriter.getNamedAttr("steps", rewriter.getDenseI64ArrayAttr(steps))});
  }
};

/// shape(transpose(x, p))  ->  gather(shape(x), p), and the number of elements is x's: what a mean
/// divides by where sizes are open, as of squeezed images, keeps no transposition.
struct ShapeOfTranspose : OpRewritePattern<graph::ShapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::ShapeOp op, PatternRewriter &rewriter) const override {
    graph::TransposeOp transpose = transpositionOf(op.getX());
    auto type = cast<RankedTensorType>(op.getType());
    if (!transpose || !type.hasStaticShape())
      return failure();
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    auto rank = int64_t(permutation.size()), start = int64_t(op.getStart());
    start = std::clamp<int64_t>(start < 0 ? start + rank : start, 0, rank);
    ArrayRef<int64_t> dims = permutation.slice(size_t(start), size_t(type.getDimSize(0)));
    graph::ShapeContext shapes(op.getContext());
    graph::GraphBuilder graph(rewriter, shapes, op.getLoc());
    auto shapeOf = [&](int64_t first, int64_t end) {
      return graph::GraphBuilder::first(
          graph.create("graph.shape", transpose.getX(),
                       {graph.named("start", rewriter.getI64IntegerAttr(first)),
                        graph.named("end", rewriter.getI64IntegerAttr(end))}));
    };
    Value y;
    if (dims.size() == 1) {
      y = shapeOf(dims[0], dims[0] + 1);
    } else {
      Value places =
          graph.constant(HostTensor::of<int64_t>(DataType::I64, {int64_t(dims.size())}, dims));
      y = graph::GraphBuilder::first(
          graph.create("graph.gather", {shapeOf(0, rank), places},
                       graph.named("axis", rewriter.getI64IntegerAttr(0))));
    }
    rewriter.replaceOp(op, y);
    return success();
  }
};

struct SizeOfTranspose : OpRewritePattern<graph::SizeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::SizeOp op, PatternRewriter &rewriter) const override {
    graph::TransposeOp transpose = transpositionOf(op.getX());
    if (!transpose)
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.getXMutable().assign(transpose.getX()); });
    return success();
  }
};

/// broadcast(transpose(x, p))  ->  transpose(broadcast(x), p), of as many dimensions: what may be
/// of size 1, and only the run knows
struct ThroughBroadcast : OpRewritePattern<graph::BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::BroadcastOp op, PatternRewriter &rewriter) const override {
    graph::TransposeOp transpose = transpositionOf(op.getX());
    if (!transpose || !passesTransposition(op) || !leavesNoCopy(op.getX()))
      return failure();
    return moveBefore(rewriter, op, transpose.getX(),
                      SmallVector<int64_t>(transpose.getPermutation()));
  }
};

/// gather(transpose(x, p), vector)  ->  transpose(gather(x, vector), p), of what decompositions
/// place along a dimension
struct ThroughGather : OpRewritePattern<graph::GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::GatherOp op, PatternRewriter &rewriter) const override {
    graph::TransposeOp transpose = transpositionOf(op.getX());
    if (!transpose || !passesTransposition(op) || !leavesNoCopy(op.getX()))
      return failure();
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    return moveBefore(
        rewriter, op, {transpose.getX(), op.getIndices()}, SmallVector<int64_t>(permutation),
        {rewriter.getNamedAttr("axis", rewriter.getI64IntegerAttr(permutation[op.getAxis()]))});
  }
};

/// reduce(transpose(x, p))  ->  transpose(reduce(x), q), of the dimensions that stay
template <typename Op> struct ThroughReduce : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    graph::TransposeOp transpose = transpositionOf(op.getX());
    if (!transpose || !leavesNoCopy(op.getX()))
      return failure();
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    SmallVector<int64_t> axes, kept;
    for (int64_t axis : op.getAxes())
      axes.push_back(permutation[axis]);
    llvm::sort(axes);
    for (auto [position, dim] : llvm::enumerate(permutation))
      if (op.getKeepdims() || !llvm::is_contained(op.getAxes(), int64_t(position)))
        kept.push_back(dim);
    // The numbers of the dimensions that stay, among themselves.
    SmallVector<int64_t> sorted(kept), order;
    llvm::sort(sorted);
    for (int64_t dim : kept)
      order.push_back(llvm::find(sorted, dim) - sorted.begin());
    return moveBefore(rewriter, op, transpose.getX(), order,
                      {rewriter.getNamedAttr("axes", rewriter.getDenseI64ArrayAttr(axes))});
  }
};

/// Channels that a convolution's rows lack to whole steps of products that are added up at once.
int64_t missingChannels(graph::ConvOp conv, const kernel::Machine &machine) {
  auto w = cast<RankedTensorType>(conv.getW().getType());
  Type sum = getElementTypeOrSelf(conv.getType());
  int64_t step =
      kernel::stepOf(machine, getElementTypeOrSelf(conv.getX().getType()), w.getElementType(), sum);
  int64_t missing = 0;
  while ((w.getDimSize(1) + missing) * w.getShape().back() % step)
    ++missing;
  return conv.getW().getDefiningOp<graph::ConstantOp>() ? missing : 0;
}

/// conv(x) of few channels  ->  conv(pad(x)) without padding of its own
///
/// Then a row of the window lies in memory in one piece, and the kernel reads it in place, by whole
/// steps; the image is small, since its channels are few.
void separatePadding(graph::ConvOp conv, OpBuilder &builder, const Options &options) {
  auto w = dyn_cast<RankedTensorType>(conv.getW().getType());
  if (!graph::isChannelsLast(conv) || !w || !w.hasStaticShape() ||
      w.getDimSize(1) >= kernel::kFewChannels || w.getNumElements() == 0)
    return;
  size_t spatial = conv.getStrides().size();
  SmallVector<int64_t> low{0}, high{0}, pads(conv.getPads()), none(2 * spatial, 0);
  conv.setPads(none);
  int64_t missing = missingChannels(conv, options.machine);
  if ((pads == none && !missing) || !kernel::readsWholeRows(conv))
    return conv.setPads(pads);
  llvm::append_range(low, ArrayRef(pads).take_front(spatial));
  llvm::append_range(high, ArrayRef(pads).drop_front(spatial));
  low.push_back(0);
  high.push_back(missing);
  builder.setInsertionPoint(conv);
  graph::ShapeContext shapes(conv.getContext());
  graph::GraphBuilder graph(builder, shapes, conv.getLoc());
  auto padded = [&](Value value, ArrayRef<int64_t> low, ArrayRef<int64_t> high) {
    return graph::GraphBuilder::first(
        graph.create("pad", {value, graph.none()},
                     {graph.named("low", builder.getDenseI64ArrayAttr(low)),
                      graph.named("high", builder.getDenseI64ArrayAttr(high))}));
  };
  conv.getXMutable().assign(padded(conv.getX(), low, high));
  if (!missing)
    return;
  SmallVector<int64_t> before(2 + spatial, 0), behind(2 + spatial, 0);
  behind[1] = missing;
  conv.getWMutable().assign(padded(conv.getW(), before, behind));
}

} // namespace

LogicalResult chooseLayout(func::FuncOp function, const Options &options) {
  MLIRContext *context = function.getContext();
  for (Operation *pool : poolsChannelsFirst(function, options))
    pool->setAttr(kStaysFirst, UnitAttr::get(context));
  RewritePatternSet patterns(context);
  if (options.machine.images == graph::kChannelsLast)
    patterns.add<ToChannelsLast<graph::ConvOp>, ToChannelsLast<graph::MaxPoolOp>,
                 ToChannelsLast<graph::AveragePoolOp>, ToChannelsLast<graph::LpPoolOp>>(context);
  patterns.add<ThroughElementwise, ThroughConcat, ThroughPad, ThroughDynamicPad, ThroughSlice,
               ShapeOfTranspose, SizeOfTranspose, ThroughBroadcast, ThroughGather,
               ThroughReduce<graph::ReduceSumOp>, ThroughReduce<graph::ReduceMaxOp>,
               ThroughReduce<graph::ReduceMinOp>, ThroughReduce<graph::ReduceProdOp>>(context);
  addSimplifyPatterns(patterns);
  GreedyRewriteConfig config;
  config.enableRegionSimplification = GreedySimplifyRegionLevel::Disabled;
  if (failed(applyPatternsAndFoldGreedily(function, std::move(patterns), config)))
    return failure();
  function.walk([](Operation *op) { op->removeDiscardableAttr(kStaysFirst); });
  OpBuilder builder(context);
  function.walk([&](graph::ConvOp conv) { separatePadding(conv, builder, options); });
  return success();
}

} // namespace tensmith::rewrite

// Packing of right operands, and the way back; see RightOperand.h.
#include "compiler/rewrite/RightOperand.h"

#include "compiler/kernel/Blocking.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/DepthwiseKernel.h"
#include "compiler/kernel/MatrixTile.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

bool isDepthwise(Operation *root) {
  auto conv = dyn_cast<graph::ConvOp>(root);
  return conv && kernel::isDepthwise(conv);
}

bool takesGroups(Operation *root, const kernel::Machine &machine) {
  auto conv = dyn_cast<graph::ConvOp>(root);
  return conv && (kernel::takesSmallGroups(conv) || kernel::takesPairsOfGroups(conv, machine));
}

Type accumulator(Operation *root) {
  return graph::kernelElementType(getElementTypeOrSelf(root->getResult(0).getType()));
}

/// Products that are added up at once.
int64_t stepOf(Operation *root, const Options &options) {
  auto right = cast<RankedTensorType>(root->getOperand(1).getType());
  bool isConv = isa<graph::ConvOp>(root);
  if (!isConv && right.isDynamicDim(right.getRank() - 2))
    return 1;
  return kernel::stepOf(options.machine, root);
}

/// pack(transpose(b))  ->  pack transposed(b) where the last two dimensions change places
Value pack(graph::GraphBuilder &graph, Value matrix, int64_t width) {
  auto transpose = matrix.getDefiningOp<graph::TransposeOp>();
  bool turned = transpose && kernel::swapsLast(transpose);
  if (turned)
    matrix = transpose.getX();
  return graph::GraphBuilder::first(
      graph.create("pack", matrix,
                   {graph.named("width", graph.builder.getI64IntegerAttr(width)),
                    graph.named("transposed", graph.builder.getBoolAttr(turned))}));
}

Type interleavedType(graph::ShapeContext &shapes, RankedTensorType matrix, int64_t step,
                     int64_t multiple) {
  auto dims = shapes.dims(matrix);
  size_t rank = dims.size();
  int64_t rows = int64_t(llvm::alignTo(matrix.getDimSize(rank - 2), multiple));
  dims[rank - 2] = shapes.constant(rows / step);
  dims[rank - 1] = shapes.simplify(dims[rank - 1] * step);
  return shapes.tensorType(matrix.getElementType(), dims);
}

RankedTensorType matrixTypeOf(graph::ConvOp conv) {
  auto w = cast<RankedTensorType>(conv.getW().getType());
  int64_t groups = conv.getGroup(), depth = ShapedType::getNumElements(w.getShape().drop_front());
  return RankedTensorType::get({groups, depth, w.getDimSize(0) / groups}, w.getElementType());
}

RankedTensorType smallGroupsType(graph::ConvOp conv) {
  auto w = cast<RankedTensorType>(conv.getW().getType());
  return RankedTensorType::get(
      {ShapedType::getNumElements(w.getShape().drop_front()), w.getDimSize(0)}, w.getElementType());
}

/// Of a panel: those that there are (of a group's, which are panels of their own), where these are
/// fewer than a register tile is wide.
int64_t widthOfPanels(Value matrix, int64_t tile, int64_t lanes) {
  int64_t columns = cast<RankedTensorType>(matrix.getType()).getShape().back();
  if (ShapedType::isDynamic(columns) || columns == 0)
    return tile;
  return std::min(tile, int64_t(llvm::alignTo(columns, lanes)));
}

} // namespace

RightOperand::RightOperand(Operation *root, OpBuilder &builder, Location location,
                           const Options &options, const kernel::Point &asked)
    : root_(root) {
  graph::ShapeContext shapes(root->getContext());
  graph::GraphBuilder graph(builder, shapes, location);
  smallGroups_ = takesGroups(root, options.machine);
  if (isDepthwise(root)) {
    laidOut_ = kernel::depthwiseWeightsAsTaps(graph, root->getOperand(1));
  } else if (smallGroups_) {
    multiple_ = step_ = kernel::stepOfGroups(options.machine, cast<graph::ConvOp>(root));
    laidOut_ = packed(graph, kernel::smallGroupsAsMatrix(graph, kernel::storedRight(root)),
                      options.machine.lanes(sizeof(float)));
  } else {
    step_ = stepOf(root, options);
    auto conv = dyn_cast<graph::ConvOp>(root);
    Value right = kernel::storedRight(root);
    Value matrix = conv ? kernel::weightsAsMatrix(graph, conv, right) : right;
    int64_t bytes = accumulator(root).getIntOrFloatBitWidth() / 8;
    int64_t width = kernel::panelWidth(options.machine, bytes, asked);
    multiple_ = step_;
    bool isAsked = asked[kernel::choice::panelVectors].has_value();
    if (asked[kernel::choice::matrixUnit].value_or(!isAsked) &&
        kernel::suitsMatrixUnit(options.machine, root)) {
      width = kernel::MatrixTile::kColumns;
      multiple_ = kernel::productsOfTile(step_);
    }
    if (!isAsked)
      width = widthOfPanels(matrix, width, options.machine.lanes(bytes));
    laidOut_ = packed(graph, matrix, width);
  }
  if (Value constant = foldedConstant(laidOut_, builder))
    laidOut_ = constant;
}

Value RightOperand::packed(graph::GraphBuilder &graph, Value matrix, int64_t width) const {
  if (step_ == 1)
    return pack(graph, matrix, width);
  return pack(graph, kernel::interleaved(graph, matrix, step_, multiple_), width * step_);
}

Value RightOperand::restored(OpBuilder &inside, Value argument) const {
  graph::ShapeContext shapes(root_->getContext());
  graph::GraphBuilder graph(inside, shapes, root_->getLoc());
  if (isDepthwise(root_))
    return kernel::tapsAsDepthwiseWeights(graph, cast<graph::ConvOp>(root_), argument);
  Value right = root_->getOperand(1);
  auto conv = dyn_cast<graph::ConvOp>(root_);
  Type element = getElementTypeOrSelf(kernel::storedRight(root_).getType());
  auto matrixType = smallGroups_ ? smallGroupsType(conv)
                    : conv       ? matrixTypeOf(conv)
                                 : cast<RankedTensorType>(right.getType());
  matrixType = cast<RankedTensorType>(matrixType.clone(element));
  Type linesType = step_ == 1 ? matrixType : interleavedType(shapes, matrixType, step_, multiple_);
  int64_t columns = cast<RankedTensorType>(linesType).getShape().back();
  Value matrix = graph::GraphBuilder::first(graph.createTyped(
      "unpack", linesType, argument,
      graph.named("columns",
                  inside.getI64IntegerAttr(ShapedType::isDynamic(columns) ? -1 : columns))));
  if (step_ > 1)
    matrix = kernel::deinterleaved(graph, matrix, step_,
                                   matrixType.getDimSize(matrixType.getRank() - 2));
  if (smallGroups_)
    matrix = kernel::matrixAsSmallGroups(graph, conv, matrix);
  else if (conv)
    matrix = kernel::matrixAsWeights(graph, conv, matrix);
  return graph.cast(matrix, getElementTypeOrSelf(right.getType()));
}

} // namespace tensmith::rewrite

// Packing of right operands, and the way back; see RightOperand.h.
#include "compiler/targets/cpu/templates/RightOperand.h"

#include "compiler/kernel/Contraction.h"
#include "compiler/targets/cpu/templates/MatrixTile.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

bool takesGroups(Operation *root, const Machine &machine) {
  auto conv = dyn_cast<graph::ConvOp>(root);
  return conv && (takesSmallGroups(conv) || takesPairsOfGroups(conv, machine));
}

Type accumulator(Operation *root) {
  return graph::kernelElementType(getElementTypeOrSelf(root->getResult(0).getType()));
}

/// Products that are added up at once.
int64_t stepOfRight(Operation *root, const Machine &machine) {
  auto right = cast<RankedTensorType>(root->getOperand(1).getType());
  bool isConv = isa<graph::ConvOp>(root);
  if (!isConv && right.isDynamicDim(right.getRank() - 2))
    return 1;
  return stepOf(machine, root);
}

/// pack(transpose(b))  ->  pack transposed(b) where the last two dimensions change places
/// pack(b)             ->  reshape(b) where its columns are one panel: nothing changes its place
Value pack(graph::GraphBuilder &graph, Value matrix, int64_t width) {
  auto transpose = matrix.getDefiningOp<graph::TransposeOp>();
  bool turned = transpose && swapsLast(transpose);
  if (turned)
    matrix = transpose.getX();
  auto dims = graph.shapes.dims(matrix.getType());
  if (!turned && dims.back() == graph.shapes.constant(width)) {
    dims.insert(dims.end() - 2, graph.shapes.constant(1));
    return graph.reshape(matrix, dims);
  }
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

/// How a matrix lies in panels.
struct Panels {
  int64_t step = 1;     // products that are added up at once
  int64_t multiple = 1; // to which rows are filled up
  int64_t width = 0;    // columns of a panel
};

Value inPanels(graph::GraphBuilder &graph, Value matrix, const Panels &panels) {
  if (panels.step == 1)
    return pack(graph, matrix, panels.width);
  return pack(graph, interleaved(graph, matrix, panels.step, panels.multiple),
              panels.width * panels.step);
}

/// The matrix of that type.
Value fromPanels(graph::GraphBuilder &graph, Value panels, RankedTensorType matrix,
                 const Panels &of) {
  Type lines = of.step == 1 ? matrix : interleavedType(graph.shapes, matrix, of.step, of.multiple);
  int64_t columns = cast<RankedTensorType>(lines).getShape().back();
  auto count = graph.builder.getI64IntegerAttr(ShapedType::isDynamic(columns) ? -1 : columns);
  Value restored = graph::GraphBuilder::first(
      graph.createTyped("unpack", lines, panels, graph.named("columns", count)));
  return of.step == 1
             ? restored
             : deinterleaved(graph, restored, of.step, matrix.getDimSize(matrix.getRank() - 2));
}

/// Of a product or a convolution, as the machine multiplies them and the point asks for it.
Panels panelsOf(Operation *root, Value matrix, const Machine &machine, const Point &asked) {
  int64_t bytes = accumulator(root).getIntOrFloatBitWidth() / 8;
  Panels panels{.step = stepOfRight(root, machine), .width = panelWidth(machine, bytes, asked)};
  panels.multiple = panels.step;
  bool isAsked = asked[choice::panelVectors].has_value();
  if (asked[choice::matrixUnit].value_or(!isAsked) && suitsMatrixUnit(machine, root)) {
    panels.width = MatrixTile::kColumns;
    panels.multiple = productsOfTile(panels.step);
  }
  if (!isAsked)
    panels.width = widthOfPanels(matrix, panels.width, machine.lanes(bytes));
  return panels;
}

/// A function that restores the operand of the root, in a builder of its own.
template <typename Restore> LaidOut laidOut(Operation *root, Value value, Restore restore) {
  return {value, [root, restore](OpBuilder &inside, Value argument) {
            graph::ShapeContext shapes(root->getContext());
            graph::GraphBuilder graph(inside, shapes, root->getLoc());
            return graph.cast(restore(graph, argument),
                              getElementTypeOrSelf(root->getOperand(1).getType()));
          }};
}

LaidOut layOutTaps(graph::ConvOp conv, graph::GraphBuilder &graph) {
  return laidOut(conv, depthwiseWeightsAsTaps(graph, conv.getW()),
                 [conv](graph::GraphBuilder &inside, Value taps) {
                   return tapsAsDepthwiseWeights(inside, conv, taps);
                 });
}

LaidOut layOutSmallGroups(graph::ConvOp conv, graph::GraphBuilder &graph, const Machine &machine) {
  int64_t step = stepOfGroups(machine, conv);
  Panels panels{step, step, machine.lanes(sizeof(float))};
  Value right = storedRight(conv);
  auto type =
      cast<RankedTensorType>(smallGroupsType(conv).clone(getElementTypeOrSelf(right.getType())));
  return laidOut(conv, inPanels(graph, smallGroupsAsMatrix(graph, right), panels),
                 [=](graph::GraphBuilder &inside, Value argument) {
                   return matrixAsSmallGroups(inside, conv,
                                              fromPanels(inside, argument, type, panels));
                 });
}

} // namespace

LaidOut layOutRight(Operation *root, graph::GraphBuilder &graph, const Machine &machine,
                    const Point &asked) {
  auto conv = dyn_cast<graph::ConvOp>(root);
  if (conv && isDepthwise(conv))
    return layOutTaps(conv, graph);
  if (takesGroups(root, machine))
    return layOutSmallGroups(conv, graph, machine);
  Value right = storedRight(root);
  Value matrix = conv ? weightsAsMatrix(graph, conv, right) : right;
  auto type = conv ? matrixTypeOf(conv) : cast<RankedTensorType>(right.getType());
  type = cast<RankedTensorType>(type.clone(getElementTypeOrSelf(right.getType())));
  Panels panels = panelsOf(root, matrix, machine, asked);
  return laidOut(root, inPanels(graph, matrix, panels),
                 [=](graph::GraphBuilder &inside, Value argument) {
                   Value restored = fromPanels(inside, argument, type, panels);
                   return conv ? matrixAsWeights(inside, conv, restored) : restored;
                 });
}

} // namespace tensmith::kernel

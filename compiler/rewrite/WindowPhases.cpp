// Images dealt out and put together; see WindowPhases.h.
#include "compiler/rewrite/WindowPhases.h"

#include "compiler/graph/Graph.h"

using namespace mlir;

namespace tensmith::rewrite {

SmallVector<AffineExpr, 2> WindowPhases::extentsOf(graph::ShapeContext &shapes,
                                                   ArrayRef<AffineExpr> image) const {
  SmallVector<AffineExpr, 2> extents;
  for (auto [size, dilation] : llvm::zip_equal(image, dilations))
    extents.push_back(shapes.simplify(size.ceilDiv(dilation)));
  return extents;
}

Value WindowPhases::split(graph::GraphBuilder &graph, Value image, ArrayRef<int64_t> pads,
                          ArrayRef<AffineExpr> extents) const {
  auto &shapes = graph.shapes;
  auto dims = shapes.dims(image.getType());
  SmallVector<int64_t> low{0, pads[0], pads[1], 0}, high{0, 0, 0, 0};
  SmallVector<AffineExpr> whole(dims), apart{dims[0]},
      together{dims[0] * (dilations[0] * dilations[1])};
  for (size_t dim = 0; dim < 2; ++dim) {
    AffineExpr size = extents[dim] + (taps - 1);
    whole[1 + dim] = shapes.simplify(size * dilations[dim]);
    // What fills the phases of an image of open size is less than a dilation; the rest is cut off.
    auto rest =
        dyn_cast<AffineConstantExpr>(shapes.simplify(whole[1 + dim] - dims[1 + dim] - pads[dim]));
    high[1 + dim] = rest ? rest.getValue() : pads[2 + dim] + dilations[dim] - 1;
    apart.append({size, shapes.constant(dilations[dim])});
    together.push_back(size);
  }
  apart.push_back(dims[3]);
  together.push_back(dims[3]);
  Value padded = graph::GraphBuilder::first(
      graph.create("pad", {image, graph.none()},
                   {graph.named("low", graph.builder.getDenseI64ArrayAttr(low)),
                    graph.named("high", graph.builder.getDenseI64ArrayAttr(high))}));
  if (padded && shapes.dims(padded.getType()) != whole)
    padded = graph.slice(padded, {0, 0, 0, 0}, {1, 1, 1, 1}, whole);
  return graph.reshape(graph.transpose(graph.reshape(padded, apart), {0, 2, 4, 1, 3, 5}), together);
}

Value WindowPhases::join(graph::GraphBuilder &graph, Value phases,
                         ArrayRef<AffineExpr> image) const {
  auto constant = [&](int64_t size) { return graph.shapes.constant(size); };
  auto dims = graph.shapes.dims(phases.getType());
  AffineExpr images = graph.shapes.simplify(dims[0].floorDiv(dilations[0] * dilations[1]));
  Value apart = graph.reshape(
      phases, {images, constant(dilations[0]), constant(dilations[1]), dims[1], dims[2], dims[3]});
  Value whole = graph.reshape(graph.transpose(apart, {0, 3, 1, 4, 2, 5}),
                              {images, dims[1] * dilations[0], dims[2] * dilations[1], dims[3]});
  return graph.slice(whole, {0, 0, 0, 0}, {1, 1, 1, 1}, {images, image[0], image[1], dims[3]});
}

} // namespace tensmith::rewrite

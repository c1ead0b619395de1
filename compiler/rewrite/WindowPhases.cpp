// Images dealt out and put together; see WindowPhases.h.
#include "compiler/rewrite/WindowPhases.h"

#include "compiler/graph/Graph.h"

using namespace mlir;

namespace tensmith::rewrite {

Value WindowPhases::split(graph::GraphBuilder &graph, Value image, ArrayRef<int64_t> pads) const {
  auto constant = [&](int64_t size) { return graph.shapes.constant(size); };
  auto dims = graph.shapes.dims(image.getType());
  auto type = cast<RankedTensorType>(image.getType());
  SmallVector<int64_t> low{0, pads[0], pads[1], 0}, high{0, 0, 0, 0};
  SmallVector<AffineExpr> apart{dims[0]}, together{dims[0] * (dilations[0] * dilations[1])};
  for (size_t dim = 0; dim < 2; ++dim) {
    int64_t size = sizes[dim] + taps - 1;
    high[dim + 1] = size * dilations[dim] - pads[dim] - type.getDimSize(int64_t(dim) + 1);
    apart.append({constant(size), constant(dilations[dim])});
    together.push_back(constant(size));
  }
  apart.push_back(dims[3]);
  together.push_back(dims[3]);
  Value padded = graph::GraphBuilder::first(
      graph.create("pad", {image, graph.none()},
                   {graph.named("low", graph.builder.getDenseI64ArrayAttr(low)),
                    graph.named("high", graph.builder.getDenseI64ArrayAttr(high))}));
  return graph.reshape(graph.transpose(graph.reshape(padded, apart), {0, 2, 4, 1, 3, 5}), together);
}

Value WindowPhases::join(graph::GraphBuilder &graph, Value phases, ArrayRef<int64_t> image) const {
  auto constant = [&](int64_t size) { return graph.shapes.constant(size); };
  auto dims = graph.shapes.dims(phases.getType());
  AffineExpr images = graph.shapes.simplify(dims[0].floorDiv(dilations[0] * dilations[1]));
  Value apart = graph.reshape(
      phases, {images, constant(dilations[0]), constant(dilations[1]), dims[1], dims[2], dims[3]});
  Value whole = graph.reshape(
      graph.transpose(apart, {0, 3, 1, 4, 2, 5}),
      {images, constant(sizes[0] * dilations[0]), constant(sizes[1] * dilations[1]), dims[3]});
  return graph.slice(whole, {0, 0, 0, 0}, {1, 1, 1, 1},
                     {images, constant(image[0]), constant(image[1]), dims[3]});
}

} // namespace tensmith::rewrite

// Videos as images; see WindowFrames.h.
#include "compiler/rewrite/WindowFrames.h"

#include "compiler/graph/Graph.h"

using namespace mlir;

namespace tensmith::rewrite {

Value WindowFrames::split(graph::GraphBuilder &graph, Value video) const {
  auto dims = graph.shapes.dims(video.getType());
  if (isPadded()) {
    SmallVector<int64_t> low(dims.size(), 0), high(dims.size(), 0);
    high[1] = 1;
    video = graph::GraphBuilder::first(
        graph.create("pad", {video, graph.none()},
                     {graph.named("low", graph.builder.getDenseI64ArrayAttr(low)),
                      graph.named("high", graph.builder.getDenseI64ArrayAttr(high))}));
  }
  return graph.reshape(video,
                       {graph.shapes.simplify(dims[0] * images()), dims[2], dims[3], dims[4]});
}

Value WindowFrames::rowsUnderWindows(graph::GraphBuilder &graph, Value planes,
                                     int64_t rowsOfImage) const {
  if (!isNeeded())
    return planes;
  auto constant = [&](int64_t size) { return graph.shapes.constant(size); };
  auto dims = graph.shapes.dims(planes.getType());
  AffineExpr videos = graph.shapes.simplify(dims[1].floorDiv(images() * rowsOfImage));
  HostTensor frames(DataType::I64, {output, taps});
  for (int64_t frame = 0; frame < output; ++frame)
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t read = frame + tap * dilation - pad;
      frames.setInt(frame * taps + tap, read >= 0 && read < input ? read : input);
    }
  Value apart =
      graph.reshape(planes, {dims[0], videos, constant(images()), constant(rowsOfImage), dims[2]});
  constexpr int64_t kFrames = 2;
  Value windows = graph::GraphBuilder::first(
      graph.create("gather", {apart, graph.constant(frames)},
                   graph.named("axis", graph.builder.getI64IntegerAttr(kFrames))));
  Value rows = graph.transpose(windows, {0, 1, 2, 4, 3, 5});
  return graph.reshape(rows, {dims[0], graph.shapes.simplify(videos * (output * rowsOfImage)),
                              graph.shapes.simplify(dims[2] * taps)});
}

Value WindowFrames::weights(graph::GraphBuilder &graph, Value weights) const {
  auto dims = graph.shapes.dims(weights.getType());
  Value turned = graph.transpose(weights, {0, 2, 1, 3, 4});
  return graph.reshape(turned, {dims[0], graph.shapes.simplify(dims[1] * taps), dims[3], dims[4]});
}

Value WindowFrames::join(graph::GraphBuilder &graph, Value images) const {
  auto dims = graph.shapes.dims(images.getType());
  return graph.reshape(images, {graph.shapes.simplify(dims[0].floorDiv(output)),
                                graph.shapes.constant(output), dims[1], dims[2], dims[3]});
}

} // namespace tensmith::rewrite

// Convolutions of stride 1 with small square windows become matrix products over frequencies where
// that is estimated to be faster (the records winograd_* of the graph dialect, base/ToomCook.h).
//
// Minimal filtering trades multiplications for memory: planes of transformed tiles are written and
// read again, and the weights grow by size^2 / taps^2. Where an image is small, or a layer has
// little but weights, the plain convolution wins; the estimate below counts both sides in cycles of
// one core.
#include "base/ToomCook.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/rewrite/Rewrites.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// The output tiles that are tried. Larger ones save little more and lose accuracy: fp32's error
/// grows with the size of the transforms (Barabasz et al., 2020).
constexpr int64_t kOutputs[] = {2, 4};

/// Sizes of a convolution that may be transformed.
struct Layer {
  int64_t images, height, width; // of the output
  int64_t in, out, taps;
};

std::optional<Layer> layerOf(graph::ConvOp conv) {
  auto x = dyn_cast<RankedTensorType>(conv.getX().getType());
  auto w = dyn_cast<RankedTensorType>(conv.getW().getType());
  auto y = dyn_cast<RankedTensorType>(conv.getType());
  bool fits = x && w && y && x.getRank() == 4 && conv.getChannelsLast() && conv.getGroup() == 1 &&
              y.getElementType().isF32() && x.getElementType().isF32() && w.hasStaticShape() &&
              w.getDimSize(2) == w.getDimSize(3) && w.getDimSize(2) > 1 &&
              llvm::all_of(conv.getStrides(), [](int64_t stride) { return stride == 1; }) &&
              llvm::all_of(conv.getDilations(), [](int64_t dilation) { return dilation == 1; }) &&
              llvm::none_of(y.getShape().drop_front(), ShapedType::isDynamic) &&
              llvm::none_of(x.getShape().drop_front(), ShapedType::isDynamic);
  if (!fits)
    return std::nullopt;
  int64_t images = y.isDynamicDim(0) ? 1 : y.getDimSize(0);
  return Layer{images,          y.getDimSize(1), y.getDimSize(2),
               w.getDimSize(1), w.getDimSize(0), w.getDimSize(2)};
}

class Estimate {
public:
  Estimate(const kernel::MachineShape &machine, const Layer &layer)
      : machine_(machine), layer_(layer) {}

  double direct() const {
    double positions = double(layer_.images) * double(layer_.height) * double(layer_.width);
    return product(1, positions, double(layer_.taps * layer_.taps * layer_.in));
  }

  double winograd(int64_t outputs) const {
    double tiles = double(layer_.images) * double(llvm::divideCeil(layer_.height, outputs)) *
                   double(llvm::divideCeil(layer_.width, outputs));
    double size = double(outputs + layer_.taps - 1), planes = size * size;
    // Each plane is written, and read where it is used next.
    double channels = double(layer_.in + layer_.out);
    double traffic = 2 * planes * tiles * channels * sizeof(float);
    double bytesPerCycle = traffic / 2 < double(machine_.l2Bytes) ? machine_.nearBytesPerCycle
                                                                  : machine_.farBytesPerCycle;
    // Of a vector in a tile: a load or store for each element, a spill of half of them, and two
    // multiplications by a matrix of which about a third are zeros.
    double vectors = tiles * channels / double(machine_.lanes(sizeof(float)));
    double transforms = vectors * planes * (kAccessesOfElement + 2 * size * 2 / 3 / kFmaPerCycle);
    return product(planes, tiles, double(layer_.in)) + traffic / bytesPerCycle + transforms;
  }

private:
  static constexpr double kFmaPerCycle = 2;
  static constexpr double kAccessesOfElement = 1.5;
  static constexpr double kEfficiency = 0.9; // of the products, against the peak

  /// `batch` products of [rows, depth] by [depth, layer.out].
  double product(double batch, double rows, double depth) const {
    double columns = double(layer_.out);
    double arithmetic =
        batch * rows * columns * depth / (kFmaPerCycle * double(machine_.lanes(sizeof(float))));
    double weights = batch * depth * columns * sizeof(float) / machine_.farBytesPerCycle;
    return std::max(arithmetic / kEfficiency, weights);
  }

  const kernel::MachineShape &machine_;
  const Layer &layer_;
};

/// The tile that is estimated to be fastest; none where the plain convolution is.
std::optional<int64_t> chooseOutputs(const kernel::MachineShape &machine, const Layer &layer) {
  Estimate estimate(machine, layer);
  std::optional<int64_t> best;
  double least = estimate.direct();
  for (int64_t outputs : kOutputs) {
    if (!hasToomCook(outputs, layer.taps))
      continue;
    if (double cycles = estimate.winograd(outputs); cycles < least) {
      least = cycles;
      best = outputs;
    }
  }
  return best;
}

void transform(graph::ConvOp conv, const Layer &layer, int64_t outputs, Value weights) {
  OpBuilder builder(conv);
  graph::ShapeContext shapes(conv.getContext());
  graph::GraphBuilder graph(builder, shapes, conv.getLoc());
  SmallVector<NamedAttribute> tile{graph.named("outputs", builder.getI64IntegerAttr(outputs)),
                                   graph.named("taps", builder.getI64IntegerAttr(layer.taps))};
  auto with = [&](NamedAttribute attribute) {
    SmallVector<NamedAttribute> all(tile);
    all.push_back(attribute);
    return all;
  };
  Value planes = graph::GraphBuilder::first(
      graph.create("winograd_input", conv.getX(),
                   with(graph.named("pads", builder.getDenseI64ArrayAttr(conv.getPads())))));
  Value products = graph.binary("matmul", planes, weights);
  Value y = graph::GraphBuilder::first(graph.create(
      "winograd_output", {products, conv.getBias()},
      with(graph.named("image", builder.getDenseI64ArrayAttr({layer.height, layer.width})))));
  y.setType(conv.getType());
  conv.getResult().replaceAllUsesWith(y);
  conv->erase();
}

} // namespace

LogicalResult winograd(func::FuncOp function, const Options &options) {
  if (options.exact)
    return success();
  SmallVector<graph::ConvOp> convolutions;
  function.walk([&](graph::ConvOp conv) { convolutions.push_back(conv); });
  for (graph::ConvOp conv : convolutions) {
    auto layer = layerOf(conv);
    auto outputs = layer ? chooseOutputs(options.machine, *layer) : std::nullopt;
    if (!outputs || !conv.getW().getDefiningOp<graph::ConstantOp>())
      continue;
    OpBuilder builder(conv);
    graph::ShapeContext shapes(conv.getContext());
    graph::GraphBuilder graph(builder, shapes, conv.getLoc());
    Value weights = graph::GraphBuilder::first(
        graph.create("winograd_weights", conv.getW(),
                     {graph.named("outputs", builder.getI64IntegerAttr(*outputs)),
                      graph.named("taps", builder.getI64IntegerAttr(layer->taps))}));
    if (Value constant = foldedConstant(weights, builder)) {
      Operation *evaluated = weights.getDefiningOp();
      transform(conv, *layer, *outputs, constant);
      if (evaluated->use_empty())
        evaluated->erase();
    }
  }
  return success();
}

} // namespace tensmith::rewrite

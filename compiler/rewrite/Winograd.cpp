// Convolutions of stride 1 with small square windows become matrix products over frequencies where
// that is estimated to be faster (the records winograd_* of the graph dialect, base/ToomCook.h).
//
// Minimal filtering trades multiplications for memory: planes of transformed tiles are written and
// read again, and the weights grow by size^2 / taps^2. Where an image is small, or a layer has
// little but weights, the plain convolution wins; the estimate below counts both sides in cycles of
// one core. Weights of a model that the caches can't hold are read from memory in each run: then
// a small tile, or none, can be the faster one.
//
// Convolutions of codes (IntegerProducts.cpp) stay exact: with two outputs of three taps the
// matrices of images are of 1 and -1, and that of weights is whole when it is doubled. So an image
// of nine bits and a sign has frequencies of eleven, and the sums come out four times too large,
// which is taken back in floats.
#include "base/ToomCook.h"
#include "compiler/graph/Bounds.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/kernel/WinogradKernel.h"
#include "compiler/rewrite/Rewrites.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// The output tiles that are tried. Larger ones save little more and lose accuracy: fp32's error
/// grows with the size of the transforms (Barabasz et al., 2020).
constexpr int64_t kOutputs[] = {2, 4};
/// Codes less their zero point; their frequencies are four times as large, and those of such
/// weights nine times.
constexpr double kLargestCode = 255;
/// What makes the matrix of weights whole, on both sides of them.
constexpr double kWholeScale = 4;

/// Sizes of a convolution that may be transformed.
struct Layer {
  int64_t images, height, width; // of the output
  int64_t in, out, taps;
  bool integers = false; // i16, with sums in i32
};

std::optional<Layer> layerOf(graph::ConvOp conv) {
  auto x = dyn_cast<RankedTensorType>(conv.getX().getType());
  auto w = dyn_cast<RankedTensorType>(conv.getW().getType());
  auto y = dyn_cast<RankedTensorType>(conv.getType());
  bool fits = x && w && y && x.getRank() == 4 && conv.getChannelsLast() && conv.getGroup() == 1 &&
              w.hasStaticShape() && w.getDimSize(2) == w.getDimSize(3) && w.getDimSize(2) > 1 &&
              llvm::all_of(conv.getStrides(), [](int64_t stride) { return stride == 1; }) &&
              llvm::all_of(conv.getDilations(), [](int64_t dilation) { return dilation == 1; }) &&
              llvm::none_of(y.getShape().drop_front(), ShapedType::isDynamic) &&
              llvm::none_of(x.getShape().drop_front(), ShapedType::isDynamic);
  if (!fits)
    return std::nullopt;
  bool floats = y.getElementType().isF32() && x.getElementType().isF32();
  bool integers = conv.getAccumulateI32() && x.getElementType().isSignlessInteger(16) &&
                  w.getElementType().isSignlessInteger(16);
  if (!floats && !integers)
    return std::nullopt;
  int64_t images = y.isDynamicDim(0) ? 1 : y.getDimSize(0);
  return Layer{images,          y.getDimSize(1), y.getDimSize(2), w.getDimSize(1),
               w.getDimSize(0), w.getDimSize(2), integers};
}

class Estimate {
public:
  /// `weightRate`: bytes of weights that arrive in a cycle.
  Estimate(const kernel::MachineShape &machine, const Layer &layer, double weightRate)
      : machine_(machine), layer_(layer), weightRate_(weightRate) {}

  double direct() const {
    double positions = double(layer_.images) * double(layer_.height) * double(layer_.width);
    return product(1, positions, double(layer_.taps * layer_.taps * layer_.in));
  }

  double winograd(int64_t outputs) const {
    double tiles = double(layer_.images) * double(llvm::divideCeil(layer_.height, outputs)) *
                   double(llvm::divideCeil(layer_.width, outputs));
    double size = double(outputs + layer_.taps - 1), planes = size * size;
    // Each plane is written, and read where it is used next.
    double narrow = layer_.integers ? 0.5 : 1; // an image's element, in units of a float's
    double channels = narrow * double(layer_.in) + double(layer_.out);
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
  /// Products of a vector of pairs, against those of one of floats: twice as many, and an addition
  /// beside each.
  static constexpr double kPairs = 1.5;

  /// `batch` products of [rows, depth] by [depth, layer.out].
  double product(double batch, double rows, double depth) const {
    double columns = double(layer_.out);
    double each = kFmaPerCycle * double(machine_.lanes(sizeof(float)));
    if (layer_.integers)
      each *= kPairs;
    double arithmetic = batch * rows * columns * depth / each;
    double bytes = layer_.integers ? sizeof(int16_t) : sizeof(float);
    double weights = batch * depth * columns * bytes / weightRate_;
    return std::max(arithmetic / kEfficiency, weights);
  }

  const kernel::MachineShape &machine_;
  const Layer &layer_;
  double weightRate_;
};

/// At which the constants of the function arrive: out of the last cache, if they stay there from
/// run to run beside what else needs it.
double weightRate(func::FuncOp function, const kernel::MachineShape &machine) {
  int64_t bytes = 0;
  function.walk([&](graph::ConstantOp constant) {
    auto type = cast<ShapedType>(constant.getType());
    if (Type element = graph::kernelElementType(type.getElementType()))
      bytes += type.getNumElements() * int64_t(element.getIntOrFloatBitWidth()) / 8;
  });
  return bytes < machine.lastCacheBytes / 2 ? machine.farBytesPerCycle
                                            : machine.memoryBytesPerCycle;
}

/// The tile that is estimated to be fastest; none where the plain convolution is.
std::optional<int64_t> chooseOutputs(const kernel::MachineShape &machine, const Layer &layer,
                                     double weightRate) {
  Estimate estimate(machine, layer, weightRate);
  std::optional<int64_t> best;
  double least = estimate.direct();
  for (int64_t outputs : kOutputs) {
    bool whole = outputs == kernel::kWholeOutputs && layer.taps == kernel::kWholeTaps;
    if (!hasToomCook(outputs, layer.taps) || (layer.integers && !whole))
      continue;
    if (double cycles = estimate.winograd(outputs); cycles < least) {
      least = cycles;
      best = outputs;
    }
  }
  return best;
}

class Transformation {
public:
  Transformation(graph::ConvOp conv, const Layer &layer, int64_t outputs)
      : conv_(conv), layer_(layer), builder_(conv), shapes_(conv->getContext()),
        graph_(builder_, shapes_, conv.getLoc()),
        tile_{graph_.named("outputs", builder_.getI64IntegerAttr(outputs)),
              graph_.named("taps", builder_.getI64IntegerAttr(layer.taps))} {}

  void run() {
    Value made = weights(), constant = foldedConstant(made, builder_);
    if (constant)
      replaceBy(products(constant));
    for (Operation *op = made.getDefiningOp(); op && op->use_empty();) {
      Operation *before = op->getOperand(0).getDefiningOp();
      op->erase();
      op = isa_and_nonnull<graph::ConstantOp>(before) ? nullptr : before;
    }
    if (constant)
      conv_->erase();
  }

private:
  Value weights() {
    Value w = conv_.getW();
    if (layer_.integers)
      w = graph_.cast(w, builder_.getF32Type());
    Value turned = graph::GraphBuilder::first(graph_.create("winograd_weights", w, tile_));
    if (!layer_.integers)
      return turned;
    Value whole = graph_.binary("mul", turned, graph_.scalar(builder_.getF32Type(), kWholeScale));
    return graph_.cast(whole, builder_.getI16Type());
  }

  Value products(Value weights) {
    auto with = [&](NamedAttribute attribute) {
      SmallVector<NamedAttribute> all(tile_);
      all.push_back(attribute);
      return all;
    };
    Value planes = graph::GraphBuilder::first(
        graph_.create("winograd_input", conv_.getX(),
                      with(graph_.named("pads", builder_.getDenseI64ArrayAttr(conv_.getPads())))));
    auto product = graph_.create<graph::MatMulOp>(
        {planes, weights}, graph_.named("accumulate_i32", builder_.getBoolAttr(layer_.integers)));
    return graph::GraphBuilder::first(graph_.create(
        "winograd_output", {product, conv_.getBias()},
        with(graph_.named("image", builder_.getDenseI64ArrayAttr({layer_.height, layer_.width})))));
  }

  void replaceBy(Value y) {
    y.setType(conv_.getType());
    if (!layer_.integers)
      return conv_.getResult().replaceAllUsesWith(y);
    for (Operation *user : llvm::make_early_inc_range(conv_.getResult().getUsers())) {
      Value number = graph_.cast(y, builder_.getF32Type());
      Value scaled =
          graph_.binary("mul", number, graph_.scalar(builder_.getF32Type(), 1 / kWholeScale));
      user->getResult(0).replaceAllUsesWith(scaled);
      user->erase();
    }
  }

  graph::ConvOp conv_;
  const Layer &layer_;
  OpBuilder builder_;
  graph::ShapeContext shapes_;
  graph::GraphBuilder graph_;
  SmallVector<NamedAttribute> tile_;
};

/// Whether integers do: frequencies of the image and of the weights fit into 16 bits, four times a
/// sum into 32, and the sums are only read as floats.
bool staysExact(graph::ConvOp conv) {
  auto constant = conv.getW().getDefiningOp<graph::ConstantOp>();
  auto weights = graph::hostTensor(constant.getValue());
  bool readAsFloats = llvm::all_of(conv.getResult().getUsers(), [](Operation *user) {
    return isa<graph::CastOp>(user) && getElementTypeOrSelf(user->getResult(0).getType()).isF32();
  });
  if (!weights.ok() || !readAsFloats || !isa<NoneType>(conv.getBias().getType()) ||
      !graph::boundsOf(conv.getX()).within(-kLargestCode, kLargestCode))
    return false;
  int64_t outputs = weights->shape()[0], each = weights->size() / std::max<int64_t>(outputs, 1);
  int64_t largest = 0;
  for (int64_t output = 0; output < outputs; ++output) {
    int64_t sum = 0;
    for (int64_t i = 0; i < each; ++i) {
      int64_t weight = std::abs(weights->getInt(output * each + i));
      largest = std::max(largest, weight);
      sum += weight;
    }
    if (sum * kLargestCode * kWholeScale >= double(std::numeric_limits<int32_t>::max()))
      return false;
  }
  return largest <= kLargestCode;
}

} // namespace

LogicalResult winograd(func::FuncOp function, const Options &options) {
  SmallVector<graph::ConvOp> convolutions;
  function.walk([&](graph::ConvOp conv) { convolutions.push_back(conv); });
  double rate = weightRate(function, options.machine);
  for (graph::ConvOp conv : convolutions) {
    auto layer = layerOf(conv);
    if (!layer || !conv.getW().getDefiningOp<graph::ConstantOp>() ||
        (layer->integers ? !staysExact(conv) : options.exact))
      continue;
    if (auto outputs = chooseOutputs(options.machine, *layer, rate))
      Transformation(conv, *layer, *outputs).run();
  }
  return success();
}

} // namespace tensmith::rewrite

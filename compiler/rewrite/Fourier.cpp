// Convolutions of stride 1 with large windows become products of Fourier transforms where that is
// estimated to be faster (the records fourier_* of the graph dialect, base/Fourier.h).
//
// A tile's transforms take as many operations for any window, and what is multiplied between them
// grows with the tile alone: so the larger the window, the more a convolution has to gain, and the
// larger the tile that is best for it. Dense convolutions and those of few groups are products of
// matrices for each plane of the spectra, as minimal filtering's are; depthwise ones are multiplied
// element by element and never leave the cache on the way. Dilation only moves the taps apart.
//
// The weights' spectra are constants, and can be many times as many bytes as the weights: those of
// a layer that are more than the bound below, or slower to read than the plain convolution is to
// compute, are not made. Weights that are no constants are FourierPasses.cpp's.
//
// What a tile errs by is found out on the layer's own weights (RoundingError.h); beyond the
// policy's bound the convolution stays as it is.
#include "base/Fourier.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/Template.h"
#include "compiler/rewrite/ConvolutionCost.h"
#include "compiler/rewrite/FourierCost.h"
#include "compiler/rewrite/MeasuredChoice.h"
#include "compiler/rewrite/RoundingError.h"
#include "compiler/rewrite/Winograd.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// Fewer taps along every dimension are left to minimal filtering, which needs about as few
/// products for them, of smaller tiles.
constexpr int64_t kLeastWindow = 5;
/// Channels of a group: below, the products' matrices are too small.
constexpr int64_t kLeastChannels = 8;
/// Bytes of a layer's spectra, and of all layers' together; more for one that a schedule asks for.
constexpr double kMostBytes = 128 << 20, kMostOfAll = 256 << 20, kMostAsked = 512 << 20;
/// What a larger tile, with more bytes of weights, must take of a smaller one's time, and a
/// transform of that of the other ways, since estimates err.
constexpr double kWorthwhile = 0.8, kClearly = 0.8;

/// Sizes of a convolution that may be transformed.
struct Layer : ConvolutionSizes { // the window with what lies between its taps
  int64_t taps = 0;
  bool isDepthwise = false;
  bool hasKernel = false;   // of the plain depthwise convolution
  bool isCandidate = false; // for a transform that nobody asks for

  double positions() const { return double(images * ShapedType::getNumElements(output)); }
};

std::optional<Layer> layerOf(graph::ConvOp conv, const kernel::Machine &machine) {
  auto isF32 = [](Value value) { return getElementTypeOrSelf(value.getType()).isF32(); };
  auto isEmpty = [](Value value) {
    return llvm::is_contained(cast<RankedTensorType>(value.getType()).getShape(), 0);
  };
  auto sizes = sizesOfStrideOne(conv);
  bool fits = sizes && !sizes->isOpen && sizes->window.size() <= 2 && isF32(conv.getX()) &&
              isF32(conv.getW()) && isF32(conv.getY()) && !isEmpty(conv.getX()) &&
              !isEmpty(conv.getY()) &&
              llvm::none_of(conv.getPads(), [](int64_t pad) { return pad < 0; }) &&
              conv.getW().getDefiningOp<graph::ConstantOp>();
  if (!fits)
    return std::nullopt;
  bool isLarge = llvm::any_of(sizes->window, [](int64_t size) { return size >= kLeastWindow; });
  Layer layer{std::move(*sizes)};
  layer.taps = ShapedType::getNumElements(layer.window);
  for (auto [size, dilation] : llvm::zip_equal(layer.window, conv.getDilations()))
    size = (size - 1) * dilation + 1;
  layer.isDepthwise = kernel::isDepthwise(conv);
  layer.hasKernel = kernel::templateBefore(conv, machine);
  int64_t least = std::min(layer.in, layer.out) / std::max<int64_t>(layer.group, 1);
  layer.isCandidate = isLarge && (layer.isDepthwise || least >= kLeastChannels);
  return layer;
}

std::optional<FourierTile> tileOf(const Layer &layer, int64_t size) {
  return fourierTile(layer.window, size);
}

class Estimate {
public:
  /// `constants`: bytes of all constants of the function, without spectra of this layer.
  Estimate(const kernel::Machine &machine, const Layer &layer, double constants)
      : machine_(machine), layer_(layer), constants_(constants),
        lanes_(machine.lanes(sizeof(float))) {}

  double direct() const {
    using Access = kernel::Windows::Access;
    if (layer_.isDepthwise)
      return kernel::cyclesOf(
          kernel::Windows{vectors(layer_.in) * layer_.positions() * double(layer_.taps),
                          layer_.hasKernel ? Access::Depthwise : Access::Looped},
          machine_);
    kernel::Products products{double(layer_.group), layer_.positions(),
                              double(layer_.taps * layer_.in / layer_.group),
                              double(layer_.out / layer_.group)};
    products.weightRate = kernel::weightRate(constants_, machine_);
    return kernel::cyclesOf(products, machine_);
  }

  double fourier(const FourierTile &tile) const {
    double tiles = double(layer_.images * tile.tilesOf(layer_.output));
    double rate = kernel::weightRate(constants_ + bytes(tile), machine_);
    FourierTransforms transforms(machine_, tile);
    double rowsIn = tile.isLine ? double(tile.rows) : double(std::min(tile.rows, layer_.input[0]));
    double rowsOut =
        tile.isLine ? double(tile.rows) : double(std::min(tile.down, layer_.output[0]));
    double cyclesIn = transforms.forward(rowsIn), cyclesOut = transforms.inverse(rowsOut);
    if (layer_.isDepthwise)
      return tiles * vectors(layer_.in) * (cyclesIn + cyclesOut + double(tile.numbers())) +
             tiles * bytes(tile) / rate;
    double planes = double(tile.planes(kFourierThirds));
    double channels = double(layer_.in + layer_.out);
    // Of few rows each weight is waited for.
    kernel::Products each{planes * double(layer_.group), tiles, double(layer_.in / layer_.group),
                          double(layer_.out / layer_.group)};
    double products = kernel::cyclesOf(each, machine_);
    products += bytes(tile) / rate;
    return products +
           kernel::cyclesOf(kernel::Traffic{2 * planes * tiles * channels * sizeof(float)},
                            machine_) +
           tiles * (vectors(layer_.in) * cyclesIn + vectors(layer_.out) * cyclesOut) +
           transforms.planes(tiles, layer_.in, layer_.group) +
           transforms.planes(tiles, layer_.out, layer_.group);
  }

  double bytes(const FourierTile &tile) const {
    double each = layer_.isDepthwise
                      ? double(tile.numbers())
                      : double(tile.planes(kFourierThirds) * (layer_.in / layer_.group));
    return each * double(layer_.out) * sizeof(float);
  }

private:
  double vectors(int64_t channels) const {
    int64_t group = layer_.isDepthwise ? 1 : layer_.group;
    return double(group * llvm::divideCeil(channels / group, lanes_));
  }
  const kernel::Machine &machine_;
  const Layer &layer_;
  double constants_;
  int64_t lanes_;
};

double errorOf(graph::ConvOp conv, const Layer &layer, const FourierTile &tile) {
  auto weights = graph::hostTensor(conv.getW().getDefiningOp<graph::ConstantOp>().getValue());
  if (!weights.ok())
    return std::numeric_limits<double>::infinity();
  return errorOfFourier(*weights, tile, conv.getDilations(), layer.isDepthwise, inputMoments(conv));
}

struct Choice {
  int64_t size = 0; // 0: no transform
  double error = 0;
  SmallVector<kernel::Refused, 1> refused;
};

/// The fastest of the transforms that are estimated best, and of what is done without any, where
/// choices are measured; nothing where the estimate decides.
std::optional<Choice> measuredChoice(graph::ConvOp conv, const Layer &layer, double constants,
                                     double most, const Options &options) {
  constexpr size_t kTried = 2;
  if (!options.libraries.measured)
    return std::nullopt;
  Estimate estimate(options.machine, layer, constants);
  double rate = kernel::weightRate(constants, options.machine);
  double without = estimate.direct();
  if (auto cycles = cyclesOfWinograd(conv, rate, options))
    without = std::min(without, *cycles);
  SmallVector<Candidate> candidates;
  for (int64_t size : fourierSizes(layer.window))
    if (auto tile = tileOf(layer, size); tile && estimate.bytes(*tile) <= most)
      candidates.push_back({"fourier_tile", size, estimate.fourier(*tile)});
  llvm::sort(candidates,
             [](const Candidate &a, const Candidate &b) { return a.cycles < b.cycles; });
  candidates.truncate(std::min(candidates.size(), kTried));
  llvm::erase_if(candidates, [&](const Candidate &candidate) {
    return candidate.cycles > without * kWorthATry ||
           errorOf(conv, layer, *tileOf(layer, candidate.value)) >
               std::min(kFastBound, options.layerBound);
  });
  if (candidates.empty())
    return std::nullopt;
  candidates.push_back({"fourier_tile", 0, without});
  auto fastest = fastestOf(conv, candidates, options);
  if (!fastest)
    return std::nullopt;
  int64_t size = candidates[*fastest].value;
  return Choice{size, size ? errorOf(conv, layer, *tileOf(layer, size)) : 0, {}};
}

/// What a schedule asks for, where it can be; else the fastest, if it errs by less than the
/// policy's bound. `constants`: bytes of the function's, of which `spectra` are those made so far.
Choice choose(graph::ConvOp conv, const Layer &layer, double constants, double spectra,
              const Options &options) {
  kernel::Point asked = options.asked(conv);
  Estimate estimate(options.machine, layer, constants);
  if (asked[kernel::choice::fourierTile] == 0)
    return {};
  auto size = asked[kernel::choice::fourierTile];
  if (auto tile = size ? tileOf(layer, *size) : std::nullopt;
      tile && estimate.bytes(*tile) <= kMostAsked)
    if (double error = errorOf(conv, layer, *tile); std::isfinite(error))
      return {*size, error, {}};
  if (asked[kernel::choice::winogradOutputs] || !layer.isCandidate)
    return {};
  double most = std::min(kMostBytes, kMostOfAll - spectra);
  if (auto measured = measuredChoice(conv, layer, constants, most, options))
    return *measured;
  double least = estimate.direct() * kClearly / kWorthwhile;
  Choice best;
  for (int64_t size : fourierSizes(layer.window)) {
    auto tile = tileOf(layer, size);
    double cycles = estimate.bytes(*tile) <= most ? estimate.fourier(*tile) : least;
    if (cycles < least * kWorthwhile) {
      least = cycles;
      best.size = size;
    }
  }
  if (best.size == 0)
    return {};
  double rate = kernel::weightRate(constants, options.machine);
  if (auto other = cyclesOfWinograd(conv, rate, options); other && *other * kClearly <= least)
    return {};
  best.error = errorOf(conv, layer, *tileOf(layer, best.size));
  if (best.error <= std::min(kFastBound, options.layerBound))
    return best;
  Choice none;
  none.refused.push_back({"fourier_tile", best.size, best.error});
  return none;
}

class Transformation {
public:
  Transformation(graph::ConvOp conv, const Layer &layer, const FourierTile &tile)
      : conv_(conv), layer_(layer), builder_(conv), shapes_(conv->getContext()),
        graph_(builder_, shapes_, conv.getLoc()), tile_(list("tile", {tile.rows, tile.columns})),
        window_(list("window", layer.window)), pads_(list("pads", conv.getPads())),
        group_(graph_.named("group", builder_.getI64IntegerAttr(layer.group))) {}

  /// False where the spectra can't be made.
  bool run() {
    Value made = weights(), constant = foldedConstant(made, builder_);
    made.getDefiningOp()->erase();
    if (!constant)
      return false;
    Value y = layer_.isDepthwise ? wholeConvolution(constant) : products(constant);
    y.setType(conv_.getType());
    conv_.getResult().replaceAllUsesWith(y);
    conv_->erase();
    return true;
  }

private:
  NamedAttribute list(StringRef name, ArrayRef<int64_t> numbers) {
    return graph_.named(name, builder_.getDenseI64ArrayAttr(numbers));
  }
  Value create(StringRef name, ValueRange operands, ArrayRef<NamedAttribute> attributes) {
    return graph::GraphBuilder::first(graph_.create(name, operands, attributes));
  }

  Value weights() {
    return create("fourier_weights", conv_.getW(),
                  {tile_, list("dilations", conv_.getDilations()), group_,
                   graph_.named("pairs", builder_.getBoolAttr(layer_.isDepthwise))});
  }
  Value wholeConvolution(Value weights) {
    return create("fourier_conv", {conv_.getX(), weights, conv_.getBias()},
                  {tile_, window_, pads_});
  }
  Value products(Value weights) {
    Value planes = create("fourier_input", conv_.getX(), {tile_, window_, pads_, group_});
    Value product = graph_.create<graph::MatMulOp>({planes, weights});
    return create("fourier_output", {product, conv_.getBias()},
                  {tile_, window_, list("image", layer_.output), group_});
  }

  graph::ConvOp conv_;
  const Layer &layer_;
  OpBuilder builder_;
  graph::ShapeContext shapes_;
  graph::GraphBuilder graph_;
  NamedAttribute tile_, window_, pads_, group_;
};

} // namespace

LogicalResult fourier(func::FuncOp function, const Options &options) {
  if (options.precision != Precision::Fast ||
      !options.machine.templates->find(kernel::algorithm::fourier))
    return success();
  auto constants = double(bytesOfConstants(function));
  double spectra = 0;
  for (graph::ConvOp conv : convolutionsOf(function)) {
    auto layer = layerOf(conv, options.machine);
    if (!layer)
      continue;
    Choice choice = choose(conv, *layer, constants + spectra, spectra, options);
    kernel::Point schedule;
    if (layer->isCandidate) {
      SmallVector<int64_t> sizes{0};
      llvm::append_range(sizes, fourierSizes(layer->window));
      options.offer(conv, kernel::choice::fourierTile, sizes);
    }
    if (layer->isCandidate || choice.size > 0)
      schedule.set(kernel::choice::fourierTile, choice.size);
    options.made(conv, schedule, choice.error, choice.refused);
    if (choice.size == 0)
      continue;
    FourierTile tile = *tileOf(*layer, choice.size);
    if (Transformation(conv, *layer, tile).run())
      spectra += Estimate(options.machine, *layer, constants).bytes(tile);
  }
  return success();
}

} // namespace tensmith::rewrite

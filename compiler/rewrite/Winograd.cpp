// Convolutions of stride 1 with small square windows become matrix products over frequencies where
// that is estimated to be faster (the records winograd_* of the graph dialect, base/ToomCook.h).
//
// Minimal filtering trades multiplications for memory: planes of transformed tiles are written and
// read again, and the weights grow by size^2 / taps^2. Where an image is small, or a layer has
// little but weights, the plain convolution wins; the estimate below counts both sides in cycles of
// one core. Weights of a model that the caches can't hold are read from memory in each run: then
// a small tile, or none, can be the faster one.
//
// Where only the run knows an image's size, it is estimated for several usual ones: at a single one
// a dilated window's phases may happen to be whole tiles.
//
// Weights in the frequencies' domain are memory that a run holds: of all layers together they may
// take so much more than the model's own (WeightBudget).
//
// What a tile errs by is found out on the layer's own weights (RoundingError.h): one beyond the
// policy's bound gives way to a smaller one, or to the plain convolution.
//
// A window whose taps lie apart has neighbouring taps in each phase of the image (WindowPhases.h).
// One of a video is windows of images, one for each of its taps along frames (WindowFrames.h).
//
// Convolutions of codes (IntegerProducts.cpp) stay exact: their matrices are of whole numbers.
// Codes and weights are small enough that their frequencies fit 16 bits, which their products, by
// pairs, take anyway; the sums may wrap around 32 bits, from which the image comes back whole where
// it has a few bits to spare (base/ToomCook.h). How large sums can be is known from the weights.
#include "compiler/rewrite/Winograd.h"

#include "base/ToomCook.h"
#include "compiler/graph/Bounds.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/Kernel.h"
#include "compiler/kernel/Template.h"
#include "compiler/rewrite/ConvolutionCost.h"
#include "compiler/rewrite/MeasuredChoice.h"
#include "compiler/rewrite/RoundingError.h"
#include "compiler/rewrite/WindowFrames.h"
#include "compiler/rewrite/WindowPhases.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// The output tiles that are tried. fp32's error grows with the size of the transforms (Barabasz et
/// al., 2020): the largest one is beyond the policy's bound in most layers with many channels.
constexpr int64_t kOutputs[] = {2, 4, 6};
/// Codes less their zero point.
constexpr double kLargestCode = 255;

/// Of images whose size is open, the pictures that an estimate is the mean of.
constexpr int64_t kUsualSizes[] = {96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640};

/// What the size of the image makes of a layer.
struct Extent {
  SmallVector<int64_t, 2> image;  // of the output
  SmallVector<int64_t, 2> phases; // outputs along each dimension of one
  double reached = 1;             // of the taps of all outputs, those in the image
};

/// Sizes of a convolution that may be transformed.
struct Layer {
  int64_t videos = 1; // or images, which are their frames
  Extent extent;
  SmallVector<Extent> usual; // instead of that one, where only the run knows it
  WindowFrames frames;
  WindowPhases phases;
  bool isVideo = false;
  bool isOpen = false; // the image's size is one that only the run knows
  int64_t in = 0, out = 0, taps = 1;
  bool integers = false; // i16, with sums in i32
  double rate = 1;       // of the plain convolution's products, against those of floats
  // Of integers: the largest weight without its sign, and sum of an output.
  double largest = 0, sum = 0;
};

/// Along a dimension, the part of the windows' taps that lie in the image.
double reachedTaps(int64_t input, int64_t output, int64_t taps, int64_t dilation, int64_t pad) {
  int64_t inside = 0;
  for (int64_t tap = 0; tap < taps; ++tap) {
    int64_t first = tap * dilation - pad; // of the first output
    inside += std::max<int64_t>(std::min(output, input - first) - std::max<int64_t>(-first, 0), 0);
  }
  return double(inside) / double(std::max<int64_t>(output * taps, 1));
}

Extent extentOf(graph::ConvOp conv, const ConvolutionSizes &sizes) {
  Extent extent;
  size_t rank = sizes.window.size();
  ArrayRef<int64_t> dilations = conv.getDilations();
  for (size_t dim = rank - 2; dim < rank; ++dim) {
    extent.image.push_back(sizes.output[dim]);
    extent.phases.push_back(int64_t(llvm::divideCeil(sizes.output[dim], dilations[dim])));
  }
  // Taps that lie apart are left out where a tile reaches none of them, along all dimensions.
  if (llvm::any_of(dilations, [](int64_t dilation) { return dilation > 1; }))
    for (size_t dim = 0; dim < rank; ++dim)
      extent.reached *= reachedTaps(sizes.input[dim], sizes.output[dim], sizes.window[dim],
                                    dilations[dim], conv.getPads()[dim]);
  return extent;
}

std::optional<Layer> layerOf(graph::ConvOp conv) {
  constexpr size_t kImage = 2, kVideo = 3; // dimensions
  auto sizes = sizesOfStrideOne(conv);
  size_t rank = sizes ? sizes->window.size() : 0;
  bool fits = (rank == kImage || rank == kVideo) && sizes->group == 1 &&
              sizes->window[rank - 2] == sizes->window[rank - 1] && sizes->window[rank - 1] > 1 &&
              llvm::all_of(conv.getPads(), [](int64_t pad) { return pad >= 0; });
  if (!fits)
    return std::nullopt;
  Type x = getElementTypeOrSelf(conv.getX().getType());
  Type w = getElementTypeOrSelf(conv.getW().getType());
  bool floats = getElementTypeOrSelf(conv.getType()).isF32() && x.isF32();
  bool integers = conv.getAccumulateI32() && x.isSignlessInteger(16) && w.isSignlessInteger(16);
  if (!floats && !integers)
    return std::nullopt;
  Layer layer;
  layer.videos = sizes->images;
  layer.in = sizes->in;
  layer.out = sizes->out;
  layer.taps = layer.phases.taps = sizes->window.back();
  layer.integers = integers;
  layer.isVideo = rank == kVideo;
  layer.isOpen = sizes->isOpen;
  if (layer.isVideo)
    layer.frames = {sizes->window[0], conv.getDilations()[0], conv.getPads()[0], sizes->input[0],
                    sizes->output[0]};
  layer.phases.dilations.assign(conv.getDilations().end() - 2, conv.getDilations().end());
  layer.extent = extentOf(conv, *sizes);
  layer.phases.sizes = layer.extent.phases;
  if (layer.isOpen)
    for (int64_t usual : kUsualSizes)
      layer.usual.push_back(extentOf(conv, *sizesOfStrideOne(conv, usual)));
  if (layer.isOpen && layer.isVideo) // frames are dealt out by their number
    return std::nullopt;
  return layer;
}

class Estimate {
public:
  /// `weightRate`: bytes of weights that arrive in a cycle.
  Estimate(const kernel::Machine &machine, const Layer &layer, double weightRate)
      : machine_(machine), layer_(layer), weightRate_(weightRate) {}

  double direct() const {
    return mean([&](const Extent &extent) { return direct(extent); });
  }
  double winograd(int64_t outputs) const {
    return mean([&](const Extent &extent) { return winograd(outputs, extent); });
  }

private:
  /// For as many outputs as the layer has, on the mean of usual sizes.
  double mean(llvm::function_ref<double(const Extent &)> cycles) const {
    if (layer_.usual.empty())
      return cycles(layer_.extent);
    double sum = 0;
    for (const Extent &extent : layer_.usual)
      sum += cycles(extent) * pixelsOfFrame(layer_.extent) / pixelsOfFrame(extent);
    return sum / double(layer_.usual.size());
  }

  double direct(const Extent &extent) const {
    double positions = pixelsOfFrame(extent) * double(layer_.frames.output);
    bool fitsBytes = layer_.largest <= std::numeric_limits<int8_t>::max(); // NarrowOperands.cpp
    double integer = fitsBytes ? sizeof(int8_t) : sizeof(int16_t);
    double floats = layer_.rate > 1 ? sizeof(int16_t) : sizeof(float); // rounded to bf16, if faster
    double bytes = layer_.integers ? integer : floats;
    double depth =
        double(layer_.taps * layer_.taps * layer_.frames.taps * layer_.in) * extent.reached;
    double products = product(1, positions, depth, bytes, layer_.rate);
    // Pixels of fewer channels are copied, and products of floats take long enough.
    bool isFound = layer_.rate > 1 && layer_.in >= kernel::kFewChannels;
    if (!isFound)
      return products;
    kernel::PixelSearch search{positions * depth / double(layer_.in)};
    return std::max(products, kernel::cyclesOf(search, machine_));
  }

  double winograd(int64_t outputs, const Extent &extent) const {
    double tiles = double(layer_.videos); // of a frame
    for (size_t dim = 0; dim < 2; ++dim)
      tiles *= double(layer_.phases.dilations[dim]) *
               double(llvm::divideCeil(extent.phases[dim], outputs));
    double size = double(outputs + layer_.taps - 1), planes = size * size;
    // Each plane is written, and read where it is used next.
    double narrow = layer_.integers ? 0.5 : 1; // an image's element, in units of a float's
    double ofImages = narrow * double(layer_.frames.images() * layer_.in);
    double ofResults = double(layer_.frames.output * layer_.out);
    double channels = ofImages + ofResults; // of all frames
    double traffic = 2 * planes * tiles * channels * sizeof(float);
    double vectors = tiles * channels / double(machine_.lanes(sizeof(float)));
    double transforms = vectors * kernel::cyclesOf(kernel::TileTransform{size}, machine_);
    double bytes = layer_.integers ? sizeof(int16_t) : sizeof(float);
    double rows = tiles * double(layer_.frames.output);
    double depth = double(layer_.frames.taps * layer_.in);
    return product(planes, rows, depth, bytes) +
           kernel::cyclesOf(kernel::Traffic{traffic}, machine_) + transforms +
           (layer_.phases.isNeeded() ? copies(channels, extent) : 0) +
           (layer_.frames.isPadded() ? copies(ofImages, extent) : 0);
  }

  /// Of image and result, to phases and back: written, and read where they are used next.
  double copies(double channels, const Extent &extent) const {
    return kernel::cyclesOf(kernel::Traffic{2 * pixelsOfFrame(extent) * channels * sizeof(float)},
                            machine_);
  }

  /// Of all videos.
  double pixelsOfFrame(const Extent &extent) const {
    return double(layer_.videos) * double(extent.image[0]) * double(extent.image[1]);
  }

  /// `batch` products of [rows, depth] by [depth, layer.out], whose elements take so many bytes.
  double product(double batch, double rows, double depth, double bytes, double rate = 1) const {
    return kernel::cyclesOf(kernel::Products{batch, rows, depth, double(layer_.out), bytes, rate,
                                             layer_.integers, weightRate_},
                            machine_);
  }

  const kernel::Machine &machine_;
  const Layer &layer_;
  double weightRate_;
};

/// Whether all numbers on the way fit, of codes and these weights.
bool staysWhole(const Layer &layer, int64_t outputs) {
  if (!hasWholeToomCook(outputs, layer.taps))
    return false;
  ToomCook matrices = wholeToomCook(outputs, layer.taps);
  int64_t ofImage = growth(matrices.input, matrices.size);
  int64_t ofWeights = growth(matrices.weights, matrices.size);
  int64_t mostSum = std::numeric_limits<int32_t>::max() >> unscaling(matrices.factor).twos;
  auto fits = [](double number) { return number <= std::numeric_limits<int16_t>::max(); };
  return fits(double(ofImage * ofImage) * kLargestCode) &&
         fits(double(ofWeights * ofWeights) * layer.largest) && layer.sum <= double(mostSum);
}

bool canTransform(const Layer &layer, int64_t outputs) {
  return layer.integers ? staysWhole(layer, outputs) : hasToomCook(outputs, layer.taps);
}

/// The tile of at most so many outputs that is estimated to be fastest; 0 where the plain
/// convolution is.
int64_t chooseOutputs(const kernel::Machine &machine, const Layer &layer, double weightRate,
                      int64_t most) {
  Estimate estimate(machine, layer, weightRate);
  int64_t best = 0;
  double least = estimate.direct();
  for (int64_t outputs : kOutputs) {
    if (outputs > most || !canTransform(layer, outputs))
      continue;
    if (double cycles = estimate.winograd(outputs); cycles < least) {
      least = cycles;
      best = outputs;
    }
  }
  return best;
}

/// What such tiles err by with the layer's own weights, against the largest output.
double errorOf(graph::ConvOp conv, const Layer &layer, int64_t outputs) {
  if (layer.integers || outputs == 0)
    return 0;
  auto weights = graph::hostTensor(conv.getW().getDefiningOp<graph::ConstantOp>().getValue());
  return weights.ok() ? errorOfWinograd(*weights, outputs, inputMoments(conv))
                      : std::numeric_limits<double>::max();
}

struct Tile {
  int64_t outputs; // 0: the plain convolution
  double error;
  SmallVector<kernel::Refused, 1> refused;
};

/// What a schedule asks for, where it can be; else the fastest that errs by less than the policy's
/// bound.
Tile chooseTile(graph::ConvOp conv, const Layer &layer, double weightRate, const Options &options) {
  auto asked = options.asked(conv)[kernel::choice::winogradOutputs];
  if (asked && (*asked == 0 || canTransform(layer, *asked)))
    return {*asked, errorOf(conv, layer, *asked), {}};
  int64_t most = *std::max_element(std::begin(kOutputs), std::end(kOutputs));
  Tile tile{0, 0, {}};
  while (int64_t outputs = chooseOutputs(options.machine, layer, weightRate, most)) {
    double error = errorOf(conv, layer, outputs);
    if (error <= std::min(kFastBound, options.layerBound)) {
      tile.outputs = outputs;
      tile.error = error;
      break;
    }
    tile.refused.push_back({"winograd_outputs", outputs, error});
    most = outputs - 1;
  }
  return tile;
}

/// The same where choices are measured: the tiles that err by less than the bound, and none.
Tile measuredTile(graph::ConvOp conv, const Layer &layer, double weightRate,
                  const Options &options) {
  Tile estimated = chooseTile(conv, layer, weightRate, options);
  if (!options.libraries.measured || options.asked(conv)[kernel::choice::winogradOutputs])
    return estimated;
  Estimate estimate(options.machine, layer, weightRate);
  SmallVector<Candidate> candidates{{"winograd_outputs", 0, estimate.direct()}};
  SmallVector<double> errors{0};
  for (int64_t outputs : kOutputs) {
    double error = canTransform(layer, outputs) ? errorOf(conv, layer, outputs)
                                                : std::numeric_limits<double>::infinity();
    if (error > std::min(kFastBound, options.layerBound))
      continue;
    candidates.push_back({"winograd_outputs", outputs, estimate.winograd(outputs)});
    errors.push_back(error);
  }
  auto fastest = fastestOf(conv, candidates, options);
  if (!fastest)
    return estimated;
  return {candidates[*fastest].value, errors[*fastest], estimated.refused};
}

/// A convolution that may be transformed, and how.
struct Chosen {
  graph::ConvOp conv;
  Layer layer;
  Tile tile;
};

double bytesOfWeights(const Layer &layer, int64_t outputs) {
  bool isHalf = layer.integers || (outputs == 0 && layer.rate > 1);
  double size = double(outputs == 0 ? layer.taps : outputs + layer.taps - 1);
  return size * size * double(layer.frames.taps * layer.in * layer.out) *
         double(isHalf ? sizeof(int16_t) : sizeof(float));
}

/// What weights in the frequencies' domain of a function take beside its constants: beyond that,
/// tiles that win the least for their weights become smaller ones, or none.
class WeightBudget {
public:
  WeightBudget(double constants, double weightRate, const Options &options)
      : left_(kPartOfConstants * constants + kOfAnyModel), weightRate_(weightRate),
        options_(options) {}

  void meet(MutableArrayRef<Chosen> chosen) {
    for (const Chosen &one : chosen)
      left_ -= bytesOfWeights(one.layer, one.tile.outputs) - bytesOfWeights(one.layer, 0);
    if (left_ >= 0)
      return;
    std::vector<Smaller> smaller;
    for (const Chosen &one : chosen)
      smaller.push_back(smallerOf(one));
    while (left_ < 0) {
      auto best = llvm::min_element(
          smaller, [](const Smaller &a, const Smaller &b) { return a.price < b.price; });
      if (best == smaller.end() || !std::isfinite(best->price))
        return;
      Chosen &one = chosen[size_t(best - smaller.begin())];
      left_ += saved(one, best->outputs);
      one.tile.outputs = best->outputs;
      one.tile.error = errorOf(one.conv, one.layer, best->outputs);
      *best = smallerOf(one);
    }
  }

private:
  static constexpr double kPartOfConstants = 1.0 / 3, kOfAnyModel = 56 << 20;

  struct Smaller {
    int64_t outputs = 0;
    /// Cycles that it takes longer, for each byte of weights that it saves.
    double price = std::numeric_limits<double>::infinity();
  };

  static double saved(const Chosen &one, int64_t outputs) {
    return bytesOfWeights(one.layer, one.tile.outputs) - bytesOfWeights(one.layer, outputs);
  }

  /// The cheapest of the smaller tiles, which err by less (see `kOutputs`), and of none.
  Smaller smallerOf(const Chosen &one) const {
    Smaller best;
    if (one.tile.outputs == 0 || options_.asked(one.conv)[kernel::choice::winogradOutputs])
      return best;
    Estimate estimate(options_.machine, one.layer, weightRate_);
    double now = estimate.winograd(one.tile.outputs);
    auto offer = [&](int64_t outputs, double cycles) {
      if (double price = (cycles - now) / saved(one, outputs); price < best.price)
        best = {outputs, price};
    };
    offer(0, estimate.direct());
    for (int64_t outputs : kOutputs)
      if (outputs < one.tile.outputs && canTransform(one.layer, outputs))
        offer(outputs, estimate.winograd(outputs));
    return best;
  }

  double left_; // bytes
  double weightRate_;
  const Options &options_;
};

class Transformation {
public:
  Transformation(graph::ConvOp conv, const Layer &layer, int64_t outputs)
      : conv_(conv), layer_(layer), builder_(conv), shapes_(conv->getContext()),
        graph_(builder_, shapes_, conv.getLoc()), outputs_(outputs),
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
    Value weights = conv_.getW();
    if (layer_.isVideo)
      weights = layer_.frames.weights(graph_, weights);
    return graph::GraphBuilder::first(graph_.create("winograd_weights", weights, tile_));
  }

  Value products(Value weights) {
    auto with = [&](NamedAttribute attribute) {
      SmallVector<NamedAttribute> all(tile_);
      all.push_back(attribute);
      return all;
    };
    const WindowPhases &phases = layer_.phases;
    const WindowFrames &frames = layer_.frames;
    Value image = conv_.getX();
    ArrayRef<int64_t> all = conv_.getPads(), low = all.take_front(all.size() / 2).take_back(2);
    SmallVector<int64_t> pads(low);
    llvm::append_range(pads, all.take_back(2));
    if (layer_.isVideo)
      image = frames.split(graph_, image);
    if (phases.isNeeded()) {
      image = phases.split(graph_, image, pads, phases.extentsOf(shapes_, imageSizes()));
      pads.assign(pads.size(), 0);
    }
    Value planes = graph::GraphBuilder::first(graph_.create(
        "winograd_input", image, with(graph_.named("pads", builder_.getDenseI64ArrayAttr(pads)))));
    planes = frames.rowsUnderWindows(graph_, planes, rowsOfImage());
    auto product = graph_.create<graph::MatMulOp>(
        {planes, weights}, graph_.named("accumulate_i32", builder_.getBoolAttr(layer_.integers)));
    Value result = imageOf(product, with);
    if (phases.isNeeded())
      result = phases.join(graph_, result, imageSizes());
    return layer_.isVideo ? frames.join(graph_, result) : result;
  }

  /// The image's sizes: a frame's, of a video.
  SmallVector<AffineExpr, 2> imageSizes() {
    auto dims = shapes_.dims(conv_.getType());
    return {dims[dims.size() - 3], dims[dims.size() - 2]};
  }

  /// The image, or all phases of it.
  Value imageOf(Value product,
                llvm::function_ref<SmallVector<NamedAttribute>(NamedAttribute)> with) {
    const WindowPhases &phases = layer_.phases;
    auto extents = phases.extentsOf(shapes_, imageSizes());
    SmallVector<int64_t> image;
    for (AffineExpr extent : extents) {
      auto known = dyn_cast<AffineConstantExpr>(extent);
      image.push_back(known ? known.getValue() : -1);
    }
    SmallVector<NamedAttribute> attributes =
        with(graph_.named("image", builder_.getDenseI64ArrayAttr(image)));
    if (!layer_.isOpen)
      return graph::GraphBuilder::first(
          graph_.create("winograd_output", {product, conv_.getBias()}, attributes));
    // Only the type says how large an open one is.
    auto dims = shapes_.dims(conv_.getType());
    AffineExpr images = dims[0] * (phases.dilations[0] * phases.dilations[1]);
    Type type = shapes_.tensorType(getElementTypeOrSelf(conv_.getType()),
                                   {images, extents[0], extents[1], dims[3]});
    return graph::GraphBuilder::first(
        graph_.createTyped("winograd_output", type, {product, conv_.getBias()}, attributes));
  }

  /// Tiles of all phases.
  int64_t rowsOfImage() const {
    int64_t rows = 1;
    for (auto [dilation, size] : llvm::zip_equal(layer_.phases.dilations, layer_.phases.sizes))
      rows *= dilation * int64_t(llvm::divideCeil(size, outputs_));
    return rows;
  }

  void replaceBy(Value y) {
    y.setType(conv_.getType());
    conv_.getResult().replaceAllUsesWith(y);
  }

  graph::ConvOp conv_;
  const Layer &layer_;
  OpBuilder builder_;
  graph::ShapeContext shapes_;
  graph::GraphBuilder graph_;
  int64_t outputs_;
  SmallVector<NamedAttribute> tile_;
};

/// How large numbers become in a convolution of codes; false where it is something else.
bool measureSums(graph::ConvOp conv, Layer &layer) {
  auto constant = conv.getW().getDefiningOp<graph::ConstantOp>();
  auto weights = graph::hostTensor(constant.getValue());
  graph::Bounds codes = graph::boundsOf(conv.getX());
  if (!weights.ok() || !isa<NoneType>(conv.getBias().getType()) ||
      !codes.within(-kLargestCode, kLargestCode))
    return false;
  // Padding is zero.
  double above = std::max(codes.high, 0.0), below = std::max(-codes.low, 0.0);
  int64_t outputs = weights->shape()[0], each = weights->size() / std::max<int64_t>(outputs, 1);
  for (int64_t output = 0; output < outputs; ++output) {
    double positive = 0, negative = 0;
    for (int64_t i = 0; i < each; ++i) {
      double weight = double(weights->getInt(output * each + i));
      layer.largest = std::max(layer.largest, std::abs(weight));
      (weight > 0 ? positive : negative) += std::abs(weight);
    }
    layer.sum = std::max(
        {layer.sum, positive * above + negative * below, negative * above + positive * below});
  }
  return true;
}

} // namespace

std::optional<double> cyclesOfWinograd(graph::ConvOp conv, double weightRate,
                                       const Options &options) {
  auto layer = layerOf(conv);
  if (!layer || layer->integers)
    return std::nullopt;
  Tile tile = chooseTile(conv, *layer, weightRate, options);
  if (tile.outputs == 0)
    return std::nullopt;
  return Estimate(options.machine, *layer, weightRate).winograd(tile.outputs);
}

LogicalResult winograd(func::FuncOp function, const Options &options) {
  if (!options.machine.templates->find(kernel::algorithm::winograd))
    return success();
  auto constants = double(bytesOfConstants(function));
  double rate = kernel::weightRate(constants, options.machine);
  std::vector<Chosen> chosen;
  for (graph::ConvOp conv : convolutionsOf(function)) {
    auto layer = layerOf(conv);
    if (!layer || !conv.getW().getDefiningOp<graph::ConstantOp>() ||
        (layer->integers ? !measureSums(conv, *layer) : options.precision == Precision::Exact))
      continue;
    if (!layer->integers && options.precision == Precision::Bfloat)
      layer->rate = kernel::bfloatRate(options.machine);
    chosen.push_back({conv, *layer, measuredTile(conv, *layer, rate, options)});
  }
  WeightBudget(constants, rate, options).meet(chosen);
  for (const auto &[conv, layer, tile] : chosen) {
    SmallVector<int64_t> values{0};
    llvm::copy_if(kOutputs, std::back_inserter(values),
                  [&](int64_t outputs) { return canTransform(layer, outputs); });
    options.offer(conv, kernel::choice::winogradOutputs, values);
    kernel::Point schedule;
    schedule.set(kernel::choice::winogradOutputs, tile.outputs);
    options.made(conv, schedule, tile.error, tile.refused);
    if (tile.outputs > 0)
      Transformation(conv, layer, tile.outputs).run();
  }
  return success();
}

} // namespace tensmith::rewrite

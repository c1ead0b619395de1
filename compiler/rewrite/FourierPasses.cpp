// The three passes of a convolution whose weights change, by Fourier transforms (base/Fourier.h):
// its result, the gradient of its image and that of its weights, as a step of training has them.
//
//   conv(x, w)                   ->  output(X W)            X, W, G: planes of the spectra of
//   conv_transpose(g, w)         ->  image gradient(G W')   tiles of x, of w and of g, the
//   conv_weights_gradient(x, g)  ->  weights gradient(X' G) cotangent of the result
//
// of strides 1, where that is estimated to be faster (Mathieu, Henaff and LeCun, "Fast Training of
// Convolutional Networks through FFTs", 2014; Vasilache et al., "Fast Convolutional Nets With
// fbfft", 2015). Passes that take the same tile share X and G: transforms are written for each
// pass, and common subexpressions are one. So passes are chosen together: all tiles, for all sets
// of the passes of a layer. What of them is kept in memory from the forward pass on, and what is
// made again, is up to a budget of memory, as of any kernel (vm/Recomputation.h).
//
// The stage stands before decompositions, which turn the other gradients into convolutions and
// products.
#include "compiler/rewrite/FourierPasses.h"

#include "compiler/graph/ChannelOrder.h"
#include "compiler/graph/ConvolutionPasses.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/Template.h"
#include "compiler/rewrite/FourierCost.h"
#include "compiler/rewrite/PassCost.h"

#include <algorithm>
#include <vector>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// Bytes of planes that a pass may read or make.
constexpr double kMostBytes = 512 << 20;
/// What transforms must take of the plain passes' time, since estimates err.
constexpr double kClearly = 0.95;

/// Images that an open number of them is taken to be: of a batch, since weights that change are
/// trained. Of one image products of transforms wait for their weights.
constexpr int64_t kOpenImages = 32;

/// A pass, the values of its layer that it knows, and its layer's sizes.
struct Pass {
  Operation *op;
  PassKind kind;
  Value x, w, g;
  PassSizes sizes;
  SmallVector<int64_t> kernel, dilations, pads;
  std::optional<int64_t> tile; // 0: the plain pass; none: not decided

  bool isOfLayer(const Pass &other) const {
    auto fits = [](Value a, Value b) { return !a || !b || a == b; };
    bool shares = (x && x == other.x) || (w && w == other.w) || (g && g == other.g);
    return shares && fits(x, other.x) && fits(w, other.w) && fits(g, other.g) &&
           kind != other.kind && kernel == other.kernel && dilations == other.dilations &&
           pads == other.pads && sizes.group == other.sizes.group;
  }
};

using Layer = std::vector<Pass>;

SmallVector<int64_t> listOf(Operation *op, StringRef name) {
  return SmallVector<int64_t>(op->getAttrOfType<DenseI64ArrayAttr>(name).asArrayRef());
}

/// What is convolved with what, of an operator that is a pass.
std::optional<Pass> rolesOf(Operation *op) {
  if (auto conv = dyn_cast<graph::ConvOp>(op); conv && !graph::isChannelsLast(op))
    return Pass{op, PassKind::Output, conv.getX(), conv.getW(), Value(), {}, {}, {}, {}, {}};
  if (auto back = dyn_cast<graph::ConvTransposeOp>(op);
      back && llvm::all_of(back.getOutputPadding(), [](int64_t size) { return size == 0; }))
    return Pass{op, PassKind::Image, Value(), back.getW(), back.getX(), {}, {}, {}, {}, {}};
  if (auto sums = dyn_cast<graph::ConvWeightsGradientOp>(op))
    return Pass{op, PassKind::Weights, sums.getX(), Value(), sums.getG(), {}, {}, {}, {}, {}};
  return std::nullopt;
}

/// The channels-first image, if all but the number of images is known and none of it is empty.
RankedTensorType imageType(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  auto isUsable = [](int64_t size) { return !ShapedType::isDynamic(size) && size > 0; };
  bool fits = type && type.getElementType().isF32() && type.getRank() >= 3 && type.getRank() <= 4 &&
              type.getDimSize(0) != 0 && llvm::all_of(type.getShape().drop_front(), isUsable);
  return fits ? type : nullptr;
}

std::optional<Pass> passOf(Operation *op) {
  auto pass = rolesOf(op);
  if (!pass || (pass->w && pass->w.getDefiningOp<graph::ConstantOp>()))
    return std::nullopt;
  Value result = op->getResult(0);
  bool givesImage = pass->kind == PassKind::Image, givesOutput = pass->kind == PassKind::Output;
  auto image = imageType(givesImage ? result : pass->x);
  auto outputs = imageType(givesOutput ? result : pass->g);
  auto weights = dyn_cast<RankedTensorType>((pass->w ? pass->w : result).getType());
  if (!image || !outputs || !weights || !weights.hasStaticShape() ||
      !weights.getElementType().isF32() || image.getRank() != outputs.getRank())
    return std::nullopt;
  pass->kernel.assign(weights.getShape().begin() + 2, weights.getShape().end());
  pass->dilations = listOf(op, "dilations");
  pass->pads = listOf(op, "pads");
  int64_t group = op->getAttrOfType<IntegerAttr>("group").getInt();
  auto isOne = [](int64_t stride) { return stride == 1; };
  auto isNegative = [](int64_t pad) { return pad < 0; };
  bool isDepthwise = group > 1 && weights.getDimSize(0) == group;
  if (isDepthwise || !llvm::all_of(listOf(op, "strides"), isOne) ||
      llvm::any_of(pass->pads, isNegative) || llvm::all_of(pass->kernel, isOne))
    return std::nullopt;
  SmallVector<int64_t> window;
  for (auto [size, step] : llvm::zip_equal(pass->kernel, pass->dilations))
    window.push_back((size - 1) * step + 1);
  auto spatial = [](RankedTensorType type) {
    return SmallVector<int64_t>(type.getShape().drop_front(2));
  };
  pass->sizes = {outputs.isDynamicDim(0) ? kOpenImages : outputs.getDimSize(0),
                 image.getDimSize(1),
                 outputs.getDimSize(1),
                 group,
                 spatial(image),
                 spatial(outputs),
                 window,
                 SmallVector<int64_t>(pass->kernel)};
  return pass;
}

/// Convolutions and their gradients, those of a layer together.
std::vector<Layer> layersOf(func::FuncOp function) {
  std::vector<Layer> layers;
  function.walk([&](Operation *op) {
    auto pass = passOf(op);
    if (!pass)
      return;
    for (Layer &layer : layers)
      if (llvm::all_of(layer, [&](const Pass &other) { return pass->kind != other.kind; }) &&
          llvm::any_of(layer, [&](const Pass &other) { return pass->isOfLayer(other); }))
        return layer.push_back(std::move(*pass));
    layers.push_back({std::move(*pass)});
  });
  return layers;
}

/// Whether the planes of all three may be in memory, and an image in that of a thread.
bool fitsMemory(const PassSizes &sizes, const FourierTile &tile) {
  constexpr int64_t kMostPixels = 1 << 20; // as the kernel of the image's gradient takes
  if (ShapedType::getNumElements(sizes.input) > kMostPixels)
    return false;
  double planes = double(tile.planes(kFourierThirds)) * sizeof(float);
  double tiles = double(sizes.images * tile.tilesOf(sizes.output));
  return planes * tiles * double(std::max(sizes.in, sizes.out)) <= kMostBytes &&
         planes * double(sizes.in / sizes.group) * double(sizes.out) <= kMostBytes;
}

class LayerChoice {
public:
  LayerChoice(Layer &layer, const Options &options)
      : layer_(layer), options_(options), cost_(options.machine, layer[0].sizes) {}

  /// Sets the tile of each pass: what a schedule asks for, where it can be, and the least estimate
  /// of the others'.
  void run() {
    ArrayRef<int64_t> window = layer_[0].sizes.window;
    SmallVector<Pass *> open;
    for (Pass &pass : layer_) {
      auto asked = options_.asked(pass.op)[kernel::choice::fourierTile];
      auto tile = asked && *asked > 0 ? fourierTile(window, *asked) : std::nullopt;
      if (asked && (*asked == 0 || (tile && fitsMemory(pass.sizes, *tile))))
        pass.tile = *asked;
      else
        open.push_back(&pass);
    }
    chooseTogether(open);
    for (Pass &pass : layer_)
      tell(pass);
  }

private:
  void chooseTogether(ArrayRef<Pass *> open) {
    double plain = 0;
    for (Pass *pass : open) {
      pass->tile = 0;
      plain += cost_.plain(pass->kind);
    }
    double least = plain;
    for (int64_t size : fourierSizes(layer_[0].sizes.window)) {
      FourierTile tile = *fourierTile(layer_[0].sizes.window, size);
      if (!fitsMemory(layer_[0].sizes, tile))
        continue;
      for (unsigned set = 1; set < 1u << open.size(); ++set) {
        double cycles = cyclesOf(open, set, tile);
        if (cycles >= least * (least == plain ? kClearly : 1))
          continue;
        least = cycles;
        for (auto [number, pass] : llvm::enumerate(open))
          pass->tile = set >> number & 1 ? size : 0;
      }
    }
  }

  /// Of the passes in the set by transforms, each of which is made once, and the others plain.
  /// Large ones of the image are made on the way there and again on the way back.
  double cyclesOf(ArrayRef<Pass *> open, unsigned set, const FourierTile &tile) const {
    double cycles = 0, x = 0;
    bool g = false;
    for (auto [number, pass] : llvm::enumerate(open)) {
      if (!(set >> number & 1)) {
        cycles += cost_.plain(pass->kind);
        continue;
      }
      cycles += cost_.own(pass->kind, tile);
      x += pass->kind != PassKind::Image;
      g |= pass->kind != PassKind::Output;
    }
    if (!makesAgain(tile))
      x = std::min(x, 1.0);
    return cycles + x * cost_.ofImage(tile) + (g ? cost_.ofOutputs(tile) : 0);
  }

  bool makesAgain(const FourierTile &tile) const {
    const PassSizes &sizes = layer_[0].sizes;
    double numbers = double(tile.planes(kFourierThirds)) *
                     double(sizes.images * tile.tilesOf(sizes.output)) * double(sizes.in);
    return numbers * sizeof(float) >= double(kMostKeptSpectra);
  }

  void tell(const Pass &pass) const {
    SmallVector<int64_t> sizes{0};
    llvm::append_range(sizes, fourierSizes(pass.sizes.window));
    options_.offer(pass.op, kernel::choice::fourierTile, sizes);
    kernel::Point schedule;
    schedule.set(kernel::choice::fourierTile, *pass.tile);
    options_.made(pass.op, schedule, 0);
  }

  Layer &layer_;
  const Options &options_;
  PassCost cost_;
};

class Transformation {
public:
  Transformation(const Pass &pass, const FourierTile &tile)
      : pass_(pass), builder_(pass.op), shapes_(pass.op->getContext()),
        graph_(builder_, shapes_, pass.op->getLoc()), rank_(int64_t(pass.kernel.size()) + 2),
        tile_(list("tile", {tile.rows, tile.columns})), window_(list("window", pass.sizes.window)),
        pads_(list("pads", pass.pads)), dilations_(list("dilations", pass.dilations)),
        group_(graph_.named("group", builder_.getI64IntegerAttr(pass.sizes.group))) {}

  void run() {
    Value y = pass_.kind == PassKind::Output  ? output()
              : pass_.kind == PassKind::Image ? imageGradient()
                                              : weightsGradient();
    y.setType(pass_.op->getResult(0).getType());
    pass_.op->getResult(0).replaceAllUsesWith(y);
    pass_.op->erase();
  }

private:
  NamedAttribute list(StringRef name, ArrayRef<int64_t> numbers) {
    return graph_.named(name, builder_.getDenseI64ArrayAttr(numbers));
  }
  Value create(StringRef name, ValueRange operands, ArrayRef<NamedAttribute> attributes) {
    return graph::GraphBuilder::first(graph_.create(name, operands, attributes));
  }
  Value channelsLast(Value x) { return graph_.transpose(x, graph::toChannelsLast(rank_)); }
  Value channelsFirst(Value x) { return graph_.transpose(x, graph::toChannelsFirst(rank_)); }
  Value turned(Value planes) { return graph_.transpose(planes, kernel::swapLast(3)); }
  Value product(Value a, Value b) { return graph_.create<graph::MatMulOp>({a, b}); }

  // Equal ones of several passes are one, once common subexpressions are.
  Value ofImage() {
    return create("fourier_input", channelsLast(pass_.x), {tile_, window_, pads_, group_});
  }
  Value ofOutputs() {
    return create("fourier_gradient", channelsLast(pass_.g), {tile_, window_, group_});
  }
  Value ofWeights() {
    SmallVector<int64_t> outputsLast;
    for (int64_t dim = 1; dim < rank_; ++dim)
      outputsLast.push_back(dim);
    outputsLast.push_back(0);
    return changing(graph_.transpose(pass_.w, outputsLast));
  }
  /// The same as right operand of the cotangent's planes, [planes * group, M / group, C / group]:
  /// a transform of weights [M / group, kernel..., C] takes less than to turn all planes.
  Value ofTurnedWeights() {
    auto dims = shapes_.dims(pass_.w.getType());
    SmallVector<AffineExpr> apart(dims), joined;
    apart[0] = shapes_.constant(pass_.sizes.out / pass_.sizes.group);
    apart.insert(apart.begin(), shapes_.constant(pass_.sizes.group));
    SmallVector<int64_t> channelsLast{1};
    joined.push_back(apart[1]);
    for (int64_t dim = 2; dim < rank_; ++dim) {
      channelsLast.push_back(dim + 1);
      joined.push_back(dims[dim]);
    }
    channelsLast.append({0, 2});
    joined.push_back(shapes_.constant(pass_.sizes.in));
    return changing(
        graph_.reshape(graph_.transpose(graph_.reshape(pass_.w, apart), channelsLast), joined));
  }
  Value changing(Value w) {
    return create("fourier_changing_weights", w, {tile_, dilations_, group_});
  }

  Value output() {
    return channelsFirst(create("fourier_output",
                                {product(ofImage(), ofWeights()), pass_.op->getOperand(2)},
                                {tile_, window_, list("image", pass_.sizes.output), group_}));
  }
  Value imageGradient() {
    Value bias = pass_.op->getOperand(2);
    Value y = create("fourier_image_gradient", product(ofOutputs(), ofTurnedWeights()),
                     {tile_, window_, list("image", pass_.sizes.input), pads_, group_});
    if (!isa<NoneType>(bias.getType()))
      y = graph_.binary("add", y, bias);
    return channelsFirst(y);
  }
  Value weightsGradient() {
    Value y = create("fourier_weights_gradient", product(turned(ofImage()), ofOutputs()),
                     {tile_, dilations_, list("kernel", pass_.kernel), group_});
    SmallVector<int64_t> outputsFirst{rank_ - 1};
    for (int64_t dim = 0; dim + 1 < rank_; ++dim)
      outputsFirst.push_back(dim);
    return graph_.transpose(y, outputsFirst);
  }

  const Pass &pass_;
  OpBuilder builder_;
  graph::ShapeContext shapes_;
  graph::GraphBuilder graph_;
  int64_t rank_;
  NamedAttribute tile_, window_, pads_, dilations_, group_;
};

} // namespace

LogicalResult fourierPasses(func::FuncOp function, const Options &options) {
  if (options.precision != Precision::Fast ||
      !options.machine.templates->find(kernel::algorithm::fourier))
    return success();
  for (Layer &layer : layersOf(function)) {
    LayerChoice(layer, options).run();
    for (const Pass &pass : layer)
      if (*pass.tile > 0)
        Transformation(pass, *fourierTile(pass.sizes.window, *pass.tile)).run();
  }
  return success();
}

} // namespace tensmith::rewrite

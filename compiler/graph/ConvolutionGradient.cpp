// Convolution: the gradients are convolutions and products again.
//
// The data's gradient is a convolution of the cotangent with the weights flipped. Where the
// convolution has strides, each remainder of the stride has weights and an image of its own, which
// are interleaved, so that nothing is multiplied by the zeros between strides; all of them by one
// convolution where the strides divide the window. That is what a transposed convolution is made of
// too (Decomposable::decompose). The weights' gradient is a matrix product of the cotangent and the
// patches under the window, or several where those would be large.
#include "compiler/graph/ChannelOrder.h"
#include "compiler/graph/ConvolutionPasses.h"
#include "compiler/graph/SamplingGradient.h"
#include "compiler/graph/WindowGradient.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

using namespace windows;

/// The spatial sizes of weights, where they are known.
std::optional<SmallVector<int64_t>> kernelOf(const GradientCode &code, Value weights) {
  SmallVector<int64_t> kernel;
  GraphCode::Dims dims = code.dims(weights);
  for (AffineExpr dim : ArrayRef(dims).drop_front(2)) {
    auto size = constant(dim);
    if (!size)
      return std::nullopt;
    kernel.push_back(*size);
  }
  return kernel;
}

/// Weights [M, C / group, window...] for the way back: [C, M / group, window...], flipped.
Value flipped(const GradientCode &code, Value w, int64_t group) {
  GraphCode::Dims dims = code.dims(w), apart = dims;
  auto &shapes = code.graph.shapes;
  AffineExpr outputs = shapes.simplify(dims[0].floorDiv(group));
  apart[0] = outputs;
  apart.insert(apart.begin(), code.size(group));
  SmallVector<int64_t> permutation{0, 2, 1}, axes;
  for (int64_t dim = 2; dim < int64_t(dims.size()); ++dim) {
    permutation.push_back(dim + 1);
    axes.push_back(dim);
  }
  Value turned = code.transpose(code.reshape(w, apart), permutation);
  dims[0] = shapes.simplify(dims[1] * group);
  dims[1] = outputs;
  return code.op("graph.reverse", {code.reshape(turned, dims)}, {code.integers("axes", axes)});
}

/// A stride-1 convolution with flipped weights.
Value convolvedBack(const GradientCode &code, Value x, Value w, int64_t group,
                    ArrayRef<int64_t> low, ArrayRef<int64_t> high, ArrayRef<int64_t> dilations) {
  SmallVector<int64_t> before(2, 0), after(2, 0), pads;
  for (int64_t size : low) {
    before.push_back(std::min<int64_t>(size, 0));
    pads.push_back(std::max<int64_t>(size, 0));
  }
  for (int64_t size : high) {
    after.push_back(std::min<int64_t>(size, 0));
    pads.push_back(std::max<int64_t>(size, 0));
  }
  return code.op(
      "graph.conv", {code.pad(x, before, after), flipped(code, w, group), code.graph.none()},
      {code.integers("strides", SmallVector<int64_t>(low.size(), 1)), code.integers("pads", pads),
       code.integers("dilations", dilations), code.integer("group", group)});
}

/// With zeros between the cotangent's elements, for dilations.
Value spreadConvolution(const GradientCode &code, Value g, Value w, const Windows &windows,
                        int64_t group, ArrayRef<AffineExpr> sizes) {
  size_t spatial = windows.kernel.size();
  SmallVector<int64_t> steps(2, 1), low, high;
  llvm::append_range(steps, windows.strides);
  Value x = code.spread(g, steps);
  if (!x)
    return x;
  GraphCode::Dims dims = code.dims(x);
  for (size_t dim = 0; dim < spatial; ++dim) {
    low.push_back(windows.span(dim) - windows.low[dim]);
    auto after = constant(
        code.graph.shapes.simplify(sizes[dim] - dims[2 + dim] - low.back() + windows.span(dim)));
    high.push_back(after.value_or(windows.span(dim) - windows.high[dim]));
  }
  x = convolvedBack(code, x, w, group, low, high, windows.dilations);
  for (size_t dim = 0; dim < spatial; ++dim)
    x = code.sliceDim(x, int64_t(2 + dim), 0, 1, sizes[dim]);
  return x;
}

/// One convolution for each remainder of the strides, with the weights at those positions.
class PhasedConvolution {
public:
  PhasedConvolution(const GradientCode &code, Value g, Value w, const Windows &windows,
                    int64_t group, ArrayRef<AffineExpr> sizes)
      : code_(code), g_(g), w_(w), windows_(windows), group_(group), sizes_(sizes),
        counts_(code.dims(g)), phase_(sizes.size()) {}

  Value run() {
    Value x = isEven() ? together() : from(0);
    if (!x)
      return x;
    for (size_t dim = 0; dim < sizes_.size(); ++dim)
      x = code_.sliceDim(x, int64_t(2 + dim), windows_.low[dim], 1, sizes_[dim]);
    return x;
  }

private:
  /// By how much the images of the phases are longer than the cotangent, so that together they
  /// reach the end of the padded image. Where the size doesn't tell, by the most that it can be:
  /// what the windows leave over at the end is less than a stride.
  int64_t longer(size_t dim) {
    int64_t stride = windows_.strides[dim], high = windows_.high[dim];
    AffineExpr padded = sizes_[dim] + windows_.low[dim] + std::max<int64_t>(high, 0);
    auto exact = constant(code_.graph.shapes.simplify(padded.ceilDiv(stride) - counts_[2 + dim]));
    return exact.value_or((windows_.span(dim) + std::max<int64_t>(-high, 0)) / stride + 1);
  }

  int64_t taps(size_t dim) {
    return (windows_.kernel[dim] - phase_[dim] + windows_.strides[dim] - 1) / windows_.strides[dim];
  }

  /// Whether all phases have as many weights.
  bool isEven() {
    for (auto [kernel, stride] : llvm::zip_equal(windows_.kernel, windows_.strides))
      if (kernel % stride)
        return false;
    return !sizes_.empty();
  }

  /// All phases by one convolution, side by side as channels of each group, interleaved.
  Value together() {
    SmallVector<Value> weights;
    windows::forEachPosition(windows_.strides, [&](ArrayRef<int64_t> phase) {
      phase_.assign(phase.begin(), phase.end());
      weights.push_back(phaseWeights());
    });
    Value images = convolved(code_.concat(weights, 1));
    if (!images)
      return images;
    // With the channels last, as which images are in memory.
    int64_t spatial = int64_t(sizes_.size()), rank = spatial + 2;
    images = code_.transpose(images, toChannelsLast(rank));
    auto &shapes = code_.graph.shapes;
    AffineExpr channels = code_.dims(w_)[1];
    GraphCode::Dims apart = code_.dims(images), joined = apart;
    SmallVector<int64_t> permutation{0};
    apart.back() = code_.size(group_);
    for (int64_t dim = 0; dim < spatial; ++dim) {
      apart.push_back(code_.size(windows_.strides[dim]));
      joined[1 + dim] = shapes.simplify(joined[1 + dim] * windows_.strides[dim]);
      permutation.append({1 + dim, rank + dim});
    }
    apart.push_back(channels);
    joined.back() = shapes.simplify(channels * group_);
    permutation.append({1 + spatial, rank + spatial});
    Value turned = code_.transpose(code_.reshape(images, apart), permutation);
    return code_.transpose(code_.reshape(turned, joined), toChannelsFirst(rank));
  }

  /// The image of the phases chosen for the dimensions before, interleaved in those from `dim` on.
  /// Null where the windows have no positions there.
  Value from(size_t dim) {
    if (dim == sizes_.size())
      return image();
    SmallVector<Value> phases;
    Value any;
    for (phase_[dim] = 0; phase_[dim] < windows_.strides[dim]; ++phase_[dim]) {
      phases.push_back(phase_[dim] < windows_.kernel[dim] ? from(dim + 1) : Value());
      any = any ? any : phases.back();
    }
    for (Value &phase : phases)
      phase = phase || !any ? phase : code_.zerosLike(any);
    return interleaved(code_, phases, int64_t(2 + dim));
  }

  Value image() {
    Value w = phaseWeights();
    return w ? convolved(w) : w;
  }

  Value phaseWeights() {
    Value w = w_;
    for (size_t dim = 0; dim < sizes_.size(); ++dim)
      w = code_.sliceDim(w, int64_t(2 + dim), phase_[dim], windows_.strides[dim],
                         code_.size(taps(dim)));
    return w;
  }

  Value convolved(Value w) {
    SmallVector<int64_t> low, high;
    for (size_t dim = 0; dim < sizes_.size(); ++dim) {
      low.push_back(taps(dim) - 1);
      high.push_back(longer(dim));
    }
    return w ? convolvedBack(code_, g_, w, group_, low, high,
                             SmallVector<int64_t>(sizes_.size(), 1))
             : w;
  }

  const GradientCode &code_;
  Value g_, w_;
  const Windows &windows_;
  int64_t group_;
  GraphCode::Dims sizes_, counts_;
  SmallVector<int64_t> phase_;
};

/// The transpose of convolving an image of those sizes with w: what it makes of g.
Value transposedConvolution(const GradientCode &code, Value g, Value w, const Windows &windows,
                            int64_t group, ArrayRef<AffineExpr> sizes) {
  if (!g || !w)
    return {};
  auto isOne = [](int64_t step) { return step == 1; };
  auto isNegative = [](int64_t pad) { return pad < 0; };
  constexpr int64_t kMostPhases = 64; // each is a convolution of its own
  auto isLong = [](int64_t stride) { return stride > kMostPhases; };
  if (llvm::all_of(windows.strides, isOne) || llvm::any_of(windows.strides, isLong) ||
      !llvm::all_of(windows.dilations, isOne) || llvm::any_of(windows.low, isNegative))
    return spreadConvolution(code, g, w, windows, group, sizes);
  return PhasedConvolution(code, g, w, windows, group, sizes).run();
}

/// [N, group * channels, spatial...] as [group, channels, N * positions] or its transpose: by way
/// of channels-last, as which images are in memory.
Value asMatrices(const GradientCode &code, Value x, int64_t group, bool positionsLast) {
  if (!x)
    return x;
  GraphCode::Dims dims = code.dims(x);
  auto &shapes = code.graph.shapes;
  AffineExpr channels = shapes.simplify(dims[1].floorDiv(group)),
             all = shapes.simplify(dims[0] * shapes.product(ArrayRef(dims).drop_front(2)));
  x = code.transpose(x, toChannelsLast(int64_t(dims.size())));
  x = code.transpose(code.reshape(x, {all, code.size(group), channels}), {1, 0, 2});
  return positionsLast ? code.transpose(x, {0, 2, 1}) : x;
}

/// The image's part under one position after the other, channel by channel: no products of
/// matrices.
Value depthwiseWeightsGradient(const GradientCode &code, Value image, Value g,
                               const Windows &windows) {
  GraphCode::Dims outputs = code.dims(g);
  auto counts = ArrayRef(outputs).drop_front(2);
  SmallVector<int64_t> summed{0};
  for (size_t dim = 2; dim < outputs.size(); ++dim)
    summed.push_back(int64_t(dim));
  SmallVector<Value> parts;
  forEachPosition(windows.kernel, [&](ArrayRef<int64_t> at) {
    Value products = code.mul(g, windowElements(code, image, windows, at, counts));
    parts.push_back(code.reshape(code.reduce("graph.reduce_sum", products, summed, false),
                                 {outputs[1], code.size(1), code.size(1)}));
  });
  return code.concat(parts, 2);
}

/// How many positions of the window stand side by side in one matrix of patches: all, unless it
/// would be large; then about as many in each of several.
size_t positionsTogether(const GradientCode &code, Value x, const Windows &windows,
                         ArrayRef<AffineExpr> counts) {
  constexpr int64_t kMostElements = 2 << 20, kUnknownRows = 1 << 16;
  GraphCode::Dims dims = code.dims(x);
  auto rows = constant(code.graph.shapes.simplify(dims[0] * code.graph.shapes.product(counts)));
  auto channels = constant(dims[1]);
  int64_t elements = rows.value_or(kUnknownRows) * channels.value_or(1);
  int64_t most = std::max<int64_t>(kMostElements / std::max<int64_t>(elements, 1), 1);
  int64_t all = std::max<int64_t>(windows.count(), 1), parts = (all + most - 1) / most;
  return size_t((all + parts - 1) / parts);
}

/// The gradient [M, C / group, window...] for an image x of cotangent g.
Value weightsGradient(const GradientCode &code, Value x, Value g, const Windows &windows,
                      int64_t group) {
  if (!x || !g)
    return {};
  auto &shapes = code.graph.shapes;
  GraphCode::Dims outputs = code.dims(g), dims{outputs[1]};
  dims.push_back(shapes.simplify(code.dims(x)[1].floorDiv(group)));
  for (int64_t size : windows.kernel)
    dims.push_back(code.size(size));
  auto counts = ArrayRef(outputs).drop_front(2);
  Value image = padded(code, x, windows);
  if (constant(dims[1]) == 1 && constant(dims[0]) == group)
    return code.reshape(depthwiseWeightsGradient(code, image, g, windows), dims);
  Value cotangent = asMatrices(code, g, group, true);
  size_t together = positionsTogether(code, x, windows, counts);
  SmallVector<Value> parts, columns;
  auto multiply = [&] {
    if (columns.empty())
      return;
    AffineExpr count = code.size(int64_t(columns.size()));
    Value product = code.matmul(cotangent, code.concat(columns, 2));
    product = code.reshape(product, {dims[0], count, dims[1]});
    parts.push_back(code.transpose(product, {0, 2, 1}));
    columns.clear();
  };
  forEachPosition(windows.kernel, [&](ArrayRef<int64_t> at) {
    columns.push_back(
        asMatrices(code, windowElements(code, image, windows, at, counts), group, false));
    if (columns.size() == together)
      multiply();
  });
  multiply();
  return code.reshape(code.concat(parts, 2), dims);
}

/// Whether the gradients stay whole until the compiler chooses an algorithm for them
/// (rewrite/FourierPasses.cpp): of stride 1, over one or two dimensions of known size.
bool staysWhole(const GradientCode &code, Value x, const Windows &windows) {
  constexpr size_t kMostDimensions = 2;
  auto isOne = [](int64_t step) { return step == 1; };
  auto isNegative = [](int64_t pad) { return pad < 0; };
  auto isOpen = [](AffineExpr size) { return !constant(size); };
  GraphCode::Dims dims = code.dims(x);
  return windows.kernel.size() <= kMostDimensions && windows.count() > 1 &&
         llvm::all_of(windows.strides, isOne) && llvm::none_of(windows.low, isNegative) &&
         llvm::none_of(windows.high, isNegative) &&
         llvm::none_of(ArrayRef(dims).drop_front(), isOpen);
}

/// What an operator of this convolution's attributes has.
SmallVector<NamedAttribute> attributesOf(const GradientCode &code, const Windows &windows,
                                         int64_t group) {
  SmallVector<int64_t> pads(windows.low);
  llvm::append_range(pads, windows.high);
  return {code.integers("strides", windows.strides), code.integers("pads", pads),
          code.integers("dilations", windows.dilations), code.integer("group", group)};
}

Value wholeWeightsGradient(const GradientCode &code, Value x, Value g, const Windows &windows,
                           int64_t group) {
  SmallVector<NamedAttribute> attributes = attributesOf(code, windows, group);
  attributes.push_back(code.integers("kernel", windows.kernel));
  return code.op("graph.conv_weights_gradient", {x, g}, attributes);
}

Value wholeImageGradient(const GradientCode &code, Value g, Value w, const Windows &windows,
                         int64_t group) {
  SmallVector<NamedAttribute> attributes = attributesOf(code, windows, group);
  attributes.push_back(
      code.integers("output_padding", SmallVector<int64_t>(windows.kernel.size(), 0)));
  return code.op("graph.conv_transpose", {g, w, code.graph.none()}, attributes);
}

Value convolution(const Pullback &pull, unsigned operand) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0), w = pull.operand(1);
  if (!GraphCode::isRanked(x) || !GraphCode::isRanked(w))
    return {};
  auto kernel = kernelOf(code, w);
  if (!kernel || isChannelsLast(pull.op))
    return {};
  Windows windows = windowsOf(pull.op, *kernel);
  Value g = pull.cotangent();
  int64_t group = integerOf(pull.op, "group", 1);
  if (!g)
    return {};
  bool isDepthwise = group > 1 && constant(code.dims(w)[0]) == group;
  bool isWhole = !isDepthwise && staysWhole(code, x, windows) && staysWhole(code, w, windows);
  if (operand == 1)
    return code.reshapeLike(isWhole ? wholeWeightsGradient(code, x, g, windows, group)
                                    : weightsGradient(code, x, g, windows, group),
                            w);
  GraphCode::Dims dims = code.dims(x);
  return code.reshapeLike(
      isWhole ? wholeImageGradient(code, g, w, windows, group)
              : transposedConvolution(code, g, w, windows, group, ArrayRef(dims).drop_front(2)),
      x);
}

/// Without the bias, and with the channels in dimension 1.
LogicalResult plainConvolution(const GradientCode &code, Operation *op,
                               SmallVectorImpl<Value> &results) {
  Value bias = op->getOperand(2), y;
  bool isLast = isChannelsLast(op);
  if (!GraphCode::isRanked(op->getOperand(0)) || (GraphCode::isAbsent(bias) && !isLast))
    return failure();
  int64_t rank = GraphCode::rank(op->getOperand(0));
  if (isLast)
    y = withChannelsFirst(code, op, {op->getOperand(1), code.graph.none()});
  else
    y = code.op("graph.conv", {op->getOperand(0), op->getOperand(1), code.graph.none()},
                llvm::to_vector(op->getAttrs()));
  if (!GraphCode::isAbsent(bias))
    y = code.add(y, code.alongDimension(bias, isLast ? rank - 1 : 1, rank));
  return finish(y, results);
}

/// The elements at each position of the blocks, side by side: the image's columns.
Value columnsOfImage(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0), g = pull.cotangent();
  auto image = code.graph.shapes.constants(pull.operand(1));
  auto block = code.graph.shapes.constants(pull.operand(2));
  if (!g || !image || !block)
    return {};
  Windows windows = windowsOf(pull.op, *block);
  GraphCode::Dims dims = code.dims(x), counts, apart = code.dims(g);
  for (size_t dim = 0; dim < block->size(); ++dim)
    counts.push_back(
        code.size(((*image)[dim] + windows.low[dim] + windows.high[dim] - windows.span(dim) - 1) /
                      windows.strides[dim] +
                  1));
  apart.resize(2);
  apart.append({code.size(1), dims[2]});
  Value wide = padded(code, g, windows);
  SmallVector<Value> parts;
  forEachPosition(*block, [&](ArrayRef<int64_t> at) {
    parts.push_back(code.reshape(windowElements(code, wide, windows, at, counts), apart));
  });
  return code.reshapeLike(code.concat(parts, 2), x);
}

} // namespace

LogicalResult ConvTransposeOp::decompose(GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  GradientCode code(graph);
  Value x = getX(), w = getW(), bias = getBias();
  if (!GraphCode::isRanked(getY()) || !GraphCode::isRanked(x) || !GraphCode::isRanked(w))
    return failure();
  auto kernel = kernelOf(code, w);
  if (!kernel)
    return failure();
  GraphCode::Dims dims = code.dims(getY());
  Value y = transposedConvolution(code, x, w, windowsOf(*this, *kernel), int64_t(getGroup()),
                                  ArrayRef(dims).drop_front(2));
  if (!GraphCode::isAbsent(bias))
    y = code.add(y, code.alongDimension(bias, 1, int64_t(dims.size())));
  return finish(y, results);
}

/// g, whose positions are said by the image's sizes: from those follows that slices of the image
/// are within it, which no name of a size that happens to be as large tells.
static Value withPositionsOf(const GradientCode &code, Value g, Value x, const Windows &windows) {
  GraphCode::Dims dims = code.dims(g), image = code.dims(x);
  for (size_t dim = 0; dim < windows.kernel.size(); ++dim) {
    AffineExpr span = image[2 + dim] + windows.low[dim] + windows.high[dim] - windows.span(dim) - 1;
    dims[2 + dim] = code.graph.shapes.simplify(span.floorDiv(windows.strides[dim]) + 1);
  }
  return code.reshape(g, dims);
}

LogicalResult ConvWeightsGradientOp::decompose(GraphBuilder &graph,
                                               SmallVectorImpl<Value> &results) {
  GradientCode code(graph);
  Value x = getX(), g = getG();
  if (!GraphCode::isRanked(x) || !GraphCode::isRanked(g))
    return failure();
  Windows windows = windowsOf(*this, getKernel());
  return finish(
      weightsGradient(code, x, withPositionsOf(code, g, x, windows), windows, int64_t(getGroup())),
      results);
}

std::span<const NamedGradientRule> convolutionGradients() {
  static const NamedGradientRule kRules[] = {
      {"conv", expandedOrPulled(plainConvolution, convolution, Linear::Each, 0b11)},
      {"deform_conv", expanded(sampling::deformConv)},
      {"col2im", pulled(columnsOfImage, Linear::Jointly, 1)},
      {"winograd_input", kNoGradient},
      {"winograd_weights", kNoGradient},
      {"winograd_output", kNoGradient},
      {"fourier_input", kNoGradient},
      {"fourier_weights", kNoGradient},
      {"fourier_output", kNoGradient},
      {"fourier_changing_weights", kNoGradient},
      {"fourier_gradient", kNoGradient},
      {"fourier_image_gradient", kNoGradient},
      {"fourier_weights_gradient", kNoGradient},
      {"fourier_conv", kNoGradient},
  };
  return kRules;
}

} // namespace tensmith::graph

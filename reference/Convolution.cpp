// Reference evaluation of convolution: conv, conv_transpose, conv_weights_gradient and deform_conv
// (pooling is in Pooling.cpp).
//
// Each is a sum over channels and the window's elements of one weight times a run of pixels, so the
// inner loop goes over contiguous output and is fast enough for whole models. Integers accumulate
// in 64 bits and wrap at the width of the result.
#include "reference/Window.h"

#include <algorithm>
#include <cmath>

namespace tensmith::reference {

namespace {

struct Groups {
  int64_t images = 0, groups = 1;
  int64_t in = 0, out = 0; // channels of a group
};

Shape spatial(const HostTensor &tensor) {
  return tensor.rank() > 2 ? Shape(tensor.shape().begin() + 2, tensor.shape().end()) : Shape();
}

Shape imagesOf(const Groups &g, const Shape &positions) {
  Shape shape{g.images, g.groups * g.out};
  shape.insert(shape.end(), positions.begin(), positions.end());
  return shape;
}

int64_t groupCount(Workspace &workspace, const Invocation &invocation, const char *attribute) {
  const int64_t groups = invocation.attributes.integer(attribute, 1);
  if (groups < 1 || groups > kLargestExtent)
    workspace.rejectAttribute(attribute, "must be positive");
  return std::clamp<int64_t>(groups, 1, kLargestExtent);
}

template <typename T> void addBias(std::span<T> y, std::span<const T> bias, const Groups &g) {
  const int64_t channels = g.groups * g.out;
  if (bias.empty() || y.empty())
    return;
  const int64_t positions = int64_t(y.size()) / (g.images * channels);
  for (int64_t plane = 0; plane < g.images * channels; ++plane)
    for (int64_t p = 0; p < positions; ++p) {
      T &value = y[size_t(plane * positions + p)];
      value = multiplyAdd(bias[size_t(plane % channels)], T(1), value);
    }
}

const HostTensor &biasOperand(Workspace &workspace, const Invocation &invocation, size_t index,
                              int64_t channels) {
  static const HostTensor none;
  if (!invocation.present(index))
    return none;
  const HostTensor &bias = workspace.operand(index, "bias");
  if (workspace.ok())
    workspace.expectShape(bias, "bias", Shape{channels});
  return bias;
}

// ---- conv
// -----------------------------------------------------------------------------------------------

/// For each element k of the window, image and pair of a group's channels: visit(k, where x's plane
/// begins, where y's does, where the weight is).
template <typename Visit> void forEachWeight(const Window &window, const Groups &g, Visit visit) {
  const int64_t imageSize = window.imageSize(), gridSize = window.gridSize();
  const int64_t kernelSize = window.kernelSize();
  int64_t element = 0;
  forEachPosition(window.kernel, [&](const Shape &k) {
    for (int64_t n = 0; n < g.images; ++n)
      for (int64_t m = 0; m < g.groups * g.out; ++m)
        for (int64_t c = 0; c < g.in; ++c)
          visit(k, ((n * g.groups + m / g.out) * g.in + c) * imageSize,
                (n * g.groups * g.out + m) * gridSize, (m * g.in + c) * kernelSize + element);
    ++element;
  });
}

/// y[n, m] += x[n, c] seen through the window, times w[m, c].
template <typename T>
void convolve(const Window &window, const Groups &g, const T *x, const T *w, T *y) {
  forEachWeight(window, g, [&](const Shape &k, int64_t image, int64_t grid, int64_t at) {
    const T weight = w[at], *plane = x + image;
    T *sums = y + grid;
    forEachRow(window, k, [&](int64_t to, int64_t from, int64_t count, int64_t step) {
      for (int64_t i = 0; i < count; ++i)
        sums[to + i] = multiplyAdd(weight, plane[from + i * step], sums[to + i]);
    });
  });
}

Groups convolutionGroups(Workspace &workspace, const Invocation &invocation, const HostTensor &w,
                         int64_t images, int64_t channels) {
  Groups g;
  g.images = images;
  g.groups = groupCount(workspace, invocation, "group");
  if (!workspace.ok())
    return g;
  g.in = w.shape()[1];
  g.out = w.shape()[0] / g.groups;
  if (channels % g.groups != 0 || channels / g.groups != g.in || w.shape()[0] % g.groups != 0)
    workspace.reject("w", "has shape " + toString(w.shape()) + ", which doesn't fit " +
                              std::to_string(channels) + " channels in " +
                              std::to_string(g.groups) + " groups");
  return g;
}

/// Dimensions that neither the window nor padding touches are one with the dimension before them:
/// 1x1 convolutions then run over whole planes.
void mergeDimensions(Window &window) {
  auto plain = [&](size_t axis) {
    return window.kernel[axis] == 1 && window.strides[axis] == 1 && window.lows[axis] == 0 &&
           window.highs[axis] == 0;
  };
  while (window.rank() > 1 && plain(window.rank() - 1) && plain(window.rank() - 2)) {
    const size_t before = window.rank() - 2;
    window.image[before] *= window.image.back();
    window.grid[before] *= window.grid.back();
    for (auto *list : {&window.image, &window.grid, &window.kernel, &window.strides,
                       &window.dilations, &window.lows, &window.highs})
      list->pop_back();
  }
}

template <typename T>
Outcome convIn(Workspace &workspace, const Invocation &invocation, const HostTensor &x,
               const HostTensor &w, const HostTensor &bias, Window window, const Groups &g,
               DataType type) {
  const bool last = workspace.isChannelsLast();
  std::span<T> pixels = workspace.widen<T>(x), weights = workspace.widen<T>(w);
  std::span<T> offsets = workspace.widen<T>(bias);
  if (workspace.ok() && last)
    pixels = toChannelsFirst<T>(workspace, pixels, x.shape());
  Shape shape = imagesOf(g, window.grid);
  std::span<T> y = workspace.zeros<T>(shape);
  if (!workspace.ok())
    return workspace.status();
  mergeDimensions(window);
  if (!y.empty())
    convolve(window, g, pixels.data(), weights.data(), y.data());
  addBias<T>(y, offsets, g);
  if (last) {
    y = toChannelsLast<T>(workspace, y, shape);
    shape = channelsLast(shape);
  }
  return workspace.finish(workspace.narrow<T>(y, type, shape));
}

Outcome evaluateConv(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x"), &w = workspace.operand(1, "w");
  workspace.require(x.rank() >= 3, "x", "must have a batch, channels and spatial dimensions");
  workspace.require(w.rank() == x.rank(), "w", "must have as many dimensions as x");
  if (!workspace.ok())
    return workspace.status();
  Shape shape = workspace.isChannelsLast() ? channelsFirst(x.shape()) : x.shape();
  Groups g = convolutionGroups(workspace, invocation, w, shape[0], shape[1]);
  const HostTensor &bias = biasOperand(workspace, invocation, 2, w.shape()[0]);
  Window window = windowOf(workspace, invocation, spatial(w));
  placeOnImage(workspace, window, Shape(shape.begin() + 2, shape.end()), false);
  if (!workspace.ok())
    return workspace.status();
  const bool narrow = invocation.attributes.integer("accumulate_i32") && !isFloat(x.type());
  return withWideType(x.type(), [&](auto wide) {
    return convIn<decltype(wide)>(workspace, invocation, x, w, bias, window, g,
                                  narrow ? DataType::I32 : x.type());
  });
}

// ---- conv_transpose
// -------------------------------------------------------------------------------------

/// y[n, m], through the window at each of x's positions, += x[n, c] * w[c, m].
template <typename T>
void spread(const Window &window, const Groups &g, const T *x, const T *w, T *y) {
  const int64_t imageSize = window.imageSize(), gridSize = window.gridSize();
  const int64_t kernelSize = window.kernelSize();
  int64_t element = 0;
  forEachPosition(window.kernel, [&](const Shape &k) {
    for (int64_t n = 0; n < g.images; ++n)
      for (int64_t c = 0; c < g.groups * g.in; ++c)
        for (int64_t m = 0; m < g.out; ++m) {
          const T weight = w[(c * g.out + m) * kernelSize + element];
          const T *plane = x + (n * g.groups * g.in + c) * gridSize;
          T *sums = y + ((n * g.groups + c / g.in) * g.out + m) * imageSize;
          forEachRow(window, k, [&](int64_t from, int64_t to, int64_t count, int64_t step) {
            for (int64_t i = 0; i < count; ++i)
              sums[to + i * step] = multiplyAdd(weight, plane[from + i], sums[to + i * step]);
          });
        }
    ++element;
  });
}

/// The window's grid is x, and its image y: stride * (in - 1) + output_padding + reach - low -
/// high.
void placeTransposed(Workspace &workspace, const Invocation &invocation, Window &window,
                     const HostTensor &x) {
  std::vector<int64_t> extra = invocation.attributes.integers("output_padding");
  if (extra.empty())
    extra.assign(window.rank(), 0);
  if (extra.size() != window.rank())
    workspace.rejectAttribute("output_padding", "must have a value for each spatial dimension");
  if (!workspace.ok())
    return;
  window.grid = spatial(x);
  for (size_t axis = 0; axis < window.rank(); ++axis) {
    if (window.grid[axis] > kLargestExtent || window.kernel[axis] < 1 || extra[axis] < 0 ||
        extra[axis] > kLargestExtent) {
      workspace.reject("x", "has a dimension, a window or an output padding out of range");
      return;
    }
    // Every factor is at most kLargestExtent, so that this can't overflow.
    const int64_t size = window.strides[axis] * (window.grid[axis] - 1) + extra[axis] +
                         window.reach(axis) - window.lows[axis] - window.highs[axis];
    if (size < 0)
      workspace.reject("x", "of shape " + toString(x.shape()) +
                                " gives a result of impossible size; check pads and strides");
    window.image.push_back(size);
  }
}

Groups transposedGroups(Workspace &workspace, const Invocation &invocation, const HostTensor &x,
                        const HostTensor &w) {
  Groups g;
  g.groups = groupCount(workspace, invocation, "group");
  if (!workspace.ok())
    return g;
  g.images = x.shape()[0];
  g.in = x.shape()[1] / g.groups;
  g.out = w.shape()[1];
  workspace.require(w.shape()[0] == x.shape()[1] && x.shape()[1] % g.groups == 0, "w",
                    "must have as many rows as x has channels, a multiple of the groups");
  if (g.out > kLargestExtent)
    workspace.reject("w", "has too many channels");
  return g;
}

Outcome evaluateConvTranspose(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x"), &w = workspace.operand(1, "w");
  workspace.require(x.rank() >= 3, "x", "must have a batch, channels and spatial dimensions");
  workspace.require(w.rank() == x.rank(), "w", "must have as many dimensions as x");
  if (!workspace.ok())
    return workspace.status();
  Groups g = transposedGroups(workspace, invocation, x, w);
  const HostTensor &bias = biasOperand(workspace, invocation, 2, g.groups * g.out);
  Window window = windowOf(workspace, invocation, spatial(w));
  placeTransposed(workspace, invocation, window, x);
  if (!workspace.ok())
    return workspace.status();
  return withWideType(x.type(), [&](auto wide) -> Outcome {
    using T = decltype(wide);
    Shape shape = imagesOf(g, window.image);
    std::span<T> pixels = workspace.widen<T>(x), weights = workspace.widen<T>(w);
    std::span<T> offsets = workspace.widen<T>(bias), y = workspace.zeros<T>(shape);
    if (!workspace.ok())
      return workspace.status();
    if (!y.empty() && !pixels.empty())
      spread(window, g, pixels.data(), weights.data(), y.data());
    addBias<T>(y, offsets, g);
    return workspace.finish(workspace.narrow<T>(y, x.type(), shape));
  });
}

// ---- conv_weights_gradient
// ------------------------------------------------------------------------------

/// w[m, c] at each of the window's elements: x[n, c] seen through it, times y[n, m], summed up.
template <typename T>
void correlate(const Window &window, const Groups &g, const T *x, const T *y, T *w) {
  forEachWeight(window, g, [&](const Shape &k, int64_t image, int64_t grid, int64_t at) {
    const T *plane = x + image, *changes = y + grid;
    forEachRow(window, k, [&](int64_t to, int64_t from, int64_t count, int64_t step) {
      for (int64_t i = 0; i < count; ++i)
        w[at] = multiplyAdd(changes[to + i], plane[from + i * step], w[at]);
    });
  });
}

Outcome evaluateConvWeightsGradient(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x"), &y = workspace.operand(1, "g");
  workspace.require(x.rank() >= 3, "x", "must have a batch, channels and spatial dimensions");
  workspace.require(y.rank() == x.rank(), "g", "must have as many dimensions as x");
  if (!workspace.ok())
    return workspace.status();
  std::vector<int64_t> kernel = invocation.attributes.integers("kernel");
  if (int64_t(kernel.size()) + 2 != x.rank())
    workspace.rejectAttribute("kernel", "must have a size for each spatial dimension");
  Groups g;
  g.images = x.shape()[0];
  g.groups = groupCount(workspace, invocation, "group");
  g.in = x.shape()[1] / g.groups;
  g.out = y.shape()[1] / g.groups;
  workspace.require(x.shape()[1] % g.groups == 0, "x", "must have channels for each group");
  workspace.require(y.shape()[1] % g.groups == 0 && y.shape()[0] == x.shape()[0], "g",
                    "must have x's images, and channels for each group");
  if (!workspace.ok())
    return workspace.status();
  Window window = windowOf(workspace, invocation, Shape(kernel.begin(), kernel.end()));
  placeOnImage(workspace, window, spatial(x), false);
  workspace.require(!workspace.ok() || spatial(y) == window.grid, "g",
                    "must have the positions of the window");
  if (!workspace.ok())
    return workspace.status();
  return withWideType(x.type(), [&](auto wide) -> Outcome {
    using T = decltype(wide);
    Shape shape{y.shape()[1], g.in};
    shape.insert(shape.end(), kernel.begin(), kernel.end());
    std::span<T> pixels = workspace.widen<T>(x), changes = workspace.widen<T>(y);
    std::span<T> w = workspace.zeros<T>(shape);
    if (!workspace.ok())
      return workspace.status();
    if (!w.empty() && !changes.empty())
      correlate(window, g, pixels.data(), changes.data(), w.data());
    return workspace.finish(workspace.narrow<T>(w, x.type(), shape));
  });
}

// ---- deform_conv
// ----------------------------------------------------------------------------------------

/// Multilinear interpolation at `at`; elements outside the image are zeros.
double sampleLinearly(const double *plane, const Shape &image, std::span<const double> at) {
  double sum = 0;
  for (size_t corner = 0; corner < size_t(1) << image.size(); ++corner) {
    double weight = 1;
    int64_t offset = 0;
    bool inside = true;
    for (size_t axis = 0; axis < image.size() && inside; ++axis) {
      const double low = std::floor(at[axis]), position = low + double(corner >> axis & 1);
      weight *= (corner >> axis & 1) ? at[axis] - low : 1 - (at[axis] - low);
      inside = position >= 0 && position < double(image[axis]); // false for what isn't a number
      if (inside)
        offset = offset * image[axis] + int64_t(position);
    }
    if (inside)
      sum += weight * plane[offset];
  }
  return sum;
}

struct Deformation {
  Window window;
  Groups groups;
  int64_t offsetGroups = 1;
  const double *x, *w, *offset, *mask;
};

/// Adds to y what image n's channel c contributes through the window's element number `element` at
/// `k`.
void deformChannel(const Deformation &d, int64_t n, int64_t c, int64_t element, const Shape &k,
                   double *y) {
  const Window &window = d.window;
  const Groups &g = d.groups;
  const int64_t channels = g.groups * g.in, positions = window.gridSize();
  const int64_t kernelSize = window.kernelSize(), rank = int64_t(window.rank());
  const int64_t block =
      (n * d.offsetGroups + c / (channels / d.offsetGroups)) * kernelSize + element;
  std::vector<double> at(window.rank());
  int64_t position = 0;
  forEachPosition(window.grid, [&](const Shape &o) {
    for (int64_t axis = 0; axis < rank; ++axis) {
      const size_t i = size_t(axis);
      at[i] = double(o[i] * window.strides[i] - window.lows[i] + k[i] * window.dilations[i]) +
              d.offset[(block * rank + axis) * positions + position];
    }
    double value = sampleLinearly(d.x + (n * channels + c) * window.imageSize(), window.image, at);
    if (d.mask)
      value *= d.mask[block * positions + position];
    const int64_t group = c / g.in;
    for (int64_t m = group * g.out; m < (group + 1) * g.out; ++m)
      y[(n * g.groups * g.out + m) * positions + position] +=
          value * d.w[(m * g.in + c % g.in) * kernelSize + element];
    ++position;
  });
}

void checkDeformation(Workspace &workspace, const Invocation &invocation, const Deformation &d) {
  const int64_t channels = d.groups.groups * d.groups.in;
  if (!workspace.ok())
    return;
  if (channels % d.offsetGroups != 0)
    workspace.rejectAttribute("offset_group", "must divide the number of channels");
  const int64_t blocks = d.offsetGroups * d.window.kernelSize();
  Shape offset{d.groups.images, blocks * int64_t(d.window.rank())}, mask{d.groups.images, blocks};
  offset.insert(offset.end(), d.window.grid.begin(), d.window.grid.end());
  mask.insert(mask.end(), d.window.grid.begin(), d.window.grid.end());
  workspace.expectShape(workspace.floatOperand(2, "offset"), "offset", offset);
  if (invocation.present(4))
    workspace.expectShape(workspace.floatOperand(4, "mask"), "mask", mask);
}

Outcome evaluateDeformConv(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x"), &w = workspace.floatOperand(1, "w");
  constexpr int64_t kLargestRank =
      5; // an image of three dimensions; each doubles the corners to read
  workspace.require(x.rank() >= 3 && x.rank() <= kLargestRank, "x",
                    "must have a batch, channels and one to three spatial dimensions");
  workspace.require(w.rank() == x.rank(), "w", "must have as many dimensions as x");
  if (!workspace.ok())
    return workspace.status();
  Deformation d;
  d.groups = convolutionGroups(workspace, invocation, w, x.shape()[0], x.shape()[1]);
  d.offsetGroups = groupCount(workspace, invocation, "offset_group");
  d.window = windowOf(workspace, invocation, spatial(w));
  placeOnImage(workspace, d.window, spatial(x), false);
  checkDeformation(workspace, invocation, d);
  const HostTensor &bias = biasOperand(workspace, invocation, 3, w.shape()[0]);
  Shape shape = imagesOf(d.groups, d.window.grid);
  std::span<double> y = workspace.zeros<double>(shape), offsets = workspace.widen<double>(bias);
  d.x = workspace.widen<double>(x).data();
  d.w = workspace.widen<double>(w).data();
  if (!workspace.ok())
    return workspace.status();
  d.offset = workspace.widen<double>(invocation.operands[2]).data();
  d.mask = invocation.present(4) ? workspace.widen<double>(invocation.operands[4]).data() : nullptr;
  if (!workspace.ok())
    return workspace.status();
  int64_t element = 0;
  if (!y.empty())
    forEachPosition(d.window.kernel, [&](const Shape &k) {
      for (int64_t n = 0; n < d.groups.images; ++n)
        for (int64_t c = 0; c < d.groups.groups * d.groups.in; ++c)
          deformChannel(d, n, c, element, k, y.data());
      ++element;
    });
  addBias<double>(y, offsets, d.groups);
  return workspace.finish(workspace.narrow<double>(y, x.type(), shape));
}

constexpr Entry kConvolutions[] = {{"conv", evaluateConv},
                                   {"conv_transpose", evaluateConvTranspose},
                                   {"conv_weights_gradient", evaluateConvWeightsGradient},
                                   {"deform_conv", evaluateDeformConv}};

} // namespace

std::span<const Entry> convolutionEntries() {
  static const std::vector<Entry> entries = [] {
    std::vector<Entry> all(std::begin(kConvolutions), std::end(kConvolutions));
    all.insert(all.end(), poolingEntries().begin(), poolingEntries().end());
    return all;
  }();
  return entries;
}

} // namespace tensmith::reference

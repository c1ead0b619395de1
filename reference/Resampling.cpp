// Reference evaluation of operators that read an image at positions between its elements:
// grid_sample, affine_grid, roi_align, max_roi_pool (resize is in Resize.cpp).
//
// Values are computed in double, but positions in the precision that they are given in: which
// element is the nearest, and how many samples a bin takes, jumps with the last bit, and all
// implementations take that of float for float operands.
#include "reference/Resampling.h"

#include <algorithm>
#include <cmath>

namespace tensmith::reference {

namespace {

// ---- grid_sample
// ----------------------------------------------------------------------------------------

enum class Padding { Zeros, Border, Reflection };

struct Sampler {
  std::string mode;
  Padding padding = Padding::Zeros;
  bool alignCorners = false;
  Shape image;

  double low() const { return alignCorners ? 0 : -0.5; }
  double high(size_t axis) const { return double(image[axis]) - (alignCorners ? 1 : 0.5); }
};

/// Position in [-1, 1] as a coordinate of the image, in the arithmetic of `T`.
template <typename T> double denormalize(double position, int64_t size, bool alignCorners) {
  const T p = T(position);
  return alignCorners ? double((p + 1) / 2 * T(size - 1)) : double(((p + 1) * T(size) - 1) / 2);
}

double reflect(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0)
    return low;
  const double beyond = x < low ? low - x : x > high ? x - high : -1;
  if (beyond < 0)
    return x;
  const double turns = std::floor(beyond / range), rest = beyond - turns * range;
  const bool back = std::fmod(turns, 2) == 0;
  return (x < low) == back ? low + rest : high - rest;
}

/// The element that stands for position `i`, or -1 where that is a zero.
int64_t elementAt(const Sampler &sampler, size_t axis, int64_t i) {
  const int64_t last = sampler.image[axis] - 1;
  if (i >= 0 && i <= last)
    return i;
  if (sampler.padding == Padding::Zeros)
    return -1;
  if (sampler.padding == Padding::Border)
    return std::clamp<int64_t>(i, 0, last);
  return std::clamp<int64_t>(int64_t(reflect(double(i), sampler.low(), sampler.high(axis))), 0,
                             last);
}

/// Within the image as the padding has it; finite, and small enough to be an integer. Cubic weights
/// go on beyond the border, whose elements are then repeated one by one, as PyTorch and ONNX
/// Runtime have it.
double confine(const Sampler &sampler, size_t axis, double x) {
  const double largest = double(kLargestExtent);
  x = std::isnan(x) ? -largest : std::clamp(x, -largest, largest);
  if (x >= sampler.low() && x <= sampler.high(axis))
    return x;
  if (sampler.padding == Padding::Border && sampler.mode != "cubic")
    return std::clamp(x, 0.0, double(sampler.image[axis] - 1));
  return sampler.padding == Padding::Reflection ? reflect(x, sampler.low(), sampler.high(axis)) : x;
}

struct AxisTaps {
  int64_t count = 1;
  int64_t elements[4] = {};
  double weights[4] = {1};
};

double keysWeight(double distance) {
  constexpr double a = -0.75;
  const double x = std::abs(distance);
  return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

AxisTaps axisTaps(const Sampler &sampler, size_t axis, double x) {
  AxisTaps taps;
  if (sampler.mode == "nearest") {
    taps.elements[0] = elementAt(sampler, axis, int64_t(confine(sampler, axis, std::nearbyint(x))));
    return taps;
  }
  x = confine(sampler, axis, x);
  const bool cubic = sampler.mode == "cubic";
  const int64_t first = int64_t(std::floor(x)) - (cubic ? 1 : 0);
  taps.count = cubic ? 4 : 2;
  for (int64_t i = 0; i < taps.count; ++i) {
    const double distance = x - double(first + i);
    taps.elements[i] = elementAt(sampler, axis, first + i);
    taps.weights[i] = cubic ? keysWeight(distance) : 1 - std::abs(distance);
  }
  return taps;
}

/// The weighted sum over the product of the axes' taps.
double combine(const Sampler &sampler, std::span<const AxisTaps> taps, const double *plane) {
  Shape counts;
  for (const AxisTaps &axis : taps)
    counts.push_back(axis.count);
  double sum = 0;
  forEachPosition(counts, [&](const Shape &at) {
    double weight = 1;
    int64_t offset = 0;
    bool inside = true;
    for (size_t axis = 0; axis < taps.size(); ++axis) {
      const int64_t element = taps[axis].elements[at[axis]];
      inside &= element >= 0;
      weight *= taps[axis].weights[at[axis]];
      offset = offset * sampler.image[axis] + element;
    }
    if (inside && weight != 0)
      sum += weight * plane[offset];
  });
  return sum;
}

Sampler samplerOf(Workspace &workspace, const Attributes &attributes, const HostTensor &x) {
  Sampler s;
  s.mode = attributes.string("mode", "linear");
  s.alignCorners = attributes.integer("align_corners") != 0;
  const std::string padding = attributes.string("padding_mode", "zeros");
  if (s.mode != "linear" && s.mode != "nearest" && s.mode != "cubic")
    workspace.rejectAttribute("mode", "is '" + s.mode + "', but must be linear, nearest or cubic");
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    workspace.rejectAttribute("padding_mode",
                              "is '" + padding + "', but must be zeros, border or reflection");
  s.padding = padding == "zeros"    ? Padding::Zeros
              : padding == "border" ? Padding::Border
                                    : Padding::Reflection;
  constexpr int64_t kLargestRank = 8; // each dimension multiplies the elements read by up to four
  workspace.require(x.rank() >= 3 && x.rank() <= kLargestRank, "x",
                    "must have a batch, channels and one to six spatial dimensions");
  if (!workspace.ok())
    return s;
  s.image.assign(x.shape().begin() + 2, x.shape().end());
  for (int64_t size : s.image)
    workspace.require(size <= kLargestExtent, "x", "has too large a dimension");
  return s;
}

void sampleImage(const Sampler &sampler, bool single, const double *image, const double *grid,
                 double *y, int64_t channels, int64_t positions) {
  const size_t rank = sampler.image.size();
  const int64_t imageSize = extent(sampler.image, 0, rank);
  std::vector<AxisTaps> taps(rank);
  for (int64_t p = 0; p < positions; ++p) {
    for (size_t axis = 0; axis < rank; ++axis) { // the grid names the last dimension first
      const double at = grid[p * int64_t(rank) + int64_t(rank - 1 - axis)];
      const int64_t size = sampler.image[axis];
      taps[axis] = axisTaps(sampler, axis,
                            single ? denormalize<float>(at, size, sampler.alignCorners)
                                   : denormalize<double>(at, size, sampler.alignCorners));
    }
    for (int64_t c = 0; c < channels; ++c)
      y[c * positions + p] = combine(sampler, taps, image + c * imageSize);
  }
}

} // namespace

Outcome evaluateGridSample(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x");
  const HostTensor &grid = workspace.floatOperand(1, "grid", x.rank());
  const Sampler sampler = samplerOf(workspace, invocation.attributes, x);
  if (!workspace.ok())
    return workspace.status();
  const size_t rank = sampler.image.size();
  const int64_t images = x.shape()[0], channels = x.shape()[1];
  const int64_t imageSize = extent(sampler.image, 0, rank);
  workspace.require(grid.shape()[0] == images && grid.shape().back() == int64_t(rank), "grid",
                    "must have x's batch, and as its last dimension the number of spatial ones");
  Shape shape{images, channels};
  shape.insert(shape.end(), grid.shape().begin() + 1, grid.shape().end() - 1);
  const int64_t positions = extent(shape, 2, shape.size());
  std::span<double> pixels = workspace.widen<double>(x), points = workspace.widen<double>(grid);
  std::span<double> y = workspace.zeros<double>(shape);
  workspace.require(imageSize > 0 || y.empty(), "x", "is empty, so that nothing can be read");
  if (!workspace.ok())
    return workspace.status();
  for (int64_t n = 0; n < images && !y.empty(); ++n)
    sampleImage(sampler, grid.type() != DataType::F64, pixels.data() + n * channels * imageSize,
                points.data() + n * positions * int64_t(rank), y.data() + n * channels * positions,
                channels, positions);
  return workspace.finish(workspace.narrow<double>(y, x.type(), shape));
}

// ---- affine_grid
// ----------------------------------------------------------------------------------------

namespace {

/// Coordinate in [-1, 1] of element `i` of `size`; 0 of the only one where corners are aligned.
double normalizedCoordinate(int64_t i, int64_t size, bool alignCorners) {
  if (alignCorners)
    return size > 1 ? -1 + 2.0 * double(i) / double(size - 1) : 0;
  return (2.0 * double(i) + 1) / double(size) - 1;
}

} // namespace

Outcome evaluateAffineGrid(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &theta = workspace.floatOperand(0, "theta", 3);
  const Shape size = workspace.integers(1, "size");
  const bool align = invocation.attributes.integer("align_corners") != 0;
  workspace.require(size.size() == 4 || size.size() == 5, "size",
                    "must be of an image or a volume");
  for (int64_t dimension : size)
    workspace.require(dimension >= 0 && dimension <= kLargestExtent, "size", "is out of range");
  if (!workspace.ok())
    return workspace.status();
  const int64_t rank = int64_t(size.size()) - 2;
  workspace.expectShape(theta, "theta", Shape{size[0], rank, rank + 1});
  Shape image(size.begin() + 2, size.end()), shape{size[0]};
  shape.insert(shape.end(), image.begin(), image.end());
  shape.push_back(rank);
  std::span<double> maps = workspace.widen<double>(theta), grid = workspace.zeros<double>(shape);
  if (!workspace.ok())
    return workspace.status();
  size_t next = 0;
  for (int64_t n = 0; n < size[0] && !grid.empty(); ++n)
    forEachPosition(image, [&](const Shape &at) {
      for (int64_t row = 0; row < rank; ++row) {
        const double *map = maps.data() + (n * rank + row) * (rank + 1);
        double sum = map[rank];
        for (int64_t i = 0; i < rank;
             ++i) { // x, the first coordinate, runs along the last dimension
          const size_t axis = size_t(rank - 1 - i);
          sum += map[i] * normalizedCoordinate(at[axis], image[axis], align);
        }
        grid[next++] = sum;
      }
    });
  return workspace.finish(workspace.narrow<double>(grid, theta.type(), shape));
}

namespace {

constexpr Entry kEntries[] = {{"resize", evaluateResize},
                              {"grid_sample", evaluateGridSample},
                              {"affine_grid", evaluateAffineGrid},
                              {"roi_align", evaluateRoiAlign},
                              {"max_roi_pool", evaluateMaxRoiPool}};

} // namespace

std::span<const Entry> resamplingEntries() { return kEntries; }

} // namespace tensmith::reference

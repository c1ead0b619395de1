// Reference evaluation of pooling over regions of interest: roi_align (He et al., "Mask R-CNN",
// 2017) and max_roi_pool (Girshick, "Fast R-CNN", 2015), as ONNX defines them.
//
// Positions are computed in the precision of the regions, as in Resampling.cpp; values in double.
#include "reference/Resampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tensmith::reference {

namespace {

// ---- roi_align
// ------------------------------------------------------------------------------------------

struct Pooled {
  int64_t images = 0, channels = 0, height = 0, width = 0; // of x
  int64_t rows = 1, columns = 1;                           // of each region's result
};

/// One dimension of a region: where it starts, how large a bin is, and how many samples a bin
/// takes.
struct Extent {
  double start = 0, bin = 0;
  int64_t samples = 0;
};

struct AlignSettings {
  double scale = 1;
  int64_t ratio = 0;
  bool halfPixel = true, maximum = false;
};

template <typename T>
Extent extentOf(const AlignSettings &s, double low, double high, int64_t bins) {
  const T offset = s.halfPixel ? T(0.5) : T(0);
  const T start = T(low) * T(s.scale) - offset, end = T(high) * T(s.scale) - offset;
  const T size = s.halfPixel ? end - start : std::max(end - start, T(1));
  const T bin = size / T(bins);
  constexpr double kMost = 1 << 20;
  const double samples = s.ratio > 0 ? double(s.ratio) : double(std::ceil(bin));
  return {double(start), double(bin), samples <= kMost ? int64_t(std::max(samples, 0.0)) : -1};
}

struct Corners {
  int64_t offsets[4] = {};
  double weights[4] = {};
};

/// The neighbour below a coordinate and the one above, with the latter's weight.
struct Neighbours {
  int64_t low, high;
  double weight;
};
Neighbours neighbours(double x, int64_t size) {
  x = std::max(x, 0.0);
  const int64_t low = std::min(int64_t(x), size - 1);
  return low == size - 1 ? Neighbours{low, low, 0} : Neighbours{low, low + 1, x - double(low)};
}

Corners cornersAt(double y, double x, const Pooled &p) {
  Corners corners;
  if (!(y >= -1 && y <= double(p.height) && x >= -1 && x <= double(p.width)))
    return corners;
  const Neighbours v = neighbours(y, p.height), h = neighbours(x, p.width);
  corners = {{v.low * p.width + h.low, v.low * p.width + h.high, v.high * p.width + h.low,
              v.high * p.width + h.high},
             {(1 - v.weight) * (1 - h.weight), (1 - v.weight) * h.weight, v.weight * (1 - h.weight),
              v.weight * h.weight}};
  return corners;
}

/// Mean of the samples, or the largest of all their corners' weighted values: so ONNX has it.
double poolBin(const AlignSettings &s, const Extent &v, const Extent &h, const Pooled &p,
               const double *plane, int64_t row, int64_t column) {
  double sum = 0, most = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < v.samples; ++i)
    for (int64_t j = 0; j < h.samples; ++j) {
      const double y =
          v.start + double(row) * v.bin + (double(i) + 0.5) * v.bin / double(v.samples);
      const double x =
          h.start + double(column) * h.bin + (double(j) + 0.5) * h.bin / double(h.samples);
      const Corners corners = cornersAt(y, x, p);
      for (int corner = 0; corner < 4; ++corner) {
        const double value = corners.weights[corner] * plane[corners.offsets[corner]];
        sum += value;
        most = std::max(most, value);
      }
    }
  const int64_t count = v.samples * h.samples;
  if (count == 0)
    return 0;
  return s.maximum ? most : sum / double(count);
}

AlignSettings alignSettings(Workspace &workspace, const Attributes &attributes) {
  AlignSettings s;
  s.scale = attributes.real("spatial_scale", 1);
  s.ratio = attributes.integer("sampling_ratio");
  const std::string mode = attributes.string("mode", "avg");
  const std::string transformation =
      attributes.string("coordinate_transformation_mode", "half_pixel");
  if (mode != "avg" && mode != "max")
    workspace.rejectAttribute("mode", "is '" + mode + "', but must be avg or max");
  if (transformation != "half_pixel" && transformation != "output_half_pixel")
    workspace.rejectAttribute("coordinate_transformation_mode",
                              "must be half_pixel or output_half_pixel");
  s.maximum = mode == "max";
  s.halfPixel = transformation == "half_pixel";
  return s;
}

Pooled pooledOf(Workspace &workspace, const HostTensor &x, int64_t rows, int64_t columns,
                const char *attribute) {
  if (rows < 1 || rows > kLargestExtent || columns < 1 || columns > kLargestExtent)
    workspace.rejectAttribute(attribute, "must be positive");
  if (!workspace.ok())
    return {};
  const Shape &s = x.shape();
  workspace.require(s[2] > 0 && s[3] > 0, "x", "is empty");
  return {s[0], s[1], s[2], s[3], rows, columns};
}

/// The image of region `r`, or 0 and a failure where x has no such image.
int64_t imageOf(Workspace &workspace, const char *operand, double index, const Pooled &p) {
  if (index >= 0 && index < double(p.images))
    return int64_t(index);
  workspace.reject(operand, "names an image that x has not");
  return 0;
}

template <typename T>
Outcome roiAlignIn(Workspace &workspace, const AlignSettings &s, const Pooled &p,
                   const HostTensor &x, const HostTensor &rois, const HostTensor &indices) {
  const Shape shape{rois.shape()[0], p.channels, p.rows, p.columns};
  std::span<double> pixels = workspace.widen<double>(x), y = workspace.zeros<double>(shape);
  double *next = y.data();
  for (int64_t r = 0; r < shape[0] && workspace.ok() && !y.empty(); ++r) {
    const int64_t image = imageOf(workspace, "batch_indices", double(indices.getInt(r)), p);
    auto corner = [&](int64_t i) { return rois.getDouble(r * 4 + i); };
    const Extent h = extentOf<T>(s, corner(0), corner(2), p.columns);
    const Extent v = extentOf<T>(s, corner(1), corner(3), p.rows);
    workspace.require(h.samples >= 0 && v.samples >= 0, "rois", "has a region that is too large");
    if (!workspace.ok())
      break;
    for (int64_t c = 0; c < p.channels; ++c) {
      const double *plane = pixels.data() + (image * p.channels + c) * p.height * p.width;
      for (int64_t row = 0; row < p.rows; ++row)
        for (int64_t column = 0; column < p.columns; ++column)
          *next++ = poolBin(s, v, h, p, plane, row, column);
    }
  }
  return workspace.finish(workspace.narrow<double>(y, x.type(), shape));
}

// ---- max_roi_pool
// ---------------------------------------------------------------------------------------

struct Span {
  int64_t first, last; // exclusive
};

/// Elements of bin `i` of `bins` along a dimension of `size`, of the region from `low` to `high`
/// inclusive.
Span binOf(double low, double high, int64_t i, int64_t bins, int64_t size) {
  const float bin = std::max(float(high - low + 1), 1.0F) / float(bins);
  auto clip = [&](double x) { return int64_t(std::clamp(x, 0.0, double(size))); };
  return {clip(double(std::floor(float(i) * bin)) + low),
          clip(double(std::ceil(float(i + 1) * bin)) + low)};
}

double largestIn(const double *plane, int64_t width, Span rows, Span columns) {
  double most = -std::numeric_limits<double>::infinity();
  for (int64_t y = rows.first; y < rows.last; ++y)
    for (int64_t x = columns.first; x < columns.last; ++x)
      most = std::max(most, plane[y * width + x]);
  return rows.first < rows.last && columns.first < columns.last ? most : 0;
}

} // namespace

Outcome evaluateRoiAlign(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x", 4);
  const HostTensor &rois = workspace.floatOperand(1, "rois", 2);
  const HostTensor &indices = workspace.operand(2, "batch_indices", 1);
  const AlignSettings s = alignSettings(workspace, invocation.attributes);
  const Pooled p = pooledOf(workspace, x, invocation.attributes.integer("output_height", 1),
                            invocation.attributes.integer("output_width", 1), "output_height");
  if (!workspace.ok())
    return workspace.status();
  workspace.expectShape(rois, "rois", Shape{rois.shape()[0], 4});
  workspace.expectShape(indices, "batch_indices", Shape{rois.shape()[0]});
  if (!workspace.ok())
    return workspace.status();
  return rois.type() == DataType::F64 ? roiAlignIn<double>(workspace, s, p, x, rois, indices)
                                      : roiAlignIn<float>(workspace, s, p, x, rois, indices);
}

Outcome evaluateMaxRoiPool(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x", 4);
  const HostTensor &rois = workspace.floatOperand(1, "rois", 2);
  std::vector<int64_t> pooled = invocation.attributes.integers("pooled_shape");
  pooled.resize(2, 0);
  const Pooled p = pooledOf(workspace, x, pooled[0], pooled[1], "pooled_shape");
  const double scale = invocation.attributes.real("spatial_scale", 1);
  if (!workspace.ok())
    return workspace.status();
  workspace.expectShape(rois, "rois", Shape{rois.shape()[0], 5});
  const Shape shape{rois.shape()[0], p.channels, p.rows, p.columns};
  std::span<double> pixels = workspace.widen<double>(x), y = workspace.zeros<double>(shape);
  double *next = y.data();
  for (int64_t r = 0; r < shape[0] && workspace.ok() && !y.empty(); ++r) {
    const int64_t image = imageOf(workspace, "rois", rois.getDouble(r * 5), p);
    double edges[4];
    for (int i = 0; i < 4; ++i) {
      edges[i] = std::round(double(float(rois.getDouble(r * 5 + 1 + i)) * float(scale)));
      workspace.require(std::abs(edges[i]) <= double(kLargestExtent), "rois", "is out of range");
    }
    if (!workspace.ok())
      break;
    for (int64_t c = 0; c < p.channels; ++c)
      for (int64_t row = 0; row < p.rows; ++row)
        for (int64_t column = 0; column < p.columns; ++column)
          *next++ = largestIn(pixels.data() + (image * p.channels + c) * p.height * p.width,
                              p.width, binOf(edges[1], edges[3], row, p.rows, p.height),
                              binOf(edges[0], edges[2], column, p.columns, p.width));
  }
  return workspace.finish(workspace.narrow<double>(y, x.type(), shape));
}

} // namespace tensmith::reference

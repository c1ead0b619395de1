// Reference evaluation of resize (ONNX Resize, opset 19): every mode, antialiasing, aspect-ratio
// policies, axes and crops.
//
// Interpolation is separable: each axis in turn is a weighted sum of a few elements ("taps"), whose
// positions and weights depend on the coordinate along that axis alone. Weights beyond the edge
// read the edge's element, or are left out and the rest rescaled where `exclude_outside`. Cubic
// weights: Keys, "Cubic convolution interpolation for digital image processing", 1981.
#include "reference/Resampling.h"

#include <algorithm>
#include <cmath>

namespace tensmith::reference {

namespace {

struct Axis {
  int64_t in = 0, out = 0;
  double scale = 1;
  double start = 0, end = 1; // the crop
  bool single = false;       // whose coordinates are computed in float, as they are given
};

struct Settings {
  std::string mode, transformation, nearest, policy;
  double cubic = -0.75, extrapolation = 0;
  bool excludeOutside = false, antialias = false;
};

Settings settingsOf(Workspace &workspace, const Attributes &attributes) {
  Settings s;
  s.mode = attributes.string("mode", "nearest");
  s.transformation = attributes.string("coordinate_transformation_mode", "half_pixel");
  s.nearest = attributes.string("nearest_mode", "round_prefer_floor");
  s.policy = attributes.string("keep_aspect_ratio_policy", "stretch");
  s.cubic = attributes.real("cubic_coeff_a", -0.75);
  s.extrapolation = attributes.real("extrapolation_value", 0);
  s.excludeOutside = attributes.integer("exclude_outside") != 0;
  s.antialias = attributes.integer("antialias") != 0;
  auto oneOf = [&](const char *name, const std::string &value, auto... allowed) {
    if (((value != allowed) && ...))
      workspace.rejectAttribute(name, "is '" + value + "', which doesn't exist");
  };
  oneOf("mode", s.mode, "nearest", "linear", "cubic");
  oneOf("coordinate_transformation_mode", s.transformation, "half_pixel", "half_pixel_symmetric",
        "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize");
  oneOf("nearest_mode", s.nearest, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil");
  oneOf("keep_aspect_ratio_policy", s.policy, "stretch", "not_larger", "not_smaller");
  return s;
}

// ---- output sizes
// ---------------------------------------------------------------------------------------

std::vector<size_t> axesToResize(Workspace &workspace, const Invocation &invocation, int64_t rank) {
  std::vector<int64_t> given = invocation.attributes.integers("axes");
  std::vector<size_t> axes;
  if (!invocation.attributes.has("axes"))
    for (int64_t axis = 0; axis < rank; ++axis)
      axes.push_back(size_t(axis));
  for (int64_t axis : given) {
    if (axis < -rank || axis >= rank)
      workspace.rejectAttribute("axes", "has " + std::to_string(axis) + ", which x has not");
    else
      axes.push_back(size_t(axis < 0 ? axis + rank : axis));
  }
  return axes;
}

/// scale * in rounded down, in the precision of the scales: 0.7f * 10 is 7, though 0.7f is a little
/// less.
double scaledSize(const HostTensor &scales, int64_t i, int64_t in) {
  if (scales.type() == DataType::F32)
    return std::floor(float(scales.getDouble(i)) * float(in));
  return std::floor(scales.getDouble(i) * double(in));
}

void readScales(Workspace &workspace, const std::vector<size_t> &resized, std::vector<Axis> &axes) {
  const HostTensor &scales = workspace.floatOperand(2, "scales");
  workspace.require(scales.size() == int64_t(resized.size()), "scales",
                    "must have a value for each resized dimension");
  for (size_t i = 0; workspace.ok() && i < resized.size(); ++i) {
    Axis &axis = axes[resized[i]];
    axis.scale = scales.getDouble(int64_t(i));
    const double size = scaledSize(scales, int64_t(i), axis.in);
    if (!(axis.scale > 0) || !(size <= double(kLargestExtent)))
      workspace.reject("scales", "has a value out of range");
    else
      axis.out = int64_t(size);
  }
}

/// Where an aspect-ratio policy asks for it, one scale for all: the smallest or the largest of
/// them.
void unifyScales(const Settings &settings, const std::vector<size_t> &resized,
                 std::vector<Axis> &axes) {
  if (settings.policy == "stretch" || resized.empty())
    return;
  double scale = axes[resized[0]].scale;
  for (size_t axis : resized)
    scale = settings.policy == "not_larger" ? std::min(scale, axes[axis].scale)
                                            : std::max(scale, axes[axis].scale);
  for (size_t i : resized) {
    axes[i].scale = scale;
    axes[i].out = int64_t(std::min(scale * double(axes[i].in) + 0.5, double(kLargestExtent)));
  }
}

void readSizes(Workspace &workspace, const Settings &settings, const std::vector<size_t> &resized,
               std::vector<Axis> &axes) {
  std::vector<int64_t> sizes = workspace.integers(3, "sizes");
  workspace.require(sizes.size() == resized.size(), "sizes",
                    "must have a value for each resized dimension");
  for (size_t i = 0; workspace.ok() && i < resized.size(); ++i) {
    Axis &axis = axes[resized[i]];
    if (sizes[i] < 0 || sizes[i] > kLargestExtent || (axis.in == 0 && sizes[i] != 0)) {
      workspace.reject("sizes", "has " + std::to_string(sizes[i]) + " for a dimension of " +
                                    std::to_string(axis.in));
      return;
    }
    axis.out = sizes[i];
    axis.scale = axis.in ? double(sizes[i]) / double(axis.in) : 1;
  }
  if (workspace.ok())
    unifyScales(settings, resized, axes);
}

void readCrop(Workspace &workspace, const std::vector<size_t> &resized, std::vector<Axis> &axes) {
  const HostTensor &roi = workspace.floatOperand(1, "roi");
  const int64_t count = int64_t(resized.size());
  workspace.require(roi.size() == 2 * count, "roi",
                    "must have a start and an end for each resized dimension");
  for (int64_t i = 0; workspace.ok() && i < count; ++i) {
    Axis &axis = axes[resized[size_t(i)]];
    axis.start = roi.getDouble(i);
    axis.end = roi.getDouble(count + i);
    axis.single = roi.type() != DataType::F64;
  }
}

std::vector<Axis> axesOf(Workspace &workspace, const Invocation &invocation,
                         const Settings &settings, const Shape &shape) {
  std::vector<Axis> axes(shape.size());
  for (size_t i = 0; i < axes.size(); ++i)
    axes[i].in = axes[i].out = shape[i];
  std::vector<size_t> resized = axesToResize(workspace, invocation, int64_t(shape.size()));
  const bool hasScales = invocation.present(2) && invocation.operands[2].size() != 0;
  const bool hasSizes = invocation.present(3) && invocation.operands[3].size() != 0;
  if (workspace.ok() && !resized.empty() && hasScales == hasSizes)
    workspace.reject("scales",
                     hasSizes ? "and 'sizes' exclude each other" : "or 'sizes' must be given");
  if (workspace.ok() && hasScales)
    readScales(workspace, resized, axes);
  if (workspace.ok() && hasSizes)
    readSizes(workspace, settings, resized, axes);
  if (workspace.ok() && settings.transformation == "tf_crop_and_resize")
    readCrop(workspace, resized, axes);
  return axes;
}

// ---- coordinates and weights
// ----------------------------------------------------------------------------

/// In the crop, in the arithmetic of `T`: which element is the nearest jumps with the last bit.
template <typename T> double sourceInCrop(const Axis &axis, double at) {
  const T start = T(axis.start), end = T(axis.end), last = T(axis.in - 1);
  return axis.out > 1 ? start * last + T(at) * (end - start) * last / T(axis.out - 1)
                      : T(0.5) * (start + end) * last;
}

/// Where the element `at` of the result lies in x, along an axis.
double sourceOf(const Axis &axis, const std::string &transformation, double at) {
  const double width = axis.scale * double(axis.in); // what `out` is before it is rounded
  const double last = double(axis.in - 1), centred = (at + 0.5) / axis.scale - 0.5;
  if (transformation == "align_corners")
    return width == 1 ? 0 : at * last / (width - 1);
  if (transformation == "asymmetric")
    return at / axis.scale;
  if (transformation == "pytorch_half_pixel")
    return axis.out > 1 ? centred : 0;
  if (transformation == "half_pixel_symmetric")
    return double(axis.in) / 2 * (1 - double(axis.out) / width) + centred;
  if (transformation == "tf_crop_and_resize")
    return axis.single ? sourceInCrop<float>(axis, at) : sourceInCrop<double>(axis, at);
  return centred;
}

double cubicWeight(double distance, double a) {
  const double x = std::abs(distance);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// The elements `first`, `first + 1`, ... and their weights.
struct Taps {
  int64_t first = 0;
  std::vector<double> weights;
  bool extrapolated = false;
};

void nearestTap(Taps &taps, const std::string &rule, double source) {
  const double low = std::floor(source), fraction = source - low;
  const bool up = rule == "ceil"                ? fraction > 0
                  : rule == "round_prefer_ceil" ? fraction >= 0.5
                  : rule == "floor"             ? false
                                                : fraction > 0.5;
  taps.first = int64_t(low) + up;
  taps.weights = {1};
}

void excludeOutside(Taps &taps, int64_t in) {
  double sum = 0;
  for (size_t i = 0; i < taps.weights.size(); ++i) {
    const int64_t position = taps.first + int64_t(i);
    if (position < 0 || position >= in)
      taps.weights[i] = 0;
    sum += taps.weights[i];
  }
  if (sum != 0)
    for (double &weight : taps.weights)
      weight /= sum;
}

/// Antialiasing widens the filter by 1 / scale, so that every element of x counts when the scale is
/// below 1.
void interpolationTaps(Taps &taps, const Settings &settings, const Axis &axis, double source) {
  const double squeeze = settings.antialias ? std::min(axis.scale, 1.0) : 1;
  const bool cubic = settings.mode == "cubic";
  const int64_t before = int64_t(std::floor((cubic ? -2 : -1) / squeeze)) + 1;
  const double left =
      std::ceil(source) - 1; // an element that is hit exactly is the right one of the two
  taps.first = int64_t(left) + before;
  double sum = 0;
  for (int64_t i = 0; i < 2 - 2 * before; ++i) {
    const double distance = squeeze * (double(taps.first + i) - source);
    taps.weights.push_back(cubic ? cubicWeight(distance, settings.cubic)
                                 : std::max(0.0, 1 - std::abs(distance)));
    sum += taps.weights.back();
  }
  if (settings.antialias)
    for (double &weight : taps.weights)
      weight /= sum;
}

Taps tapsAt(const Settings &settings, const Axis &axis, int64_t at) {
  Taps taps;
  const double source = sourceOf(axis, settings.transformation, double(at));
  const double largest = double(kLargestExtent) * 4;
  taps.extrapolated = settings.transformation == "tf_crop_and_resize" &&
                      !(source >= 0 && source <= double(axis.in - 1));
  if (taps.extrapolated)
    return taps;
  const double bounded = source >= -largest && source <= largest ? source : 0;
  if (settings.mode == "nearest") {
    nearestTap(taps, settings.nearest, bounded);
    return taps;
  }
  interpolationTaps(taps, settings, axis, bounded);
  if (settings.excludeOutside)
    excludeOutside(taps, axis.in);
  return taps;
}

// ---- the resize
// -----------------------------------------------------------------------------------------

bool isIdentity(const Axis &axis) {
  return axis.in == axis.out && std::abs(axis.scale - 1) < 1e-9 && axis.start == 0 && axis.end == 1;
}

/// y[outer, out, inner] from x[outer, in, inner].
void resizeAxis(const Settings &settings, const Axis &axis, std::span<const double> x,
                std::span<double> y, int64_t outer, int64_t inner) {
  for (int64_t at = 0; at < axis.out; ++at) {
    const Taps taps = tapsAt(settings, axis, at);
    for (int64_t block = 0; block < outer; ++block) {
      double *line = y.data() + (block * axis.out + at) * inner;
      if (taps.extrapolated)
        std::fill_n(line, inner, settings.extrapolation);
      for (size_t tap = 0; tap < taps.weights.size(); ++tap) {
        const int64_t from = std::clamp<int64_t>(taps.first + int64_t(tap), 0, axis.in - 1);
        const double *source = x.data() + (block * axis.in + from) * inner;
        if (taps.weights[tap] == 0) // an infinity beside must not turn into NaN
          continue;
        for (int64_t i = 0; i < inner; ++i)
          line[i] += taps.weights[tap] * source[i];
      }
    }
  }
}

/// Integers are rounded to nearest and saturate.
void saturate(std::span<double> values, DataType type) {
  if (isFloat(type))
    return;
  const bool isSigned = info(type).kind == TypeClass::Signed;
  const int bits = info(type).bits - isSigned;
  const double low = isSigned ? -std::ldexp(1, bits) : 0, high = std::ldexp(1, bits) - 1;
  for (double &value : values)
    value = std::clamp(std::nearbyint(value), low, high);
}

Outcome copyElements(Workspace &workspace, const HostTensor &x, const Settings &settings,
                     const std::vector<Axis> &axes, const Shape &shape) {
  HostTensor y = workspace.allocate(x.type(), shape);
  if (y.size() == 0)
    return workspace.finish(y);
  std::vector<std::span<int64_t>> from;
  for (const Axis &axis : axes) {
    from.push_back(workspace.zeros<int64_t>({axis.out}));
    for (int64_t at = 0; at < int64_t(from.back().size()); ++at) {
      const Taps taps = isIdentity(axis) ? Taps{at, {1}} : tapsAt(settings, axis, at);
      from.back()[size_t(at)] =
          taps.extrapolated ? -1 : std::clamp<int64_t>(taps.first, 0, axis.in - 1);
    }
  }
  if (!workspace.ok())
    return workspace.status();
  const int64_t bytes = byteSize(x.type());
  HostTensor outside(x.type(), {1});
  outside.setDouble(0, settings.extrapolation);
  std::byte *to = y.mutableData();
  forEachPosition(shape, [&](const Shape &at) {
    int64_t offset = 0;
    bool inside = true;
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      const int64_t position = from[axis][size_t(at[axis])];
      inside &= position >= 0;
      offset = offset * axes[axis].in + position;
    }
    std::memcpy(to, inside ? x.data() + offset * bytes : outside.data(), size_t(bytes));
    to += bytes;
  });
  return workspace.finish(y);
}

Outcome interpolate(Workspace &workspace, const HostTensor &x, const Settings &settings,
                    const std::vector<Axis> &axes, const Shape &shape) {
  std::span<double> values = workspace.widen<double>(x);
  Shape current = x.shape();
  for (size_t axis = 0; workspace.ok() && axis < axes.size(); ++axis) {
    if (isIdentity(axes[axis]))
      continue;
    current[axis] = axes[axis].out;
    std::span<double> next = workspace.zeros<double>(current);
    if (!next.empty())
      resizeAxis(settings, axes[axis], values, next, extent(current, 0, axis),
                 extent(current, axis + 1, current.size()));
    values = next;
  }
  if (!workspace.ok())
    return workspace.status();
  saturate(values, x.type());
  return workspace.finish(workspace.narrow<double>(values, x.type(), shape));
}

ResizedAxis::Element elementAt(const Settings &settings, const Axis &axis, int64_t at) {
  Taps taps = tapsAt(settings, axis, at);
  ResizedAxis::Element element{{}, std::move(taps.weights)};
  for (size_t tap = 0; tap < element.weights.size(); ++tap)
    element.positions.push_back(std::clamp<int64_t>(taps.first + int64_t(tap), 0, axis.in - 1));
  return element;
}

} // namespace

Result<std::vector<ResizedAxis>> resizedAxes(const Invocation &invocation, const Shape &shape) {
  Workspace workspace(invocation);
  const Settings settings = settingsOf(workspace, invocation.attributes);
  if (!workspace.ok())
    return workspace.status();
  const std::vector<Axis> axes = axesOf(workspace, invocation, settings, shape);
  std::vector<ResizedAxis> resized;
  for (size_t i = 0; workspace.ok() && i < axes.size(); ++i) {
    if (isIdentity(axes[i]))
      continue;
    workspace.require(axes[i].in > 0 && axes[i].out > 0, "x", "is empty");
    resized.push_back({i, {}});
    for (int64_t at = 0; workspace.ok() && at < axes[i].out; ++at) {
      resized.back().elements.push_back(elementAt(settings, axes[i], at));
      workspace.require(!resized.back().elements.back().positions.empty(), "x",
                        "is read outside of the crop");
    }
  }
  if (!workspace.ok())
    return workspace.status();
  return resized;
}

Outcome evaluateResize(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x");
  const Settings settings = settingsOf(workspace, invocation.attributes);
  if (!workspace.ok())
    return workspace.status();
  for (int64_t size : x.shape())
    workspace.require(size <= kLargestExtent, "x", "has too large a dimension");
  if (settings.antialias && settings.mode == "nearest")
    workspace.rejectAttribute("antialias", "needs mode linear or cubic");
  const std::vector<Axis> axes = axesOf(workspace, invocation, settings, x.shape());
  Shape shape;
  for (const Axis &axis : axes) {
    shape.push_back(axis.out);
    workspace.require(axis.in > 0 || axis.out == 0, "x",
                      "is empty, so that nothing can be resized");
  }
  workspace.expectRepresentable(shape);
  if (!workspace.ok())
    return workspace.status();
  return settings.mode == "nearest" ? copyElements(workspace, x, settings, axes, shape)
                                    : interpolate(workspace, x, settings, axes, shape);
}

} // namespace tensmith::reference

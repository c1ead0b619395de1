// Reference evaluation of normalisation: softmax and its like along an axis, and layer, RMS, batch,
// instance, group and local response normalisation (attention is in Attention.cpp).
//
// Variances are those of the population, computed in two passes.
#include "reference/Attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tensmith::reference {

namespace {

// ---- along an axis
// --------------------------------------------------------------------------------------

/// Calls `line(values)` for each line of x along `axis`, copied out and back in.
template <typename Line> Outcome alongAxis(const Invocation &invocation, Line line) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x");
  const int64_t axis = invocation.attributes.integer("axis", -1);
  if (workspace.ok() && (axis < 0 || axis >= x.rank()))
    workspace.rejectAttribute("axis", "is " + std::to_string(axis) + ", but x has " +
                                          std::to_string(x.rank()) + " dimensions");
  std::span<double> y = workspace.widen<double>(x);
  if (!workspace.ok())
    return workspace.status();
  const int64_t size = x.shape()[size_t(axis)];
  const int64_t inner = extent(x.shape(), size_t(axis) + 1, x.shape().size());
  std::span<double> values = workspace.zeros<double>({y.empty() ? 0 : size});
  if (!workspace.ok())
    return workspace.status();
  for (size_t i = 0; i < (y.empty() ? 0 : y.size() / size_t(size)); ++i) {
    double *start = y.data() + int64_t(i) / inner * size * inner + int64_t(i) % inner;
    for (int64_t k = 0; k < size; ++k)
      values[size_t(k)] = start[k * inner];
    line(values);
    for (int64_t k = 0; k < size; ++k)
      start[k * inner] = values[size_t(k)];
  }
  return workspace.finish(workspace.narrow<double>(y, x.type(), x.shape()));
}

Outcome evaluateSoftmax(const Invocation &invocation) {
  return alongAxis(invocation, [](std::span<double> values) {
    const double most = std::ranges::max(values);
    double sum = 0;
    for (double &value : values)
      sum += value = std::exp(value - most);
    for (double &value : values)
      value /= sum;
  });
}

Outcome evaluateLogSoftmax(const Invocation &invocation) {
  return alongAxis(invocation, [](std::span<double> values) {
    const double most = std::ranges::max(values);
    double sum = 0;
    for (double value : values)
      sum += std::exp(value - most);
    for (double &value : values)
      value -= most + std::log(sum);
  });
}

Outcome evaluateHardmax(const Invocation &invocation) {
  return alongAxis(invocation, [](std::span<double> values) {
    // A NaN is the largest, as it is for arg_max.
    auto first = std::ranges::find_if(values, [](double value) { return std::isnan(value); });
    if (first == values.end())
      first = std::ranges::max_element(values);
    const size_t at = size_t(first - values.begin());
    std::ranges::fill(values, 0);
    values[at] = 1;
  });
}

// ---- layer_norm, rms_norm
// -------------------------------------------------------------------------------

struct Moments {
  double mean = 0, inverseDeviation = 0;
};

Moments momentsOf(std::span<const double> values, double epsilon) {
  Moments m;
  for (double value : values)
    m.mean += value;
  m.mean /= double(values.size());
  double variance = 0;
  for (double value : values)
    variance += (value - m.mean) * (value - m.mean);
  m.inverseDeviation = 1 / std::sqrt(variance / double(values.size()) + epsilon);
  return m;
}

/// x seen as rows to be normalised, each from dimension `axis` to the last.
struct Rows {
  std::span<double> values;
  size_t count = 0, width = 0;
  size_t axis = 0;
  std::span<double> row(size_t i) const { return values.subspan(i * width, width); }
};

Rows rowsOf(Workspace &workspace, const Invocation &invocation, const HostTensor &x) {
  Rows rows;
  const int64_t axis = invocation.attributes.integer("axis", -1);
  if (workspace.ok() && (axis < 0 || axis >= x.rank()))
    workspace.rejectAttribute("axis", "is " + std::to_string(axis) + ", but x has " +
                                          std::to_string(x.rank()) + " dimensions");
  rows.values = workspace.widen<double>(x);
  if (!workspace.ok())
    return rows;
  rows.axis = size_t(axis);
  rows.width = size_t(extent(x.shape(), rows.axis, x.shape().size()));
  rows.count = rows.values.empty() ? 0 : rows.values.size() / rows.width;
  return rows;
}

/// Combines each element of `values`, of `shape`, with that of an operand that is broadcast to it.
template <typename Combine>
void combineBroadcast(Workspace &workspace, std::span<double> values, const Shape &shape,
                      const HostTensor &operand, const char *name, Combine combine) {
  auto strides = broadcastStrides(operand.shape(), shape);
  if (workspace.ok() && !strides)
    workspace.reject(name, "has shape " + toString(operand.shape()) +
                               ", which can't be broadcast to " + toString(shape));
  std::span<double> factors = workspace.widen<double>(operand);
  if (!workspace.ok())
    return;
  size_t next = 0;
  forEachPosition(shape, [&](const Shape &at) {
    values[next] = combine(values[next], factors[size_t(dot(at, *strides))]);
    ++next;
  });
}

void scaleBy(Workspace &workspace, std::span<double> values, const Shape &shape) {
  combineBroadcast(workspace, values, shape, workspace.floatOperand(1, "scale"), "scale",
                   [](double value, double factor) { return value * factor; });
}

/// The type that the caller expects of result `index`; float, or double for double, where it
/// doesn't say.
DataType statisticsType(const Invocation &invocation, size_t index, DataType x) {
  if (index < invocation.results.size() && isFloat(invocation.results[index].type))
    return invocation.results[index].type;
  return x == DataType::F64 ? DataType::F64 : DataType::F32;
}

Outcome evaluateLayerNorm(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x");
  const double epsilon = invocation.attributes.real("epsilon", 1e-5);
  Rows rows = rowsOf(workspace, invocation, x);
  if (!workspace.ok())
    return workspace.status();
  Shape reduced = x.shape();
  std::fill(reduced.begin() + int64_t(rows.axis), reduced.end(), 1);
  std::span<double> mean = workspace.zeros<double>(reduced);
  std::span<double> inverse = workspace.zeros<double>(reduced);
  for (size_t i = 0; workspace.ok() && i < rows.count; ++i) {
    const Moments m = momentsOf(rows.row(i), epsilon);
    for (double &value : rows.row(i))
      value = (value - m.mean) * m.inverseDeviation;
    mean[i] = m.mean;
    inverse[i] = m.inverseDeviation;
  }
  if (rows.width == 0) // moments of nothing
    for (std::span<double> moments : {mean, inverse})
      std::fill(moments.begin(), moments.end(), std::numeric_limits<double>::quiet_NaN());
  scaleBy(workspace, rows.values, x.shape());
  if (invocation.present(2))
    combineBroadcast(workspace, rows.values, x.shape(), workspace.floatOperand(2, "bias"), "bias",
                     [](double value, double bias) { return value + bias; });
  return workspace.finish(
      workspace.narrow<double>(rows.values, x.type(), x.shape()),
      workspace.narrow<double>(mean, statisticsType(invocation, 1, x.type()), reduced),
      workspace.narrow<double>(inverse, statisticsType(invocation, 2, x.type()), reduced));
}

Outcome evaluateRmsNorm(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x");
  const double epsilon = invocation.attributes.real("epsilon", 1e-5);
  Rows rows = rowsOf(workspace, invocation, x);
  for (size_t i = 0; workspace.ok() && i < rows.count; ++i) {
    double squares = 0;
    for (double value : rows.row(i))
      squares += value * value;
    const double root = std::sqrt(squares / double(rows.width) + epsilon);
    for (double &value : rows.row(i))
      value /= root;
  }
  scaleBy(workspace, rows.values, x.shape());
  return workspace.finish(workspace.narrow<double>(rows.values, x.type(), x.shape()));
}

// ---- by channels
// ----------------------------------------------------------------------------------------

/// x as images of channels of elements.
struct Channels {
  std::span<double> values;
  int64_t images = 0, channels = 1, size = 1;
  std::span<double> of(int64_t image, int64_t channel, int64_t count = 1) const {
    return values.subspan(size_t((image * channels + channel) * size), size_t(size * count));
  }
};

Channels channelsOf(Workspace &workspace, const HostTensor &x, int64_t leastRank) {
  Channels c;
  if (workspace.ok() && x.rank() < leastRank)
    workspace.reject("x", "has shape " + toString(x.shape()) + ", but must have at least " +
                              std::to_string(leastRank) + " dimensions");
  c.values = workspace.widen<double>(x);
  if (!workspace.ok())
    return c;
  c.channels = x.rank() > 1 ? x.shape()[1] : 1;
  c.size = x.rank() > 2 ? extent(x.shape(), 2, x.shape().size()) : 1;
  c.images = c.values.empty() ? 0 : x.shape()[0];
  return c;
}

std::span<double> channelOperand(Workspace &workspace, size_t index, const char *name,
                                 int64_t channels) {
  const HostTensor &operand = workspace.floatOperand(index, name);
  if (workspace.ok())
    workspace.expectShape(operand, name, Shape{channels});
  return workspace.widen<double>(operand);
}

void scaleAndShift(std::span<double> values, double scale, double shift) {
  for (double &value : values)
    value = value * scale + shift;
}

Outcome evaluateBatchNorm(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x");
  const double epsilon = invocation.attributes.real("epsilon", 1e-5);
  Channels channels = channelsOf(workspace, x, 1);
  std::span<double> scale = channelOperand(workspace, 1, "scale", channels.channels);
  std::span<double> bias = channelOperand(workspace, 2, "bias", channels.channels);
  std::span<double> mean = channelOperand(workspace, 3, "mean", channels.channels);
  std::span<double> variance = channelOperand(workspace, 4, "variance", channels.channels);
  if (!workspace.ok())
    return workspace.status();
  for (int64_t n = 0; n < channels.images; ++n)
    for (int64_t c = 0; c < channels.channels; ++c) {
      const size_t i = size_t(c);
      const double inverse = 1 / std::sqrt(variance[i] + epsilon);
      for (double &value : channels.of(n, c))
        value = (value - mean[i]) * inverse * scale[i] + bias[i];
    }
  return workspace.finish(workspace.narrow<double>(channels.values, x.type(), x.shape()));
}

/// Each group of `width` channels of each image to mean 0 and variance 1, then scale and bias by
/// channel.
Outcome normalizeGroups(Workspace &workspace, const Invocation &invocation, const HostTensor &x,
                        const Channels &channels, int64_t width) {
  const double epsilon = invocation.attributes.real("epsilon", 1e-5);
  std::span<double> scale = channelOperand(workspace, 1, "scale", channels.channels);
  std::span<double> bias = channelOperand(workspace, 2, "bias", channels.channels);
  if (!workspace.ok())
    return workspace.status();
  for (int64_t n = 0; n < channels.images; ++n)
    for (int64_t c = 0; c < channels.channels; c += width) {
      const Moments m = momentsOf(channels.of(n, c, width), epsilon);
      scaleAndShift(channels.of(n, c, width), m.inverseDeviation, -m.mean * m.inverseDeviation);
      for (int64_t i = c; i < c + width; ++i)
        scaleAndShift(channels.of(n, i), scale[size_t(i)], bias[size_t(i)]);
    }
  return workspace.finish(workspace.narrow<double>(channels.values, x.type(), x.shape()));
}

Outcome evaluateInstanceNorm(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x");
  return normalizeGroups(workspace, invocation, x, channelsOf(workspace, x, 2), 1);
}

Outcome evaluateGroupNorm(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x");
  Channels channels = channelsOf(workspace, x, 2);
  const int64_t groups = invocation.attributes.integer("groups");
  if (workspace.ok() && (groups < 1 || channels.channels % groups != 0))
    workspace.rejectAttribute("groups", "is " + std::to_string(groups) +
                                            ", which doesn't divide the " +
                                            std::to_string(channels.channels) + " channels");
  if (!workspace.ok())
    return workspace.status();
  return normalizeGroups(workspace, invocation, x, channels, channels.channels / groups);
}

Outcome evaluateLrn(const Invocation &invocation) {
  Workspace workspace(invocation);
  const Attributes &attributes = invocation.attributes;
  const HostTensor &x = workspace.floatOperand(0, "x");
  const int64_t size = attributes.integer("size");
  const double alpha = attributes.real("alpha", 1e-4), beta = attributes.real("beta", 0.75);
  const double bias = attributes.real("bias", 1);
  if (size < 1 || size > kLargestExtent)
    workspace.rejectAttribute("size", "must be positive");
  Channels in = channelsOf(workspace, x, 2), out = in;
  out.values = workspace.zeros<double>(x.shape());
  if (!workspace.ok())
    return workspace.status();
  for (int64_t n = 0; n < in.images; ++n)
    for (int64_t c = 0; c < in.channels; ++c) {
      std::span<double> y = out.of(n, c);
      const int64_t last = std::min(in.channels - 1, c + size / 2);
      for (int64_t i = std::max<int64_t>(0, c - (size - 1) / 2); i <= last; ++i)
        std::ranges::transform(y, in.of(n, i), y.begin(),
                               [](double sum, double value) { return sum + value * value; });
      std::ranges::transform(y, in.of(n, c), y.begin(), [&](double squares, double value) {
        return value / std::pow(bias + alpha / double(size) * squares, beta);
      });
    }
  return workspace.finish(workspace.narrow<double>(out.values, x.type(), x.shape()));
}

constexpr Entry kEntries[] = {{"softmax", evaluateSoftmax},
                              {"log_softmax", evaluateLogSoftmax},
                              {"hardmax", evaluateHardmax},
                              {"layer_norm", evaluateLayerNorm},
                              {"rms_norm", evaluateRmsNorm},
                              {"batch_norm", evaluateBatchNorm},
                              {"instance_norm", evaluateInstanceNorm},
                              {"group_norm", evaluateGroupNorm},
                              {"lrn", evaluateLrn},
                              {"attention", evaluateAttention}};

} // namespace

std::span<const Entry> normalizationEntries() { return kEntries; }

} // namespace tensmith::reference

// Sums over samples; see Statistics.h.
#include "quantize/Statistics.h"

#include <algorithm>
#include <cmath>

namespace tensmith::quantize {
namespace {

/// Rows of inputs that moments are gathered of in one batch. More say little that is new.
constexpr int64_t kMostRows = 512;
/// The moments of more columns would take more than half a gigabyte.
constexpr int64_t kMostColumns = 8192;

int64_t axisOf(const Layer &layer, const HostTensor &values) {
  return layer.inputAxis < 0 ? values.rank() + layer.inputAxis : layer.inputAxis;
}

void addChannels(InputStatistics &to, const HostTensor &values, int64_t axis) {
  auto channels = values.shape()[size_t(axis)];
  int64_t inner = 1;
  for (int64_t i = axis + 1; i < values.rank(); ++i)
    inner *= values.shape()[size_t(i)];
  for (auto *sums : {&to.most, &to.sums, &to.magnitudes})
    sums->resize(size_t(channels), 0);
  auto numbers = values.as<float>();
  for (int64_t i = 0; i < values.size(); ++i) {
    auto channel = size_t(i / inner % channels);
    double value = numbers[size_t(i)];
    if (!std::isfinite(value))
      continue;
    to.most[channel] = std::max(to.most[channel], std::abs(value));
    to.sums[channel] += value;
    to.magnitudes[channel] += std::abs(value);
  }
  to.count += double(values.size()) / double(std::max<int64_t>(channels, 1));
}

/// The matrix product of rows with themselves, added.
void addSquares(Moments &moments, std::span<const float> row) {
  size_t n = row.size();
  for (size_t i = 0; i < n; ++i) {
    if (row[i] == 0)
      continue;
    double *to = &moments[i * n];
    for (size_t j = 0; j < n; ++j)
      to[j] += double(row[i]) * double(row[j]);
  }
}

/// The input of a convolution of images at one window of the first group; padding is zero. Strides,
/// dilations and paddings change which windows there are, but little of their moments: windows that
/// lie in the image are as good as any.
bool fillWindow(const Layer &layer, const HostTensor &values, int64_t number,
                std::vector<float> &row) {
  size_t spatial = layer.shape.size() - 2;
  Shape at(spatial), stride(spatial, 1);
  for (size_t d = spatial; d-- > 0;) {
    int64_t places = values.shape()[d + 2] - layer.shape[d + 2] + 1;
    if (places < 1)
      return false;
    at[d] = number % places;
    number /= places;
    if (d + 1 < spatial)
      stride[d] = stride[d + 1] * values.shape()[d + 3];
  }
  int64_t plane = spatial ? stride[0] * values.shape()[2] : 1;
  int64_t sample = number % values.shape()[0];
  auto numbers = values.as<float>();
  for (int64_t column = 0; column < layer.weights.columns; ++column) {
    int64_t left = column % layer.window(), place = 0;
    for (size_t d = spatial; d-- > 0;) {
      place += (at[d] + left % layer.shape[d + 2]) * stride[d];
      left /= layer.shape[d + 2];
    }
    int64_t channel = column / layer.window();
    row[size_t(column)] = numbers[size_t((sample * values.shape()[1] + channel) * plane + place)];
  }
  return true;
}

int64_t windowCount(const Layer &layer, const HostTensor &values) {
  int64_t count = values.shape()[0];
  for (size_t d = 2; d < layer.shape.size(); ++d)
    count *= std::max<int64_t>(values.shape()[d] - layer.shape[d] + 1, 0);
  return count;
}

} // namespace

Statistics::Statistics(const std::vector<Layer> &layers, bool withMoments)
    : layers_(layers), withMoments_(withMoments) {
  for (const Layer &layer : layers)
    if (layer.kept.empty())
      inputs_[layer.input];
}

std::vector<std::string> Statistics::tensors() const {
  std::vector<std::string> names;
  for (const auto &[name, unused] : inputs_)
    names.push_back(name);
  return names;
}

Status Statistics::add(const std::string &tensor, const HostTensor &values) {
  if (values.type() != DataType::F32)
    return invalidArgument("tensor '" + tensor + "' is " + std::string(name(values.type())) +
                           ", and only f32 is quantised");
  InputStatistics &statistics = inputs_.at(tensor);
  statistics.histogram.add(values.as<float>());
  bool isFirst = true;
  for (const Layer &layer : layers_) {
    if (layer.input != tensor || !layer.kept.empty())
      continue;
    int64_t axis = axisOf(layer, values);
    bool fits = axis >= 0 && axis < values.rank() &&
                values.shape()[size_t(axis)] == layer.inputChannels() &&
                (layer.op != "Conv" || values.rank() == int64_t(layer.shape.size()));
    if (!fits)
      return invalidArgument("layer '" + layer.name + "' has an input of the shape " +
                             toString(values.shape()) + ", which its weights of " +
                             toString(layer.shape) + " don't fit");
    if (isFirst)
      addChannels(statistics, values, axis);
    isFirst = false;
    if (withMoments_)
      addMoments(layer, values);
  }
  return {};
}

void Statistics::addMoments(const Layer &layer, const HostTensor &values) {
  int64_t columns = layer.weights.columns;
  if (columns > kMostColumns || layer.groups != 1)
    return;
  Moments &moments = moments_[layer.name];
  moments.resize(size_t(columns * columns), 0);
  int64_t rows = layer.op == "Conv" ? windowCount(layer, values) : values.size() / columns;
  // A step that shares no factor with the sizes of most images, so that all parts are seen.
  int64_t step = rows > kMostRows ? rows / kMostRows | 1 : 1;
  std::vector<float> row(static_cast<size_t>(columns));
  for (int64_t i = 0; i < rows; i += step) {
    if (layer.op != "Conv")
      std::ranges::copy(values.as<float>().subspan(size_t(i * columns), size_t(columns)),
                        row.begin());
    else if (!fillWindow(layer, values, i, row))
      return;
    addSquares(moments, row);
  }
}

const Moments *Statistics::momentsOf(const Layer &layer) const {
  auto found = moments_.find(layer.name);
  return found == moments_.end() ? nullptr : &found->second;
}

} // namespace tensmith::quantize

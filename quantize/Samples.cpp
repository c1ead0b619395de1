// Batches, and sums over them; see Samples.h.
#include "quantize/Samples.h"

#include <algorithm>
#include <cmath>

namespace tensmith::quantize {
namespace {

constexpr const char *kLabels = "labels";

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t dim : shape)
    text += (text.empty() ? "" : "x") + (dim < 0 ? "?" : std::to_string(dim));
  return text.empty() ? "scalar" : text;
}

bool fits(const HostTensor &array, const Port &port) {
  if (array.rank() != int64_t(port.shape.size()))
    return false;
  for (size_t i = 1; i < port.shape.size(); ++i)
    if (port.shape[i] >= 0 && port.shape[i] != array.shape()[i])
      return false;
  return true;
}

/// The place of the largest element of each row.
std::vector<int64_t> answersOf(const HostTensor &output) {
  int64_t size = output.rank() ? output.shape().back() : 0;
  std::vector<int64_t> answers;
  if (size < 2)
    return answers;
  for (int64_t row = 0; row < output.size() / size; ++row) {
    int64_t best = 0;
    for (int64_t i = 1; i < size; ++i)
      if (output.getDouble(row * size + i) > output.getDouble(row * size + best))
        best = i;
    answers.push_back(best);
  }
  return answers;
}

} // namespace

Result<Samples> Samples::of(const Feed &arrays, const std::vector<Port> &inputs, int64_t batch) {
  Samples samples;
  bool isFixed = false;
  for (const Port &port : inputs) {
    auto given = arrays.find(port.name);
    if (given == arrays.end())
      return invalidArgument("the samples have no array for input '" + port.name + "' (" +
                             shapeText(port.shape) + ")");
    if (!fits(given->second, port))
      return invalidArgument("the samples' array for input '" + port.name + "' is " +
                             toString(given->second.shape()) + ", but the input is " +
                             shapeText(port.shape) +
                             "; the first dimension counts samples, the others are the input's");
    samples.arrays_.emplace(port.name, given->second);
    if (samples.count_ || port.shape.empty())
      continue;
    samples.count_ = given->second.shape()[0];
    isFixed = port.shape[0] > 0;
    samples.size_ = isFixed ? port.shape[0] : std::min(batch, std::max<int64_t>(samples.count_, 1));
  }
  if (samples.count_ < samples.size_ || samples.count_ == 0)
    return invalidArgument("the samples are " + std::to_string(samples.count_) +
                           ", but the model takes " + std::to_string(samples.size_) + " at a time");
  samples.left_ = isFixed ? samples.count_ % samples.size_ : 0;
  samples.batches_ = (samples.count_ - samples.left_ + samples.size_ - 1) / samples.size_;
  if (auto labels = arrays.find(kLabels); labels != arrays.end()) {
    samples.labels_ = labels->second;
    samples.hasLabels_ = isInteger(labels->second.type()) && labels->second.rank() > 0 &&
                         labels->second.shape()[0] == samples.count_;
    if (!samples.hasLabels_)
      return invalidArgument("the samples' 'labels' are integers, one for each sample or more, "
                             "not " +
                             toString(labels->second.shape()));
  }
  return samples;
}

HostTensor Samples::part(const HostTensor &array, int64_t number) const {
  if (array.rank() == 0 || array.shape()[0] != count_)
    return array;
  int64_t first = number * size_;
  Shape shape = array.shape();
  shape[0] = std::min(size_, count_ - first);
  int64_t each = array.bytes() / count_;
  return HostTensor(array.type(), shape, array.data() + first * each, nullptr);
}

Feed Samples::batch(int64_t number) const {
  Feed feed;
  for (const auto &[name, array] : arrays_)
    feed.emplace(name, part(array, number));
  return feed;
}

std::vector<int64_t> Samples::labels(int64_t number) const {
  std::vector<int64_t> result;
  if (!hasLabels_)
    return result;
  HostTensor labels = part(labels_, number);
  for (int64_t i = 0; i < labels.size(); ++i)
    result.push_back(labels.getInt(i));
  return result;
}

void Quality::add(const Feed &right, const Feed &found, const std::vector<int64_t> &labels) {
  for (const std::string &name : outputs_) {
    const HostTensor &before = right.at(name), &after = found.at(name);
    if (!isFloat(before.type()) || before.shape() != after.shape())
      continue;
    Output &output = found_[name];
    for (int64_t i = 0; i < before.size(); ++i) {
      double value = before.getDouble(i), error = after.getDouble(i) - value;
      if (!std::isfinite(value))
        continue;
      output.signal += value * value;
      output.noise += error * error;
    }
    std::vector<int64_t> answers = answersOf(before), others = answersOf(after);
    bool isLabelled = labels.size() == answers.size();
    for (size_t i = 0; i < answers.size(); ++i) {
      output.answers += 1;
      output.agreed += answers[i] == others[i];
      if (!isLabelled)
        continue;
      output.labelled += 1;
      output.rightBefore += answers[i] == labels[i];
      output.rightAfter += others[i] == labels[i];
    }
  }
}

double Quality::relativeError() const {
  double signal = 0, noise = 0;
  for (const auto &[name, output] : found_) {
    signal += output.signal;
    noise += output.noise;
  }
  return signal > 0 ? noise / signal : noise > 0 ? 1 : 0;
}

double Quality::lost() const {
  Output sum;
  for (const auto &[name, output] : found_) {
    sum.answers += output.answers;
    sum.agreed += output.agreed;
    sum.labelled += output.labelled;
    sum.rightBefore += output.rightBefore;
    sum.rightAfter += output.rightAfter;
  }
  if (sum.labelled > 0)
    return 100 * (sum.rightBefore - sum.rightAfter) / sum.labelled;
  return sum.answers > 0 ? 100 * (1 - sum.agreed / sum.answers) : 100 * relativeError();
}

} // namespace tensmith::quantize

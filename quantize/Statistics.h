// What calibration samples say of the inputs of layers.
//
// One object for each tensor that layers read. Second moments cost the square of the channels, and
// are gathered only where GPTQ or AWQ asks for them; of convolutions they are those of windows.
#pragma once

#include "quantize/Layers.h"

namespace tensmith::quantize {

struct InputStatistics {
  Histogram histogram;
  std::vector<double> most, sums, magnitudes; ///< of each channel: max |x|, sums of x and of |x|
  double count = 0;                           ///< of elements a channel

  double mean(int64_t channel) const { return count ? sums[size_t(channel)] / count : 0; }
  double meanMagnitude(int64_t channel) const {
    return count ? magnitudes[size_t(channel)] / count : 0;
  }
};

class Statistics {
public:
  /// `withMoments`: second moments, too.
  Statistics(const std::vector<Layer> &layers, bool withMoments);

  /// The tensors to observe.
  std::vector<std::string> tensors() const;
  /// InvalidArgument where a tensor isn't of f32, or of another shape than the layer's.
  Status add(const std::string &tensor, const HostTensor &values);

  const InputStatistics &of(const Layer &layer) const { return inputs_.at(layer.input); }
  /// The mean of x x^T over the layer's inputs, of its first group; null where none were gathered.
  const Moments *momentsOf(const Layer &layer) const;

private:
  void addMoments(const Layer &layer, const HostTensor &values);

  const std::vector<Layer> &layers_;
  bool withMoments_;
  std::map<std::string, InputStatistics> inputs_;
  std::map<std::string, Moments> moments_; // by layer
};

} // namespace tensmith::quantize

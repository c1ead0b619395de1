// How often which values occur in a tensor, over all calibration samples, and the range that codes
// should cover.
//
// Values beyond a range are clamped, values within it are rounded: a wide range rounds coarsely,
// a narrow one clamps much. The rules weigh this differently:
//
//   min-max      nothing is clamped
//   percentile   a given share of the values is clamped
//   mse          the least mean square of both errors, found by a search over narrower ranges
//   entropy      the least Kullback-Leibler divergence between the histograms before and after
//                (Migacz, "8-bit Inference with TensorRT", 2017)
//
// One pass over the data is enough: the histogram reaches from -limit to limit; when a value is
// beyond, the limit is doubled, and pairs of bins are merged.
#pragma once

#include "quantize/Format.h"

#include <utility>

namespace tensmith::quantize {

enum class RangeRule : uint8_t { MinMax, Percentile, MeanSquare, Entropy };

struct RangeSettings {
  RangeRule rule = RangeRule::MinMax;
  double percentile = 99.99; ///< of the values that are not clamped
};

class Histogram {
public:
  Histogram();

  /// NaN and infinities are counted, and otherwise ignored.
  void add(std::span<const float> values);

  double low() const { return low_; }
  double high() const { return high_; }
  uint64_t count() const { return count_; }
  uint64_t notFinite() const { return notFinite_; }
  double meanMagnitude() const { return count_ ? magnitudes_ / double(count_) : 0; }

  Step step(const Format &format, const RangeSettings &settings) const;
  /// What rounding the values by that step errs by, by the middles of the bins.
  double meanSquareError(const Format &format, Step step) const;

private:
  using Range = std::pair<double, double>;
  void reach(double magnitude);
  double middle(size_t bin) const;
  double width() const;
  Range percentile(const Format &format, double percentile) const;
  Range leastSquares(const Format &format) const;
  Range leastDivergence(const Format &format) const;

  std::vector<double> counts_;
  double limit_ = 0, low_ = 0, high_ = 0, magnitudes_ = 0;
  uint64_t count_ = 0, notFinite_ = 0;
};

} // namespace tensmith::quantize

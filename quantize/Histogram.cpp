// Counting values, and choosing the range of codes; see Histogram.h.
#include "quantize/Histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tensmith::quantize {
namespace {

/// Even, so that no bin spans zero. 16 bins for each code of 8 bits.
constexpr size_t kBins = 4096;
/// Ranges that the search for the least square tries, from the whole one downward.
constexpr int kShrinkings = 100;
/// The divergence needs more bins than codes.
constexpr size_t kFirstDivergenceBins = 128;

/// The divergence of `counts`, of which what lies beyond `kept` bins is clamped, from what
/// `levels` evenly spaced codes leave of it.
double divergence(std::span<const double> counts, size_t kept, size_t levels) {
  double beyond = std::accumulate(counts.begin() + ptrdiff_t(kept), counts.end(), 0.0);
  double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  double result = 0;
  for (size_t level = 0; level < levels; ++level) {
    size_t begin = level * kept / levels, end = (level + 1) * kept / levels;
    double sum = 0, occupied = 0;
    for (size_t bin = begin; bin < end; ++bin) {
      sum += counts[bin];
      occupied += counts[bin] > 0;
    }
    for (size_t bin = begin; bin < end; ++bin) {
      double before = counts[bin] + (bin + 1 == kept ? beyond : 0);
      if (before <= 0)
        continue;
      // What is clamped falls into a bin that the codes may have left empty.
      double after = counts[bin] > 0 ? sum / occupied : 1e-3;
      result += before / total * std::log(before / after);
    }
  }
  return result;
}

} // namespace

Histogram::Histogram() : counts_(kBins, 0) {}

void Histogram::reach(double magnitude) {
  if (limit_ == 0)
    limit_ = std::exp2(std::ceil(std::log2(std::max(magnitude, 1e-30))));
  while (magnitude > limit_) {
    std::vector<double> merged(kBins, 0);
    for (size_t bin = 0; bin < kBins; ++bin)
      merged[kBins / 4 + bin / 2] += counts_[bin];
    counts_ = std::move(merged);
    limit_ *= 2;
  }
}

void Histogram::add(std::span<const float> values) {
  double most = 0;
  for (float value : values)
    if (std::isfinite(value))
      most = std::max(most, double(std::abs(value)));
  reach(most);
  double perBin = double(kBins / 2) / limit_;
  for (float value : values) {
    if (!std::isfinite(value)) {
      ++notFinite_;
      continue;
    }
    double at = std::floor(double(value) * perBin) + double(kBins / 2);
    ++counts_[size_t(std::clamp(at, 0.0, double(kBins - 1)))];
    low_ = count_ ? std::min(low_, double(value)) : double(value);
    high_ = count_ ? std::max(high_, double(value)) : double(value);
    magnitudes_ += std::abs(double(value));
    ++count_;
  }
}

double Histogram::width() const { return 2 * limit_ / double(kBins); }
double Histogram::middle(size_t bin) const { return (double(bin) + 0.5) * width() - limit_; }

double Histogram::meanSquareError(const Format &format, Step step) const {
  double sum = 0;
  for (size_t bin = 0; bin < kBins; ++bin) {
    if (counts_[bin] == 0)
      continue;
    double value = middle(bin), error = value - double(rounded(format, step, float(value)));
    sum += counts_[bin] * error * error;
  }
  return count_ ? sum / double(count_) : 0;
}

Histogram::Range Histogram::percentile(const Format &format, double percentile) const {
  double clamped = (1 - percentile / 100) * double(count_);
  if (format.isSymmetric) {
    double beyond = 0;
    for (size_t bin = kBins; bin > kBins / 2; --bin) {
      beyond += counts_[bin - 1] + counts_[kBins - bin];
      if (beyond > clamped) {
        double most = middle(bin - 1) + width() / 2;
        return {std::max(low_, -most), std::min(high_, most)};
      }
    }
    return {low_, high_};
  }
  // Of both ends together; an end that lies at zero is no tail.
  double eachEnd = low_ < 0 && high_ > 0 ? clamped / 2 : clamped;
  Range range = {low_, high_};
  double below = 0, above = 0;
  for (size_t bin = 0; bin < kBins && low_ < 0; ++bin)
    if ((below += counts_[bin]) > eachEnd) {
      range.first = std::max(low_, middle(bin) - width() / 2);
      break;
    }
  for (size_t bin = kBins; bin > 0 && high_ > 0; --bin)
    if ((above += counts_[bin - 1]) > eachEnd) {
      range.second = std::min(high_, middle(bin - 1) + width() / 2);
      break;
    }
  return range;
}

Histogram::Range Histogram::leastSquares(const Format &format) const {
  Range best = {low_, high_};
  double least = std::numeric_limits<double>::infinity();
  auto attempt = [&](Range range) {
    Step step = stepFor(format, range.first, range.second, meanMagnitude());
    if (double error = meanSquareError(format, step); error < least) {
      least = error;
      best = range;
    }
  };
  auto part = [](int shrinking) { return 1 - double(shrinking) / kShrinkings; };
  for (int i = 0; i < kShrinkings; ++i)
    attempt({low_ * part(i), high_ * part(i)});
  if (format.isSymmetric || low_ >= 0 || high_ <= 0)
    return best;
  Range both = best;
  for (int i = 0; i < kShrinkings; i += 4)
    attempt({both.first * part(i), both.second});
  both = best;
  for (int i = 0; i < kShrinkings; i += 4)
    attempt({both.first, both.second * part(i)});
  return best;
}

Histogram::Range Histogram::leastDivergence(const Format &format) const {
  std::vector<double> magnitudes(kBins / 2);
  for (size_t i = 0; i < kBins / 2; ++i)
    magnitudes[i] = counts_[kBins / 2 + i] + counts_[kBins / 2 - 1 - i];
  // Zeros are exact by any range, and many of them would hide all else.
  magnitudes[0] = magnitudes[1];
  bool isOneSided = low_ >= 0 || high_ <= 0;
  bool halves = !isOneSided || (format.isSymmetric && format.isSigned);
  size_t levels = size_t(std::max(2, 1 << std::min(format.bits - (halves ? 1 : 0), 10)));
  size_t best = kBins / 2, first = std::max(kFirstDivergenceBins, levels);
  double least = std::numeric_limits<double>::infinity();
  for (size_t kept = first; kept <= kBins / 2; kept += 8)
    if (double now = divergence(magnitudes, kept, levels); now < least) {
      least = now;
      best = kept;
    }
  double most = double(best) * width();
  return {std::max(low_, -most), std::min(high_, most)};
}

Step Histogram::step(const Format &format, const RangeSettings &settings) const {
  Range range = {low_, high_};
  if (count_ && limit_ > 0 && low_ < high_)
    switch (settings.rule) {
    case RangeRule::MinMax:
      break;
    case RangeRule::Percentile:
      range = percentile(format, settings.percentile);
      break;
    case RangeRule::MeanSquare:
      range = leastSquares(format);
      break;
    case RangeRule::Entropy:
      range = format.isInteger() ? leastDivergence(format) : range;
      break;
    }
  return stepFor(format, range.first, range.second, meanMagnitude());
}

} // namespace tensmith::quantize

// What a split is worth: the second-order objective of the XGBoost paper, equations 5 to 7, with L1
// and L2 terms, bounds of a leaf's step, and monotone constraints as intervals for weights.
//
// Gains are f32 and computed in the steps in which XGBoost computes them, so that ties are ties
// here, too. Of equal gains the feature with the lower number wins, and of one feature the
// candidate that was met first; thus the winner does not depend on who compares in which order.
#pragma once

#include "trees/Gradients.h"
#include "trees/Parameters.h"

#include <limits>
#include <vector>

namespace tensmith::trees {

/// Splits that gain no more are none.
inline constexpr float kLeastGain = 1e-6f;

struct Candidate {
  float gain = 0;
  int32_t feature = -1;
  float threshold = 0; // values below go left
  int32_t bin = -1;    // of histograms: bins up to it go left
  bool missingLeft = false;
  std::vector<int32_t> categories; // not empty: of these, rows go left
  GradientSum left, right;

  bool isNone() const { return feature < 0; }
  /// Whether one with this gain takes its place.
  bool yieldsTo(float otherGain, int32_t otherFeature) const {
    if (!(otherGain < std::numeric_limits<float>::infinity())) // NaN too
      return false;
    if (isNone() || feature <= otherFeature)
      return otherGain > gain;
    return !(gain > otherGain);
  }
  void take(Candidate &&other) {
    if (!other.isNone() && yieldsTo(other.gain, other.feature))
      *this = std::move(other);
  }
};

/// What a node's weight may be, for the sake of monotone features above it.
struct Interval {
  float least = -std::numeric_limits<float>::max(), most = std::numeric_limits<float>::max();
};

class SplitRules {
public:
  SplitRules(const Parameters &parameters, int64_t features);

  float weight(const GradientSum &sum, const Interval &interval) const;
  /// Of a node as a leaf.
  float gain(const GradientSum &sum, const Interval &interval) const {
    return isPlain_ ? plainGain(sum) : gainAt(sum, weight(sum, interval));
  }
  /// Of its two sides together; minus infinity where the split may not be.
  float gain(const GradientSum &left, const GradientSum &right, int32_t feature,
             const Interval &interval) const {
    return isPlain_ ? plainGain(left) + plainGain(right)
                    : boundedGain(left, right, feature, interval);
  }
  /// Whether weights have no bounds, so that `gains` may be asked.
  bool isPlain() const { return isPlain_; }
  /// Of many splits at once: gains[i] = gain(left, right), where left's sums are firsts[i] and
  /// seconds[i] and right is what `node` has beside; minus infinity where a side is too small.
  void gains(const double *firsts, const double *seconds, int64_t count, const GradientSum &node,
             float *gains) const;
  bool mayBeChild(const GradientSum &sum) const { return sum.second >= minChildWeight_; }
  /// Of the children of a split by the feature.
  std::pair<Interval, Interval> intervals(int32_t feature, const Interval &parent, float leftWeight,
                                          float rightWeight) const;
  /// By which categories are sorted.
  float categoryWeight(const GradientSum &sum) const { return weight(sum, {}); }

private:
  double thresholded(double first) const {
    return first > alpha_ ? first - alpha_ : first < -alpha_ ? first + alpha_ : 0;
  }
  float plainGain(const GradientSum &sum) const {
    if (!(sum.second > 0))
      return 0;
    double first = thresholded(sum.first);
    return float(first * first) / float(sum.second + lambda_);
  }
  float gainAt(const GradientSum &sum, float weight) const;
  float boundedGain(const GradientSum &left, const GradientSum &right, int32_t feature,
                    const Interval &interval) const;

  float lambda_, alpha_, minChildWeight_, maxDeltaStep_;
  std::vector<int8_t> monotone_; // by feature; empty: none
  bool isPlain_;                 // no bounds of any kind
};

} // namespace tensmith::trees

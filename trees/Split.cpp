// Weights and gains of leaves under bounds: the closed forms where there are none are in the
// header.
#include "trees/Split.h"

#include <algorithm>
#include <cmath>

namespace tensmith::trees {

SplitRules::SplitRules(const Parameters &parameters, int64_t features)
    : lambda_(float(parameters.lambda)), alpha_(float(parameters.alpha)),
      minChildWeight_(float(parameters.minChildWeight)),
      maxDeltaStep_(float(parameters.maxDeltaStep)) {
  bool isMonotone = std::any_of(parameters.monotone.begin(), parameters.monotone.end(),
                                [](int64_t sign) { return sign != 0; });
  if (isMonotone) {
    monotone_.assign(features, 0);
    for (size_t feature = 0; feature < parameters.monotone.size(); ++feature)
      monotone_[feature] = int8_t(parameters.monotone[feature]);
  }
  isPlain_ = !isMonotone && maxDeltaStep_ == 0;
}

float SplitRules::weight(const GradientSum &sum, const Interval &interval) const {
  if (!(sum.second > 0))
    return std::clamp(0.f, interval.least, interval.most);
  double step = -thresholded(sum.first) / (sum.second + lambda_);
  if (maxDeltaStep_ != 0 && std::fabs(step) > maxDeltaStep_)
    step = std::copysign(double(maxDeltaStep_), step);
  return std::clamp(float(step), interval.least, interval.most);
}

/// In the steps of plainGain, so that both round alike; a loop without branches.
void SplitRules::gains(const double *firsts, const double *seconds, int64_t count,
                       const GradientSum &node, float *gains) const {
  double alpha = alpha_, lambda = lambda_, least = minChildWeight_;
  auto part = [&](double first, double second) {
    double size = std::fabs(first) - alpha;
    double square = size > 0 ? size * size : 0;
    float gain = float(square) / float(second + lambda);
    return second > 0 ? gain : 0.f;
  };
  for (int64_t at = 0; at < count; ++at) {
    double right = node.second - seconds[at];
    float gain = part(firsts[at], seconds[at]) + part(node.first - firsts[at], right);
    bool mayBe = seconds[at] >= least && right >= least;
    gains[at] = mayBe ? gain : -std::numeric_limits<float>::infinity();
  }
}

float SplitRules::gainAt(const GradientSum &sum, float weight) const {
  if (!(sum.second > 0))
    return 0;
  float first = float(sum.first), second = float(sum.second);
  return -(2 * first * weight + (second + lambda_) * weight * weight +
           2 * alpha_ * std::fabs(weight));
}

float SplitRules::boundedGain(const GradientSum &left, const GradientSum &right, int32_t feature,
                              const Interval &interval) const {
  float leftWeight = weight(left, interval), rightWeight = weight(right, interval);
  int sign = monotone_.empty() ? 0 : monotone_[feature];
  if ((sign > 0 && leftWeight > rightWeight) || (sign < 0 && leftWeight < rightWeight))
    return -std::numeric_limits<float>::infinity();
  if (monotone_.empty() && maxDeltaStep_ == 0)
    return plainGain(left) + plainGain(right);
  return gainAt(left, leftWeight) + gainAt(right, rightWeight);
}

std::pair<Interval, Interval> SplitRules::intervals(int32_t feature, const Interval &parent,
                                                    float leftWeight, float rightWeight) const {
  std::pair<Interval, Interval> children{parent, parent};
  int sign = monotone_.empty() ? 0 : monotone_[feature];
  float middle = leftWeight + (rightWeight - leftWeight) / 2;
  if (sign > 0)
    children.first.most = children.second.least = middle;
  if (sign < 0)
    children.first.least = children.second.most = middle;
  return children;
}

} // namespace tensmith::trees

// Rounding of gradient statistics to multiples of a power of two: adding and subtracting 1.5 * 2^52
// times that power rounds to the nearest multiple, ties to even.
#include "trees/Gradients.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tensmith::trees {

namespace {

constexpr int64_t kGrain = 1 << 15;

/// What is added and subtracted again; 0 where nothing has to be rounded.
double roundingTerm(int64_t rows, double largest) {
  if (largest == 0)
    return 0;
  int exponent = 0;
  std::frexp(double(rows) * largest, &exponent); // <= 2^exponent
  return std::ldexp(1.5, exponent - 53 + 52);
}

float rounded(float value, double term) {
  return float((double(value) + term) - term); // compiled without re-association
}

} // namespace

GradientSum largest(std::span<const Gradient> gradients, Threads &threads) {
  int64_t count = int64_t(gradients.size());
  std::vector<GradientSum> parts((count + kGrain - 1) / kGrain);
  threads.ranges(count, kGrain, [&](int64_t begin, int64_t end, int) {
    float first = 0, second = 0;
    for (int64_t row = begin; row < end; ++row) {
      first = std::max(first, std::fabs(gradients[row].first));
      second = std::max(second, std::fabs(gradients[row].second));
    }
    parts[begin / kGrain] = {first, second};
  });
  GradientSum result;
  for (const GradientSum &part : parts) {
    result.first = std::max(result.first, part.first);
    result.second = std::max(result.second, part.second);
  }
  return result;
}

void roundToQuantum(std::span<Gradient> gradients, int64_t rows, const GradientSum &largest,
                    Threads &threads) {
  double first = roundingTerm(rows, largest.first), second = roundingTerm(rows, largest.second);
  threads.ranges(int64_t(gradients.size()), kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      gradients[row].first = rounded(gradients[row].first, first);
      gradients[row].second = rounded(gradients[row].second, second);
    }
  });
}

GradientSum sumOf(std::span<const Gradient> gradients, Threads &threads) {
  int64_t count = int64_t(gradients.size());
  std::vector<GradientSum> parts((count + kGrain - 1) / kGrain);
  threads.ranges(count, kGrain, [&](int64_t begin, int64_t end, int) {
    GradientSum sum;
    for (int64_t row = begin; row < end; ++row)
      sum.add(gradients[row]);
    parts[begin / kGrain] = sum;
  });
  GradientSum result;
  for (const GradientSum &part : parts)
    result.add(part);
  return result;
}

} // namespace tensmith::trees

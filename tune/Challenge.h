// Whether a point is faster than another one, on a machine that others use too.
//
// Both are run in turns, so that a drift of the machine meets both alike; what is compared is the
// logarithm of their times' ratio in each turn. Turns go on until the mean is certainly on one side
// (by its standard error, as normal), or there were enough. The confidence is stated with the
// answer.
#pragma once

#include "tune/Bench.h"

namespace tensmith::tune {

struct Verdict {
  double ratio = 1;      // challenger's time against the other's: the geometric mean
  double confidence = 0; // that it is below 1
  std::vector<double> challenger, other; // seconds, by turn
  std::string failure;                   // the challenger did not run; empty: it did

  bool isFaster() const { return failure.empty() && ratio < 1 && confidence >= kConfident; }
  static constexpr double kConfident = 0.95;
};

/// From the ratios of turns: the verdict's first two fields.
Verdict judge(std::span<const double> challenger, std::span<const double> other);

/// In at least `fewest` and at most `most` turns.
Verdict challenge(Bench &bench, size_t challenger, size_t other, int fewest = 4, int most = 16);

double medianOf(std::vector<double> values);

} // namespace tensmith::tune

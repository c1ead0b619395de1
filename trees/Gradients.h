// Gradient statistics whose sums have no order.
//
// A sum of f64 is exact, and so the same in any order, while all of its parts are multiples of one
// power of two q and no sum exceeds 2^53 q. Gradients are f32 and there are n of them, so q is
// chosen such that n max|g| <= 2^53 q, and each is rounded to a multiple of q: it stays an f32,
// and changes by less than n 2^-53 of the largest. For a million rows that is 2^-33, less than the
// rounding of an f32 has cost already. Thus histograms may be made by any number of threads and
// processes, and a sibling's by subtraction, with the same bits.
#pragma once

#include "trees/Objective.h"
#include "trees/Threads.h"

#include <span>

namespace tensmith::trees {

struct GradientSum {
  double first = 0, second = 0;

  void add(const Gradient &gradient) { first += gradient.first, second += gradient.second; }
  void add(const GradientSum &other) { first += other.first, second += other.second; }
  GradientSum less(const GradientSum &other) const {
    return {first - other.first, second - other.second};
  }
  bool operator==(const GradientSum &) const = default;
};

/// The largest magnitudes: of first, of second.
GradientSum largest(std::span<const Gradient> gradients, Threads &threads);
/// Rounds as above. `rows` and `largest` are those of all processes.
void roundToQuantum(std::span<Gradient> gradients, int64_t rows, const GradientSum &largest,
                    Threads &threads);
GradientSum sumOf(std::span<const Gradient> gradients, Threads &threads);

} // namespace tensmith::trees

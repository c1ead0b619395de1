// What is known of the numbers in a tensor without running anything.
#pragma once

#include "mlir/IR/Value.h"

#include <limits>

namespace tensmith::graph {

/// No number in the tensor is outside of them (NaN is in none).
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  bool within(double least, double most) const { return low >= least && high <= most; }
};

/// By the type of small integers, and by the few operators that are looked through: minima and
/// maxima with constants, casts, differences, and what only moves elements.
Bounds boundsOf(mlir::Value value);

} // namespace tensmith::graph

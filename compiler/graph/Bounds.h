// What is known of the numbers in a tensor without running anything.
#pragma once

#include "mlir/IR/Value.h"

#include <limits>

namespace tensmith::graph {

/// A mark on a cast from f32 to i32: the operand is a number that fits, so that nothing is checked;
/// and on a gather: the indices are in [0, size), as decompositions make them.
inline constexpr char kInRange[] = "graph.in_range";
/// On a gather: what is told of an index that is not there, in place of its own words.
inline constexpr char kRefusal[] = "graph.refusal";
/// A mark on a cast from f32 to an integer of up to 16 bits: of `staysWithin`, where the code
/// doesn't show it any more.
inline constexpr char kBounded[] = "graph.bounded";
/// A mark on sums and products of floats: both together may be rounded once.
inline constexpr char kContract[] = "graph.contract";

/// No number in the tensor is outside of them (NaN is in none).
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  bool numbers = false; // and there is no NaN

  bool within(double least, double most) const { return low >= least && high <= most; }
};

/// By the type of small integers, and by the few operators that are looked through: minima and
/// maxima with constants, casts, rounding, sums and products, and what only moves elements.
Bounds boundsOf(mlir::Value value);

class CastOp;
/// Whether no number that is cast to an integer of up to 16 bits can be outside of it; NaN may be
/// among them.
bool staysWithin(CastOp cast);

} // namespace tensmith::graph

// Random sequences of primitives.
#pragma once

#include "compiler/nest/Schedule.h"

#include <map>
#include <random>
#include <string>

namespace tensmith::nest::test {

struct RandomSequence {
  std::string text;                   // of the lines that were applied
  std::map<std::string, int> refused; // lines that weren't, by the kind of the dependence
  int verified = 0;                   // of those, that name two points of which it holds
  std::string wrong;                  // a refusal whose dependence there isn't
  std::string line;                   // the last that was refused

  int refusals() const {
    int count = 0;
    for (const auto &[kind, own] : refused)
      count += own;
    return count;
  }
};

/// Whether the dependence that a refusal names is one: its two points, at sizes that have both,
/// touch an element of the tensor in the way that its kind says. In words what is wrong; empty:
/// nothing, or the refusal names points of statements that the primitive would have made.
std::string wrongReason(const Nest &nest, const std::string &reason);

/// Its memories are "near", which is small, and "far"; vectors are of 32 bytes. Its instructions of
/// f32 are "lanes", four multiply-adds, "outer", two by four, and "dots", four sums of two
/// products.
TargetUnits drawnTarget();

/// Tries so many lines on the schedule.
RandomSequence applyRandom(Schedule &schedule, std::mt19937_64 &random, int lines);

} // namespace tensmith::nest::test

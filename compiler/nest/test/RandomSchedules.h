// Random sequences of primitives.
#pragma once

#include "compiler/nest/Schedule.h"

#include <random>

namespace tensmith::nest::test {

struct RandomSequence {
  std::string text;   // of the lines that were applied
  int refused = 0;    // lines that weren't, for a dependence
  std::string reason; // the last of those, and its line
  std::string line;
};

/// Tries so many lines on the schedule.
RandomSequence applyRandom(Schedule &schedule, std::mt19937_64 &random, int lines);

} // namespace tensmith::nest::test

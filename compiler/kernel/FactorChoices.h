// Choices whose values are factorisations of a loop's length (base/Factorisations.h): what a search
// has to know of them, since the next number is no neighbour.
#pragma once

#include "base/Factorisations.h"
#include "compiler/kernel/Space.h"

namespace tensmith::kernel {

namespace choice {
inline constexpr int64_t kMostFactorNumber = 999'999'999'999'999;
/// Of a nest's sum: its rows, its lanes, and what is summed up.
inline constexpr Choice rowFactors{"row_factors", 1, kMostFactorNumber};
inline constexpr Choice laneFactors{"lane_factors", 1, kMostFactorNumber};
inline constexpr Choice depthFactors{"depth_factors", 1, kMostFactor};
} // namespace choice

/// How many factors a value of the choice has; 0: its values are no factorisations.
inline size_t partsOf(const Choice &choice) {
  if (&choice == &choice::rowFactors || &choice == &choice::laneFactors)
    return 4;
  return &choice == &choice::depthFactors ? 2 : 0;
}

} // namespace tensmith::kernel

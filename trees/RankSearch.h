// The values at given ranks of a column whose rows are split over processes, found exactly and
// without gathering the column.
//
// Keys are u32 in the order of the values. The digits of a sought key are found eight bits at a
// time, for all ranks at once: each process counts its keys behind each distinct prefix, the counts
// are summed over the processes, and each rank goes on behind the digit that it falls under. Each
// process has its keys sorted, so that all counts are one walk along them. Weights are summed as
// f64; they are rounded before (Gradients.h), so that sums have no order.
#pragma once

#include "trees/Training.h"

#include <cstdint>
#include <span>
#include <vector>

namespace tensmith::trees {

struct SharedCuts {
  std::vector<uint32_t> keys; // of the cuts, ascending
  uint32_t least = 0, most = 0;
  bool isEmpty = true;
};

/// `keys` ascend; `weights` lie beside them, or are empty. What Cuts.h says of cuts, of all
/// processes' values.
Result<SharedCuts> cutsOfAll(std::span<const uint32_t> keys, std::span<const float> weights,
                             int64_t maxBins, Exchange &exchange);

} // namespace tensmith::trees

// Splits that processes agree on: each has looked at features of its own, and all take the best.
#pragma once

#include "trees/Cuts.h"
#include "trees/SplitFinder.h"
#include "trees/Training.h"

namespace tensmith::trees {

/// Replaces the best candidate of each node by the best of all processes. The result has no order:
/// see Candidate::yieldsTo.
Status shareBest(std::span<GrowingNode *const> nodes, const Cuts &cuts, Exchange &exchange);

} // namespace tensmith::trees

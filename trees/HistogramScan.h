// The best split of one node and one feature from its histogram.
//
// Missing values are what the node has and the bins have not; both sides are tried for them, the
// right one first. A bin that is empty makes the same candidate as the one before it, and is passed
// over. Categories are split one against the rest where they are few; else they are sorted by the
// weight that each would have as a leaf, and split like numbers (Fisher, "On Grouping for Maximum
// Homogeneity", 1958).
#pragma once

#include "trees/Cuts.h"
#include "trees/SplitFinder.h"

namespace tensmith::trees {

struct CategoryLimits {
  int64_t oneHot, sorted;
};

/// `histogram` has as many elements as the feature has bins. Improves `best`.
void scanHistogram(const GradientSum *histogram, const Cuts &cuts, int32_t feature,
                   const GrowingNode &node, const SplitRules &rules, const CategoryLimits &limits,
                   Candidate &best);

} // namespace tensmith::trees

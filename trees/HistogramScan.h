// The best split of one node and one feature from its histogram.
//
// Missing values are what the node has and the bins have not; both sides are tried for them, the
// right one first. A bin that is empty makes the same candidate as the one before it, and is passed
// over; the gains of all others are computed in vectors. Categories are split one against the rest
// where they are few; else they are sorted by the weight that each would have as a leaf, and split
// like numbers (Fisher, "On Grouping for Maximum Homogeneity", 1958).
#pragma once

#include "trees/Cuts.h"
#include "trees/SplitFinder.h"

namespace tensmith::trees {

struct CategoryLimits {
  int64_t oneHot, sorted;
};

/// Where one feature's values are cut (Cuts.h).
struct FeatureBins {
  std::span<const float> cuts;
  float least;
  bool isCategorical;

  int32_t bins() const { return int32_t(cuts.size()); }
  float threshold(int32_t bin) const { return bin < 0 ? least : cuts[bin]; }
};
inline FeatureBins binsOf(const Cuts &cuts, int64_t feature) {
  return {cuts.of(feature), cuts.least[feature], bool(cuts.isCategorical[feature])};
}

/// `histogram` has as many elements as the feature has bins. Improves `best`.
void scanHistogram(const GradientSum *histogram, const FeatureBins &bins, int32_t feature,
                   const GrowingNode &node, const SplitRules &rules, const CategoryLimits &limits,
                   Candidate &best);

/// A histogram to which few entries came, as most of a sparse feature's are.
struct SparseHistogram {
  /// As many elements as the feature has bins, zeros but for those that are touched.
  GradientSum *sums;
  /// By bin, 1 where an entry came to it, else 0; touchedSize(bins) elements.
  uint8_t *touched;

  static int64_t touchedSize(int64_t bins) { return (bins + 63) / 64 * 64; }
};

/// The same in time of the touched bins alone, which are zeros again afterwards.
void scanHistogram(SparseHistogram histogram, const FeatureBins &bins, int32_t feature,
                   const GrowingNode &node, const SplitRules &rules, const CategoryLimits &limits,
                   Candidate &best);
/// Makes it zeros without a scan.
void clear(SparseHistogram histogram, int32_t bins);

} // namespace tensmith::trees

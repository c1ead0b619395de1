// Scans of histograms: numbers upwards and downwards, categories one by one or in order of weight.
#include "trees/HistogramScan.h"

#include <algorithm>
#include <numeric>

namespace tensmith::trees {

namespace {

struct Scan {
  const GradientSum *histogram;
  const FeatureBins &of;
  int32_t feature;
  const GrowingNode &node;
  const SplitRules &rules;
  Candidate &best;

  /// True where the candidate is the best so far.
  bool consider(const GradientSum &left, const GradientSum &right, bool missingLeft) {
    if (!rules.mayBeChild(left) || !rules.mayBeChild(right))
      return false;
    float gain = rules.gain(left, right, feature, node.interval) - node.gain;
    if (!best.yieldsTo(gain, feature))
      return false;
    best.gain = gain;
    best.feature = feature;
    best.missingLeft = missingLeft;
    best.left = left, best.right = right;
    return true;
  }
  void setNumber(int32_t bin) {
    best.bin = bin;
    best.threshold = of.threshold(bin);
    best.categories.clear();
  }
  void setCategories(std::vector<int32_t> left) {
    std::sort(left.begin(), left.end());
    best.categories = std::move(left);
    best.bin = -1;
    best.threshold = 0;
  }

  void upwards() {
    GradientSum left;
    int32_t bins = of.bins();
    for (int32_t bin = 0; bin < bins; ++bin) {
      if (histogram[bin] == GradientSum())
        continue;
      left.add(histogram[bin]);
      if (consider(left, node.sum.less(left), false))
        setNumber(bin);
    }
  }
  void downwards() {
    GradientSum right;
    for (int32_t bin = of.bins() - 1; bin >= 0; --bin) {
      if (histogram[bin] == GradientSum())
        continue;
      right.add(histogram[bin]);
      if (consider(node.sum.less(right), right, true))
        setNumber(bin - 1);
    }
  }

  /// Each category to the right, the rest left, and missing values on either side. The set of a
  /// split is what goes left, so it is all other categories.
  void oneAgainstRest(const GradientSum &missing) {
    int32_t bins = of.bins();
    for (int32_t category = 0; category < bins; ++category) {
      if (histogram[category] == GradientSum())
        continue;
      GradientSum right = histogram[category];
      bool isBest = consider(node.sum.less(right), right, true);
      right.add(missing);
      isBest |= consider(node.sum.less(right), right, false);
      if (isBest) {
        std::vector<int32_t> rest(bins);
        std::iota(rest.begin(), rest.end(), 0);
        rest.erase(rest.begin() + category);
        setCategories(std::move(rest));
      }
    }
  }

  void sortedCategories(int64_t most, bool hasMissing) {
    std::vector<int32_t> order;
    for (int32_t category = 0; category < of.bins(); ++category)
      if (!(histogram[category] == GradientSum()))
        order.push_back(category);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return rules.categoryWeight(histogram[a]) < rules.categoryWeight(histogram[b]);
    });
    int64_t count = int64_t(order.size());
    GradientSum sum;
    for (int64_t at = 0; at < std::min(most, count - !hasMissing); ++at) { // missing with the rest
      sum.add(histogram[order[at]]);
      if (consider(sum, node.sum.less(sum), false))
        setCategories({order.begin(), order.begin() + at + 1});
    }
    sum = {};
    for (int64_t at = count - 1; at >= std::max<int64_t>(1, count - most); --at) {
      sum.add(histogram[order[at]]);
      if (consider(node.sum.less(sum), sum, true))
        setCategories({order.begin(), order.begin() + at});
    }
  }
};

} // namespace

void scanHistogram(const GradientSum *histogram, const FeatureBins &of, int32_t feature,
                   const GrowingNode &node, const SplitRules &rules, const CategoryLimits &limits,
                   Candidate &best) {
  int32_t bins = of.bins();
  GradientSum present;
  for (int32_t bin = 0; bin < bins; ++bin)
    present.add(histogram[bin]);
  GradientSum missing = node.sum.less(present);
  bool hasMissing = !(missing == GradientSum());
  Scan scan{histogram, of, feature, node, rules, best};
  if (of.isCategorical) {
    if (bins > 1 && bins < limits.oneHot)
      scan.oneAgainstRest(missing);
    else
      scan.sortedCategories(limits.sorted, hasMissing);
    return;
  }
  scan.upwards();
  if (hasMissing)
    scan.downwards();
}

} // namespace tensmith::trees

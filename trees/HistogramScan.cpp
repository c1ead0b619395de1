// Scans of histograms: numbers upwards and downwards, categories one by one or in order of weight.
#include "trees/HistogramScan.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

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

  /// Numbers. Sums up to each bin that is not empty come first; then the gains of all splits.
  void numbers() { split(prefixesOf(histogram)); }
  void numbers(SparseHistogram sparse) { split(prefixesOf(sparse)); }

  struct Prefixes;
  Prefixes &prefixesOf(const GradientSum *dense) const {
    static thread_local Prefixes prefixes;
    prefixes.fill(dense, of.bins());
    return prefixes;
  }
  Prefixes &prefixesOf(SparseHistogram sparse) const {
    static thread_local Prefixes prefixes;
    prefixes.take(sparse, of.bins());
    return prefixes;
  }
  void split(Prefixes &prefixes) {
    GradientSum missing = node.sum.less(prefixes.total());
    upwards(prefixes);
    if (!(missing == GradientSum()))
      downwards(prefixes, missing);
  }

  struct Prefixes {
    std::vector<double> firsts, seconds; // up to and with each bin; one more element for shifts
    std::vector<int32_t> bins;
    std::vector<float> gains;
    int32_t count = 0;

    void begin(int32_t size) {
      if (int32_t(bins.size()) < size + 1) {
        firsts.resize(size + 1), seconds.resize(size + 1);
        bins.resize(size + 1), gains.resize(size + 1);
      }
      count = 0;
    }
    void fill(const GradientSum *histogram, int32_t size) {
      begin(size);
      GradientSum sum;
      for (int32_t bin = 0; bin < size; ++bin) { // without branches: an empty one is written over
        sum.add(histogram[bin]);
        firsts[count] = sum.first, seconds[count] = sum.second, bins[count] = bin;
        count += histogram[bin].first != 0 || histogram[bin].second != 0;
      }
      if (count < size) // what the last empty bins wrote
        firsts[count] = seconds[count] = 0;
    }
    /// 64 bins at a time: their marks as bits, and of these the ones.
    void take(SparseHistogram histogram, int32_t size) {
      begin(size);
      GradientSum sum;
      for (int64_t first = 0; first < size; first += 64)
        for (uint64_t marks = takeMarks(histogram.touched + first); marks; marks &= marks - 1) {
          int64_t bin = first + std::countr_zero(marks);
          GradientSum own = std::exchange(histogram.sums[bin], GradientSum());
          sum.add(own);
          firsts[count] = sum.first, seconds[count] = sum.second, bins[count] = int32_t(bin);
          count += own.first != 0 || own.second != 0;
        }
    }
    /// Of 64 bytes that are 0 or 1, which become 0.
    static uint64_t takeMarks(uint8_t *touched) {
      uint64_t marks = 0;
      for (int part = 0; part < 8; ++part) {
        uint64_t bytes;
        std::memcpy(&bytes, touched + 8 * part, 8);
        // Byte i's one comes to bit 56 + i: no two products meet in a bit of that byte or below.
        marks |= (bytes * 0x0102040810204080u >> 56) << (8 * part);
      }
      std::memset(touched, 0, 64);
      return marks;
    }
    GradientSum total() const {
      return count > 0 ? GradientSum{firsts[count - 1], seconds[count - 1]} : GradientSum();
    }
  };

  void gainsOf(Prefixes &prefixes, int32_t count) const {
    if (rules.isPlain()) {
      rules.gains(prefixes.firsts.data(), prefixes.seconds.data(), count, node.sum,
                  prefixes.gains.data());
      return;
    }
    for (int32_t at = 0; at < count; ++at) {
      GradientSum left{prefixes.firsts[at], prefixes.seconds[at]}, right = node.sum.less(left);
      bool mayBe = rules.mayBeChild(left) && rules.mayBeChild(right);
      prefixes.gains[at] = mayBe ? rules.gain(left, right, feature, node.interval)
                                 : -std::numeric_limits<float>::infinity();
    }
  }
  /// What splits gain, less what the node is worth unsplit: rounded before they are compared.
  void changesOf(Prefixes &prefixes) const {
    gainsOf(prefixes, prefixes.count);
    for (int32_t at = 0; at < prefixes.count; ++at)
      prefixes.gains[at] -= node.gain;
  }
  void take(const Prefixes &prefixes, int32_t at, int32_t bin, bool missingLeft) {
    float gain = prefixes.gains[at];
    if (!best.yieldsTo(gain, feature))
      return;
    best.gain = gain;
    best.feature = feature;
    best.missingLeft = missingLeft;
    best.left = {prefixes.firsts[at], prefixes.seconds[at]};
    best.right = node.sum.less(best.left);
    setNumber(bin);
  }

  /// Missing values go right. Of equal gains the lowest bin's is the best.
  void upwards(Prefixes &prefixes) {
    changesOf(prefixes);
    int32_t most = 0;
    for (int32_t at = 1; at < prefixes.count; ++at)
      most = prefixes.gains[at] > prefixes.gains[most] ? at : most;
    if (prefixes.count > 0)
      take(prefixes, most, prefixes.bins[most], false);
  }
  /// Missing values go left, beside the bins below one that is not empty. Of equal gains the
  /// highest bin's is the best.
  void downwards(Prefixes &prefixes, const GradientSum &missing) {
    for (int32_t at = prefixes.count - 1; at >= 0; --at) {
      prefixes.firsts[at] = missing.first + (at > 0 ? prefixes.firsts[at - 1] : 0);
      prefixes.seconds[at] = missing.second + (at > 0 ? prefixes.seconds[at - 1] : 0);
    }
    changesOf(prefixes);
    int32_t most = prefixes.count - 1;
    for (int32_t at = most - 1; at >= 0; --at)
      most = prefixes.gains[at] > prefixes.gains[most] ? at : most;
    if (prefixes.count > 0)
      take(prefixes, most, prefixes.bins[most] - 1, true);
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
  Scan scan{histogram, of, feature, node, rules, best};
  if (!of.isCategorical) {
    scan.numbers();
    return;
  }
  int32_t bins = of.bins();
  GradientSum present;
  for (int32_t bin = 0; bin < bins; ++bin)
    present.add(histogram[bin]);
  GradientSum missing = node.sum.less(present);
  if (bins > 1 && bins < limits.oneHot)
    scan.oneAgainstRest(missing);
  else
    scan.sortedCategories(limits.sorted, !(missing == GradientSum()));
}

void scanHistogram(SparseHistogram histogram, const FeatureBins &of, int32_t feature,
                   const GrowingNode &node, const SplitRules &rules, const CategoryLimits &limits,
                   Candidate &best) {
  if (!of.isCategorical)
    return Scan{nullptr, of, feature, node, rules, best}.numbers(histogram);
  scanHistogram(histogram.sums, of, feature, node, rules, limits, best);
  clear(histogram, of.bins());
}

void clear(SparseHistogram histogram, int32_t bins) {
  std::fill_n(histogram.sums, bins, GradientSum());
  std::fill_n(histogram.touched, SparseHistogram::touchedSize(bins), uint8_t(0));
}

} // namespace tensmith::trees

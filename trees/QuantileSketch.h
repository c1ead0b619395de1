// The weighted quantile sketch: which values have which rank, within a proven error, in little
// memory (Chen and Guestrin, KDD 2016, appendix; blocks of equal size are merged as in Agarwal et
// al., "Mergeable Summaries", PODS 2012).
//
// A summary has for some of the values x bounds of their rank: least <= weight of values below x,
// most >= weight of values up to x, and the weight of x itself. It is an eps-summary where for
// every rank there is an entry that is off by no more than eps of the whole weight. Merging two
// makes one with the greater of their errors; pruning one to b + 1 entries adds 1 / b.
//
// A sketch gathers values in a block of 2 b, which is exact. Two summaries of the same level make
// one of the next, pruned to b + 1 entries: so level l is off by l / b, however sketches are
// merged, and with b = L / eps for the L levels that n values need the error stays below eps.
// The size is below (L + 1)(b + 1) entries and the block.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tensmith::trees {

class QuantileSummary {
public:
  struct Entry {
    float value;
    double least, most, weight;                         // of ranks; of the value
    double nextLeast() const { return least + weight; } // of what is above it
    double previousMost() const { return most - weight; }
  };

  QuantileSummary() = default;
  /// Exact. Sorts what it is given: values and weights.
  explicit QuantileSummary(std::vector<std::pair<float, float>> &values);

  /// Four numbers each, as entries() had them.
  static QuantileSummary ofEntries(std::span<const double> numbers);

  const std::vector<Entry> &entries() const { return entries_; }
  bool isEmpty() const { return entries_.empty(); }
  double weight() const { return isEmpty() ? 0 : entries_.back().most; }
  /// Of all values of both.
  static QuantileSummary merged(const QuantileSummary &a, const QuantileSummary &b);
  /// At most `parts` + 1 entries: those at the ranks k / parts.
  QuantileSummary pruned(int64_t parts) const;
  /// The entry whose rank is nearest; not of an empty summary.
  const Entry &at(double rank) const;
  /// The largest distance of any rank from the nearest entry, that the entries prove; a share of
  /// the weight.
  double error() const;

private:
  std::vector<Entry> entries_;
};

class QuantileSketch {
public:
  /// `values`: about how many there will be, all sketches that are merged into it included. With
  /// more, the error grows by eps / L with each doubling.
  QuantileSketch(double eps, int64_t values);

  /// Weights are not negative; values of weight 0 are left out.
  void add(float value, float weight);
  void merge(const QuantileSketch &other);
  QuantileSummary summary() const;
  /// What is proved of the error now; a share of the weight.
  double bound() const;
  /// How many entries it may have: the bound for as many values as it was made for.
  int64_t mostEntries() const;
  int64_t entries() const;

private:
  void closeBlock();
  void carry(QuantileSummary summary, size_t level);

  int64_t parts_, plannedLevels_; // b, L
  std::vector<std::pair<float, float>> block_;
  std::vector<QuantileSummary> levels_; // empty where there is none
};

/// Candidates for splits: at most `most` different values, ascending, that cut the weight into
/// nearly equal parts; the least value is none of them.
std::vector<float> proposals(const QuantileSummary &summary, int64_t most);

} // namespace tensmith::trees

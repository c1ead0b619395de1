// Approximate split finding (algorithm 2 of the XGBoost paper): of each feature only some values
// are candidates, which cut the Hessians into nearly equal parts by the weighted quantile sketch.
//
// Global proposals are made once for a tree. Local ones are made again at each level for each node
// from its own rows, and so follow where the tree looks; they need fewer candidates and more time.
// Columns are sorted (SortedColumns.h), so that a scan puts entries into bins by going on to the
// next bin, without a search.
//
// Several processes each sketch their rows; the summaries are gathered and merged, so that all have
// the same proposals, and histograms are summed. Summaries of few values are exact, and then the
// proposals are those of one process; of more they are within the sketch's error of those.
#pragma once

#include "trees/HistogramScan.h"
#include "trees/QuantileSketch.h"
#include "trees/SortedColumns.h"
#include "trees/SplitFinder.h"

namespace tensmith::trees {

class ApproxFinder : public SplitFinder {
public:
  ApproxFinder(const Matrix &matrix, const Parameters &parameters, Threads &threads,
               Exchange *exchange);

  Status begin(const GrowingTree &tree) override;
  Status find(std::span<const int32_t> nodes) override;
  void sides(const Candidate &split, std::span<const uint32_t> rows, uint8_t *left) const override;

private:
  struct Proposed {
    std::vector<float> cuts; // with a last one above all values
    float least = 0;
  };
  /// Of a feature's rows by slot, and its greatest value (NaN: it has none).
  struct Sketched {
    std::vector<QuantileSummary> summaries;
    float most = 0;
  };
  Status propose(size_t slots);
  Sketched sketch(int64_t feature, size_t slots) const;
  Status mergeAll(std::span<Sketched> features) const;
  std::vector<Proposed> cut(int64_t feature, const Sketched &sketched) const;
  const Proposed &proposed(int64_t feature, size_t slot) const {
    return proposed_[feature][isLocal_ ? slot : 0];
  }
  /// A level's histograms of one feature; slot s has those from begin[s] on.
  struct Histograms {
    std::vector<size_t> begin;
    std::vector<GradientSum> sums;
  };
  Histograms build(int64_t feature) const;
  void scan(int64_t feature, const Histograms &histograms, std::vector<Candidate> &best) const;

  const Matrix &matrix_;
  SortedColumns columns_;
  Threads &threads_;
  Exchange *exchange_;
  int64_t candidates_;
  bool isLocal_;
  CategoryLimits limits_;
  GrowingTree tree_;
  std::vector<int32_t> slot_; // by row
  std::vector<const GrowingNode *> level_;
  std::vector<std::vector<Proposed>> proposed_; // by feature; of local ones by slot
};

} // namespace tensmith::trees

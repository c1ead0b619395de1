// Approximate split finding (algorithm 2 of the XGBoost paper): of each feature only some values
// are candidates, which cut the Hessians into nearly equal parts by the weighted quantile sketch.
//
// Global proposals are made once for a tree. Local ones are made again at each level for each node
// from its own rows, and so follow where the tree looks; they need fewer candidates and more time.
// Columns are sorted (SortedColumns.h), so that a scan puts entries into bins by going on to the
// next bin, without a search.
#pragma once

#include "trees/HistogramScan.h"
#include "trees/QuantileSketch.h"
#include "trees/SortedColumns.h"
#include "trees/SplitFinder.h"

namespace tensmith::trees {

class ApproxFinder : public SplitFinder {
public:
  ApproxFinder(const Matrix &matrix, const Parameters &parameters, Threads &threads);

  Status begin(const GrowingTree &tree) override;
  Status find(std::span<const int32_t> nodes) override;
  void sides(const Candidate &split, std::span<const uint32_t> rows, uint8_t *left) const override;

private:
  struct Proposed {
    std::vector<float> cuts; // with a last one above all values
    float least = 0;
  };
  std::vector<Proposed> propose(int64_t feature, size_t slots) const;
  void findIn(int64_t feature, std::vector<Candidate> &best);

  const Matrix &matrix_;
  SortedColumns columns_;
  Threads &threads_;
  int64_t candidates_;
  bool isLocal_;
  CategoryLimits limits_;
  GrowingTree tree_;
  std::vector<int32_t> slot_; // by row
  std::vector<const GrowingNode *> level_;
  std::vector<Proposed> global_; // by feature
};

} // namespace tensmith::trees

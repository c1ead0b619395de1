// Split finding by histograms of sparse bins, column by column.
//
// With many features that few rows have, histograms of all features would be far larger than the
// rows that they are made of. So a thread takes one feature at a time: it adds up that feature's
// entries for all nodes of the level, in memory that stays in its cache, and finds its best splits
// at once. The time is linear in the entries present; missing values are what is left of a node.
#pragma once

#include "trees/Bins.h"
#include "trees/HistogramScan.h"

namespace tensmith::trees {

class SparseFinder : public SplitFinder {
public:
  SparseFinder(const Matrix &matrix, const Cuts &cuts, const Parameters &parameters,
               Threads &threads, Exchange *exchange);

  Status begin(const GrowingTree &tree) override;
  Status find(std::span<const int32_t> nodes) override;
  void sides(const Candidate &split, std::span<const uint32_t> rows, uint8_t *left) const override;

private:
  void accumulate(int64_t feature, GradientSum *histograms) const;
  void scan(int64_t feature, const GradientSum *histograms, std::vector<Candidate> &best) const;
  Status findTogether(std::vector<std::vector<Candidate>> &found);

  const Cuts &cuts_;
  SparseBins bins_;
  Threads &threads_;
  Exchange *exchange_;
  bool prefetches_;
  CategoryLimits limits_;
  GrowingTree tree_;
  struct RowState { // what an entry needs of its row, in one line of cache
    Gradient gradient;
    int32_t slot; // which of the level's nodes; -1: none
    int32_t padding = 0;
  };
  std::vector<RowState> states_;
  std::vector<const GrowingNode *> level_;
  std::vector<std::vector<GradientSum>> memory_; // by thread
};

} // namespace tensmith::trees

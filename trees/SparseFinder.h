// Split finding by histograms of sparse bins, column by column.
//
// With many features that few rows have, histograms of all features would be far larger than the
// rows that they are made of. So a thread takes one feature at a time: it adds up that feature's
// entries for all nodes of the level, in memory that stays in its cache, and finds its best splits
// at once. The time is linear in the entries present; missing values are what is left of a node.
// Deep nodes have entries in few of a feature's bins: bytes beside the sums mark those, and the
// scan looks at no others.
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
  struct Memory { // of a thread; zeros between features
    std::vector<GradientSum> sums;
    std::vector<uint8_t> touched;
  };
  template <typename Add> void eachEntry(int64_t feature, Add add) const;
  void find(int64_t feature, Memory &memory, std::vector<Candidate> &best) const;
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
  std::vector<Memory> memory_; // by thread
};

} // namespace tensmith::trees

// Split finding by histograms over blocks on disk.
//
// A level takes one pass over the blocks: the rows of nodes that are split are sent to their sides,
// and of each two children the one with the smaller sum of Hessians gets its histogram in the same
// pass, since that is known from the split. Each thread has histograms of its own, which are added
// up; sums have no order, and so the forest is the one that training in memory makes.
#pragma once

#include "trees/BlockStore.h"
#include "trees/HistogramFinder.h"

namespace tensmith::trees {

class PagedFinder : public HistogramFinder {
public:
  PagedFinder(std::unique_ptr<BlockStore> store, const Cuts &cuts, const Parameters &parameters,
              int64_t rows, Threads &threads, Exchange *exchange);

  Status begin(const GrowingTree &tree) override;
  Status beginSplit(std::span<const int32_t> nodes, bool childrenGrow) override;
  void sides(const Candidate &split, std::span<const uint32_t> rows, uint8_t *left) const override;

private:
  /// What a pass does with a node's rows.
  struct Task {
    int32_t node;                  // whose rows
    std::vector<uint8_t> leftBins; // by bin; empty: all rows go to the histogram
    int32_t feature = 0;
    bool buildsLeft = true;
    GradientSum *histogram = nullptr; // null: none is made
  };
  Status build(std::span<const int32_t> nodes) override;
  Status pass(std::vector<Task> &tasks);
  void doTask(const Task &task, const BlockStore::Block &block, const BlockStore::Bins &bins,
              std::span<const uint32_t> rows, std::vector<uint32_t> &chosen,
              GradientSum *histogram);

  std::unique_ptr<BlockStore> store_;
  std::vector<uint8_t> sides_;   // by row
  std::vector<uint8_t> isBuilt_; // by node: by the pass of its parent's split
};

} // namespace tensmith::trees

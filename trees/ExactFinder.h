// Exact greedy split finding: all values of all features, by scans of sorted columns (algorithms 1
// and 3 of the XGBoost paper).
//
// One scan of a column serves all nodes of a level: each row says which node it is in, and each
// node keeps the sum of the rows seen so far. A scan downwards sends missing values left, one
// upwards right; a column without missing values needs the former alone. Rows lie in memory in
// another order than values, so what a scan will need is asked for some entries ahead.
#pragma once

#include "trees/SortedColumns.h"
#include "trees/SplitFinder.h"

namespace tensmith::trees {

class ExactFinder : public SplitFinder {
public:
  ExactFinder(const Matrix &matrix, const Parameters &parameters, Threads &threads)
      : matrix_(matrix), columns_(matrix, threads), threads_(threads),
        prefetch_(parameters.prefetch) {}

  Status begin(const GrowingTree &tree) override;
  Status find(std::span<const int32_t> nodes) override;
  void sides(const Candidate &split, std::span<const uint32_t> rows, uint8_t *left) const override;

private:
  /// A node of the level in one thread.
  struct Seen {
    GradientSum sum;
    float last = 0;
    bool any = false;
    Candidate best;
  };
  template <bool Downwards, bool Prefetch>
  void scan(std::span<const SortedColumns::Entry> column, int32_t feature,
            std::vector<Seen> &seen) const;
  template <bool Downwards>
  void scan(std::span<const SortedColumns::Entry> column, int32_t feature,
            std::vector<Seen> &seen) const;
  template <bool Downwards>
  void consider(const GrowingNode &node, int32_t feature, float threshold, Seen &seen) const;

  const Matrix &matrix_;
  SortedColumns columns_;
  Threads &threads_;
  bool prefetch_;
  GrowingTree tree_;
  std::vector<int32_t> slot_; // by row: which of the level's nodes; -1: none
  std::vector<const GrowingNode *> level_;
};

} // namespace tensmith::trees

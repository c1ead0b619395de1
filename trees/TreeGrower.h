// Grows one tree: which nodes are split in which order, and which rows each has.
//
// Level by level, or the leaf first whose split gains most. The rows of a node are a range of one
// array, and both children have them in the same order, so that all rows ascend within a node and
// memory is read forwards.
#pragma once

#include "trees/Sampling.h"
#include "trees/SplitFinder.h"
#include "trees/Threads.h"

#include <vector>

namespace tensmith::trees {

/// The tree, and which rows ended in each leaf.
struct GrownTree {
  Tree tree;
  struct Leaf {
    int32_t node;
    std::span<const uint32_t> rows; // valid until the next tree
  };
  std::vector<Leaf> leaves;
};

class TreeGrower {
public:
  TreeGrower(const Parameters &parameters, int64_t rows, int64_t features, Threads &threads);

  /// `sum`: of the gradients of all processes. `draw`: a number of its own for each tree.
  Result<GrownTree> grow(SplitFinder &finder, std::span<const Gradient> gradients,
                         const GradientSum &sum, uint64_t draw);

private:
  Status growLevels(SplitFinder &finder);
  Status growBest(SplitFinder &finder);
  void makeRoot(const GradientSum &sum);
  bool maySplit(const GrowingNode &node) const;
  bool mayGrow(const GrowingNode &node) const;
  Status split(std::span<const int32_t> nodes, SplitFinder &finder);
  void partition(std::span<const int32_t> nodes, const SplitFinder &finder);
  void makeChildren(int32_t node, int64_t leftRows);
  void allowFeatures(GrowingNode &node, int32_t splitFeature);
  void prune();
  GrownTree finish();

  const Parameters &parameters_;
  int64_t features_;
  Threads &threads_;
  SplitRules rules_;
  ColumnSampler columns_;
  std::vector<uint32_t> rows_, leftRows_, rightRows_;
  std::vector<uint8_t> sides_;
  std::vector<GrowingNode> nodes_;
  std::vector<std::vector<uint8_t>> paths_; // by node: features split above it
  int64_t leaves_ = 1;
};

} // namespace tensmith::trees

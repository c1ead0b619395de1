// What finds the best split of each node, and knows to which side of a split a row goes: one for
// each way of looking at the data (sorted columns, bins in rows, bins in columns, blocks on disk).
//
// The grower (TreeGrower.h) decides which nodes are split and keeps their rows.
#pragma once

#include "trees/Split.h"

#include <cstdint>
#include <span>
#include <vector>

namespace tensmith::trees {

/// A node of a tree that grows. Its rows are rows[begin .. end) of RowSets, ascending.
struct GrowingNode {
  int32_t number = 0, parent = -1, sibling = -1;
  int depth = 0;
  int64_t begin = 0, end = 0;
  GradientSum sum;
  float gain = 0, weight = 0; // as a leaf
  Interval interval;
  std::vector<uint8_t>
      allowed; // by feature, of interaction constraints and sampled columns; empty: all
  Candidate best;
  int32_t left = -1, right = -1;

  int64_t rows() const { return end - begin; }
  bool allows(int64_t feature) const { return allowed.empty() || allowed[feature]; }
};

/// What a finder is told of the tree that grows.
struct GrowingTree {
  std::span<const Gradient> gradients; // one channel's, of all rows
  std::span<const uint32_t> rows;      // by node
  std::vector<GrowingNode> *nodes = nullptr;
  const SplitRules *rules = nullptr;
};

class SplitFinder {
public:
  virtual ~SplitFinder() = default;
  virtual Status begin(const GrowingTree &tree) = 0;
  /// Fills `best` of these nodes. But for the root they come as both children of a node.
  virtual Status find(std::span<const int32_t> nodes) = 0;
  /// Called before the rows of nodes that have a split are asked for. Their children will be
  /// numbered from the number of nodes on, left ones first. `childrenGrow`: they may be asked for.
  virtual Status beginSplit(std::span<const int32_t> nodes, bool childrenGrow) { return {}; }
  /// 1 where a row goes left. `rows` ascend; called by several threads at a time.
  virtual void sides(const Candidate &split, std::span<const uint32_t> rows,
                     uint8_t *left) const = 0;
};

} // namespace tensmith::trees

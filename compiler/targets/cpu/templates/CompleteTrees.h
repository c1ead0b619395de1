// A forest as complete binary trees of one depth, which code can follow without being told where
// children lie, and with tests that are comparisons of integers.
//
// The tests. A float's bits, as an unsigned number whose sign is turned round, have the order of
// the floats (`keyOf`); so "x < t" and "x <= t" are both "key of x < an integer". A missing value
// (NaN) passes some tests and fails others. It has no key, so each tested column has two slots,
// which differ for NaN alone: in the first it is the least number there is, which passes every
// test, and in the second the greatest, which fails every test. A node names a slot.
//
// The ranks. Of a column only so many thresholds occur in the whole forest, at most 255 where it
// was trained on 256 bins. How many of them are not above x is the rank of x, a number of 8 or 16
// bits. A test of a rank is as good as one of the value, and 64 ranks fit a vector.
//
// The nodes. Node i of a tree has the children 2i and 2i + 1, from the root, 1, on; a leaf higher
// up than the depth is repeated below tests that decide nothing. So a walk is one comparison and
// one addition a step: i = 2i + (the test fails).
//
// Ranks instead of values are after Lucchese et al., "QuickScorer" (SIGIR 2015), which sorts them
// by feature; complete trees in the order of their levels are Asadi, Lin and de Vries' predication
// ("Runtime Optimizations for Tree-Based Machine Learning Models", TKDE 2014).
#pragma once

#include "reference/Trees.h"

#include <optional>

namespace tensmith::kernel {

struct CompleteTrees {
  int64_t depth = 0, trees = 0, targets = 1;

  int64_t columns = 0; // that are tested; column c has the slots 2c and 2c + 1

  // By tree, 2^depth each; the first of inner nodes is not used.
  std::vector<uint32_t> least; // a test fails where the key is greater
  std::vector<int32_t> slot;   // that is tested
  std::vector<uint32_t>
      ranks; // a test fails where the rank is not below; at most 1 more than mostRank
  std::vector<float> leaves;
  std::vector<int32_t> target; // by tree

  /// By tested column, 2^searchDepth each: its thresholds' keys as a search tree in the order of
  /// its levels, filled up with the greatest key. Entry i is followed by 2i, or 2i + 1 where it is
  /// below the key that is sought.
  int64_t searchDepth = 0;
  std::vector<uint32_t> searched;
  std::vector<std::vector<uint32_t>> thresholds; // the same keys by column, ascending
  int64_t mostRank = 0;                          // thresholds of a column

  int64_t nodes() const { return int64_t(1) << depth; }
};

/// What has the order of floats; -0 must have been made 0.
uint32_t keyOf(float number);

/// The deepest trees that are made complete, and the most of a forest's nodes after that: so many
/// times those before, or few anyway.
inline constexpr int64_t kDeepestComplete = 8;

/// `strict`, `missing`: as graph.tree_ensemble has them. Nothing where the forest is of f64, tests
/// for equality, has leaves with several weights, is deeper than kDeepestComplete or would become
/// many times larger.
std::optional<CompleteTrees> completeTrees(const reference::PackedForest &forest, bool strict,
                                           std::string_view missing, bool hasEquality);

} // namespace tensmith::kernel

// What a forest says of rows, without a compiler: outputs and leaves, a block of rows at a time.
//
// A way down a tree is a chain of loads, each of which waits for the one before, and a branch for
// each test would be guessed wrong every other time. So kWays ways are followed side by side, whose
// loads overlap, and a test is a number that is added to the place of the left child; children lie
// side by side, and a leaf leads to itself. Of many rows a group of them goes down one tree, which
// stays in the first-level cache for a block of rows; of few one row goes down a group of trees.
//
// Leaves are added in double precision in the order of the trees, so that a row's result depends
// neither on its batch nor on threads.
#pragma once

#include "trees/Forest.h"

#include "base/Status.h"

#include <span>

namespace tensmith::trees {

/// Rows of f32, row r from values + r * stride on; NaN is missing.
struct DenseRows {
  const float *values;
  int64_t rows, columns, stride;
};

/// Compressed rows: entry i of row r, begin[r] <= i < begin[r + 1], is in column[i]; what has no
/// entry is missing.
struct SparseRows {
  int64_t rows, columns;
  const int64_t *begin; // rows + 1
  const int32_t *column;
  const float *value;
};

class Predictor {
public:
  /// Of the forest's first `trees` trees; below 0: those that count. Fails as verifyForest.
  static Result<Predictor> of(const Forest &forest, int64_t trees = -1);

  /// [rows, channels], before the transform. InvalidArgument where the rows have not the forest's
  /// number of columns (of sparse rows: where they have more), an entry is in no column, or `out`
  /// has another size. `threads` 0: as many as there are CPUs.
  Status outputs(const DenseRows &rows, std::span<float> out, int threads = 1) const;
  Status outputs(const SparseRows &rows, std::span<float> out, int threads = 1) const;
  /// [rows, trees]: the number of the leaf that each tree's way ends at.
  Status leaves(const DenseRows &rows, std::span<int32_t> out, int threads = 1) const;
  Status leaves(const SparseRows &rows, std::span<int32_t> out, int threads = 1) const;

  int64_t trees() const { return int64_t(roots_.size()); }
  int64_t channels() const { return int64_t(baseScores_.size()); }

private:
  /// The place in the row, and what else there is to know of a node.
  struct Node {
    float threshold;
    int32_t next;  // left child; the right one is the next; of a leaf itself
    uint32_t word; // slot, flags
    float value;   // of a leaf; of a split of categories where its set is, as bits
  };
  struct Set {
    int64_t first; // bit of bits_, or of a list element of members_
    int64_t count; // bits, or elements
    int64_t known; // categories from here on go the default way
    bool isList;
  };
  struct Block;
  template <typename Rows> Status check(const Rows &rows, size_t size, int64_t width) const;
  void pack(const Tree &tree, const Forest &forest);
  void packNode(const Tree &tree, int32_t from, size_t place, const Forest &forest);
  void packSet(std::span<const int32_t> members, int64_t known);
  int64_t slotOf(int32_t feature);
  bool goesLeft(const Node &node, float x) const;
  template <bool kCategories> int32_t next(int32_t place, const float *row) const;
  template <bool kCategories>
  void follow(const float *const *rows, int32_t *places, int32_t depth) const;
  void follow(const float *const *rows, int32_t *places, int32_t depth) const;
  template <typename Give> void followBlock(const Block &block, const Give &give) const;
  void load(const DenseRows &rows, int64_t first, Block &block) const;
  void load(const SparseRows &rows, int64_t first, Block &block) const;
  template <typename Rows, typename Work>
  Status overBlocks(const Rows &rows, int threads, const Work &work) const;
  template <typename Rows>
  Status outputsOf(const Rows &rows, std::span<float> out, int threads) const;
  template <typename Rows>
  Status leavesOf(const Rows &rows, std::span<int32_t> out, int threads) const;

  std::vector<Node> nodes_;
  std::vector<int32_t> number_; // of a node in its tree, by place
  std::vector<int32_t> roots_, depths_, channel_;
  std::vector<float> scale_;
  std::vector<double> baseScores_;
  std::vector<Set> sets_;
  std::vector<bool> bits_;
  std::vector<int32_t> members_;
  std::vector<int32_t> slots_;         // by feature: its slot among those that are tested, or -1
  std::vector<int32_t> features_;      // by slot
  std::vector<uint8_t> zeroIsMissing_; // by slot
  bool hasZeros_ = false, hasCategories_ = false;
};

} // namespace tensmith::trees

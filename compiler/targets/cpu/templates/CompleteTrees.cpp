// Nodes are copied from the root down, into the places of a complete tree; then columns' thresholds
// are sorted, and tests told in ranks.
#include "compiler/targets/cpu/templates/CompleteTrees.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tensmith::kernel {

namespace {

using reference::PackedForest;
using reference::TreeNode;

constexpr uint32_t kGreatest = 0xffffffff;
constexpr int64_t kFewNodes = 1 << 12, kMostTimes = 4;

class Completion {
public:
  Completion(const PackedForest &forest, bool strict, std::string_view missing)
      : forest_(forest), strict_(strict), missing_(missing) {}

  std::optional<CompleteTrees> run() {
    made_.trees = forest_.trees.shape()[0];
    made_.targets = forest_.targets;
    made_.columns = forest_.columns.size();
    made_.depth = std::max<int64_t>(depthOfAll(), 1);
    if (made_.depth > kDeepestComplete ||
        made_.trees * made_.nodes() > std::max(kFewNodes, kMostTimes * forest_.size()))
      return std::nullopt;
    auto size = size_t(made_.trees * made_.nodes());
    made_.least.assign(size, kGreatest);
    made_.slot.assign(size, 0);
    made_.leaves.assign(size, 0);
    for (int64_t tree = 0; tree < made_.trees; ++tree) {
      made_.target.push_back(int32_t(forest_.trees.getInt(2 * tree + 1)));
      if (!copy(forest_.trees.getInt(2 * tree), tree * made_.nodes(), 1, 0))
        return std::nullopt;
    }
    rank();
    constexpr int64_t kMostRank = std::numeric_limits<uint16_t>::max(); // of a lane of the masks
    if (made_.mostRank >= kMostRank) // missing values are behind all
      return std::nullopt;
    return std::move(made_);
  }

private:
  /// Children lie behind their parents.
  int64_t depthOfAll() const {
    std::vector<int64_t> below(size_t(forest_.size()), 0);
    int64_t most = 0;
    for (int64_t at = forest_.size() - 1; at >= 0; --at)
      if (TreeNode node = forest_.node(at); node.ahead != 0)
        below[size_t(at)] =
            1 + std::max(below[size_t(at + node.ahead)], below[size_t(at + node.ahead) + 1]);
    for (int64_t tree = 0; tree < made_.trees; ++tree)
      most = std::max(most, below[size_t(forest_.trees.getInt(2 * tree))]);
    return most;
  }

  bool passesMissing(const TreeNode &node) const {
    return missing_ == "all" || (missing_ == "some" && node.nanPasses);
  }

  /// The node of the forest to place `i` of the tree from `first` on.
  bool copy(int64_t at, int64_t first, int64_t i, int64_t level) {
    TreeNode node = forest_.node(at);
    bool isLeaf = node.ahead == 0;
    if (level == made_.depth) {
      made_.leaves[size_t(first + i - made_.nodes())] = float(forest_.number(at));
      return true;
    }
    if (!isLeaf) {
      auto number = float(forest_.number(at));
      if (std::isnan(number))
        return false;
      // passes: key <= least
      uint32_t key = keyOf(number + 0.f);
      made_.least[size_t(first + i)] = strict_ ? key - 1 : key;
      made_.slot[size_t(first + i)] = int32_t(2 * node.column + (passesMissing(node) ? 0 : 1));
    }
    return copy(isLeaf ? at : at + node.ahead, first, 2 * i, level + 1) &&
           copy(isLeaf ? at : at + node.ahead + 1, first, 2 * i + 1, level + 1);
  }

  /// A test key <= least is one of the rank: how many of the column's are below the key.
  void rank() {
    std::vector<std::vector<uint32_t>> sorted(static_cast<size_t>(made_.columns));
    auto columnAt = [&](size_t at) { return size_t(made_.slot[at] / 2); };
    for (size_t at = 0; at < made_.least.size(); ++at)
      if (made_.least[at] != kGreatest)
        sorted[columnAt(at)].push_back(made_.least[at]);
    for (std::vector<uint32_t> &keys : sorted) {
      std::ranges::sort(keys);
      keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
      made_.mostRank = std::max(made_.mostRank, int64_t(keys.size()));
    }
    for (size_t at = 0; at < made_.least.size(); ++at) {
      const std::vector<uint32_t> &keys = sorted[columnAt(at)];
      auto place = std::ranges::lower_bound(keys, made_.least[at]) - keys.begin();
      made_.ranks.push_back(uint32_t(place) + 1);
    }
    made_.searchDepth = std::bit_width(uint64_t(made_.mostRank));
    made_.searched.assign(size_t(made_.columns << made_.searchDepth), kGreatest);
    for (int64_t column = 0; column < made_.columns; ++column)
      layOut(sorted[size_t(column)], column << made_.searchDepth);
    made_.thresholds = std::move(sorted);
  }

  /// Sorted keys in the order of a search tree's levels.
  void layOut(const std::vector<uint32_t> &keys, int64_t first) {
    size_t next = 0;
    auto visit = [&](auto &&self, int64_t i) -> void {
      if (i >= int64_t(1) << made_.searchDepth)
        return;
      self(self, 2 * i);
      if (next < keys.size())
        made_.searched[size_t(first + i)] = keys[next++];
      self(self, 2 * i + 1);
    };
    visit(visit, 1);
  }

  const PackedForest &forest_;
  bool strict_;
  std::string_view missing_;
  CompleteTrees made_;
};

} // namespace

uint32_t keyOf(float number) {
  auto bits = std::bit_cast<uint32_t>(number);
  return bits ^ (bits >> 31 ? 0xffffffff : 0x80000000);
}

std::optional<CompleteTrees> completeTrees(const PackedForest &forest, bool strict,
                                           std::string_view missing, bool hasEquality) {
  if (forest.isWide() || hasEquality || forest.weights.type() != DataType::Undefined ||
      forest.trees.shape()[0] == 0)
    return std::nullopt;
  return Completion(forest, strict, missing).run();
}

} // namespace tensmith::kernel

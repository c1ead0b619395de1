// The order in which a tree's nodes are split, and the partition of rows by threads: blocks of a
// node's rows are each sorted into their left and right rows, and copied to where the counts of the
// blocks before say.
#include "trees/TreeGrower.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <queue>

namespace tensmith::trees {

namespace {

constexpr int64_t kBlock = 4096;

struct Block {
  int32_t node;
  int64_t begin, end;
  int64_t left = 0, leftTo = 0, rightTo = 0;
};

} // namespace

TreeGrower::TreeGrower(const Parameters &parameters, int64_t rows, int64_t features,
                       Threads &threads)
    : parameters_(parameters), features_(features), threads_(threads), rules_(parameters, features),
      columns_(parameters, features), rows_(rows), leftRows_(rows), rightRows_(rows), sides_(rows) {
}

Result<GrownTree> TreeGrower::grow(SplitFinder &finder, std::span<const Gradient> gradients,
                                   const GradientSum &sum, uint64_t draw) {
  threads_.ranges(int64_t(rows_.size()), 1 << 16, [&](int64_t begin, int64_t end, int) {
    std::iota(rows_.begin() + begin, rows_.begin() + end, uint32_t(begin));
  });
  columns_.beginTree(draw);
  makeRoot(sum);
  GrowingTree growing{gradients, rows_, &nodes_, &rules_};
  Status status = finder.begin(growing);
  if (status.ok())
    status = parameters_.growth == "loss" ? growBest(finder) : growLevels(finder);
  if (!status.ok())
    return status;
  if (parameters_.gamma > 0 && parameters_.method == "exact")
    prune();
  return finish();
}

void TreeGrower::makeRoot(const GradientSum &sum) {
  nodes_.clear();
  paths_.clear();
  leaves_ = 1;
  GrowingNode root;
  root.end = int64_t(rows_.size());
  root.sum = sum;
  root.gain = rules_.gain(sum, {});
  root.weight = rules_.weight(sum, {});
  nodes_.push_back(std::move(root));
  if (!parameters_.interactions.empty())
    paths_.emplace_back(features_, 0);
  allowFeatures(nodes_[0], -1);
}

/// Whether a split of it is looked for.
bool TreeGrower::mayGrow(const GrowingNode &node) const {
  return (parameters_.maxDepth == 0 || node.depth < parameters_.maxDepth) &&
         (parameters_.maxLeaves == 0 || leaves_ < parameters_.maxLeaves);
}

/// Whether the split that was found is made. Exact growth prunes in the end instead of asking for
/// gamma here, since a split that gains little may make way for ones that gain more.
bool TreeGrower::maySplit(const GrowingNode &node) const {
  const Candidate &best = node.best;
  if (best.isNone() || best.gain <= kLeastGain || !mayGrow(node))
    return false;
  if (best.left.second == 0 || best.right.second == 0)
    return false;
  return parameters_.method == "exact" || best.gain >= float(parameters_.gamma);
}

Status TreeGrower::growLevels(SplitFinder &finder) {
  std::vector<int32_t> level{0};
  while (!level.empty()) {
    std::erase_if(level, [&](int32_t node) { return !mayGrow(nodes_[node]); });
    if (Status status = finder.find(level); !status.ok())
      return status;
    std::vector<int32_t> chosen;
    for (int32_t node : level)
      if (maySplit(nodes_[node])) {
        chosen.push_back(node);
        ++leaves_;
      }
    if (Status status = split(chosen, finder); !status.ok())
      return status;
    level.clear();
    for (int32_t node : chosen)
      level.insert(level.end(), {nodes_[node].left, nodes_[node].right});
    if (!level.empty() && !mayGrow(nodes_[level[0]]))
      break;
  }
  return {};
}

Status TreeGrower::growBest(SplitFinder &finder) {
  using Entry = std::pair<float, int32_t>; // gain, minus the node's number: the older first
  std::priority_queue<Entry> queue;
  std::vector<int32_t> fresh{0};
  while (true) {
    if (mayGrow(nodes_[fresh[0]])) {
      if (Status status = finder.find(fresh); !status.ok())
        return status;
      for (int32_t node : fresh)
        if (maySplit(nodes_[node]))
          queue.emplace(nodes_[node].best.gain, -node);
    }
    if (queue.empty() || (parameters_.maxLeaves != 0 && leaves_ >= parameters_.maxLeaves))
      return {};
    int32_t node = -queue.top().second;
    queue.pop();
    ++leaves_;
    if (Status status = split(std::span(&node, 1), finder); !status.ok())
      return status;
    fresh = {nodes_[node].left, nodes_[node].right};
  }
}

Status TreeGrower::split(std::span<const int32_t> nodes, SplitFinder &finder) {
  if (nodes.empty())
    return {};
  int depth = nodes_[nodes[0]].depth + 1;
  bool childrenGrow = (parameters_.maxDepth == 0 || depth < parameters_.maxDepth) &&
                      (parameters_.maxLeaves == 0 || leaves_ < parameters_.maxLeaves);
  if (Status status = finder.beginSplit(nodes, childrenGrow); !status.ok())
    return status;
  nodes_.reserve(nodes_.size() + 2 * nodes.size());
  partition(nodes, finder);
  return {};
}

void TreeGrower::partition(std::span<const int32_t> nodes, const SplitFinder &finder) {
  std::vector<Block> blocks;
  for (int32_t node : nodes)
    for (int64_t begin = nodes_[node].begin; begin < nodes_[node].end; begin += kBlock)
      blocks.push_back({node, begin, std::min(begin + kBlock, nodes_[node].end)});
  threads_.parts(int64_t(blocks.size()), [&](int64_t number, int) {
    Block &block = blocks[number];
    int64_t count = block.end - block.begin;
    const uint32_t *rows = rows_.data() + block.begin;
    uint8_t *left = sides_.data() + block.begin;
    finder.sides(nodes_[block.node].best, {rows, size_t(count)}, left);
    uint32_t *toLeft = leftRows_.data() + block.begin, *toRight = rightRows_.data() + block.begin;
    int64_t lefts = 0;
    for (int64_t at = 0; at < count; ++at) { // without branches: half of them would be mispredicted
      toLeft[lefts] = rows[at];
      toRight[at - lefts] = rows[at];
      lefts += left[at];
    }
    block.left = lefts;
  });
  size_t at = 0;
  for (int32_t node : nodes) {
    size_t first = at;
    int64_t lefts = 0;
    for (; at < blocks.size() && blocks[at].node == node; ++at)
      lefts += blocks[at].left;
    int64_t leftTo = nodes_[node].begin, rightTo = leftTo + lefts;
    for (size_t number = first; number < at; ++number) {
      Block &block = blocks[number];
      block.leftTo = leftTo, block.rightTo = rightTo;
      leftTo += block.left, rightTo += block.end - block.begin - block.left;
    }
    makeChildren(node, lefts);
  }
  threads_.parts(int64_t(blocks.size()), [&](int64_t number, int) {
    const Block &block = blocks[number];
    std::copy_n(leftRows_.data() + block.begin, block.left, rows_.data() + block.leftTo);
    std::copy_n(rightRows_.data() + block.begin, block.end - block.begin - block.left,
                rows_.data() + block.rightTo);
  });
}

void TreeGrower::makeChildren(int32_t number, int64_t leftRows) {
  GrowingNode &node = nodes_[number];
  const Candidate &split = node.best;
  GrowingNode left, right;
  left.number = node.left = int32_t(nodes_.size());
  right.number = node.right = left.number + 1;
  left.sibling = right.number, right.sibling = left.number;
  left.parent = right.parent = number;
  left.depth = right.depth = node.depth + 1;
  left.begin = node.begin, left.end = right.begin = node.begin + leftRows, right.end = node.end;
  left.sum = split.left, right.sum = split.right;
  left.weight = rules_.weight(split.left, node.interval);
  right.weight = rules_.weight(split.right, node.interval);
  std::tie(left.interval, right.interval) =
      rules_.intervals(split.feature, node.interval, left.weight, right.weight);
  left.gain = rules_.gain(left.sum, left.interval);
  right.gain = rules_.gain(right.sum, right.interval);
  int32_t feature = split.feature; // `node` moves with what is appended
  for (GrowingNode *child : {&left, &right}) {
    if (!paths_.empty()) {
      paths_.push_back(paths_[number]);
      paths_.back()[feature] = 1;
    }
    allowFeatures(*child, feature);
    nodes_.push_back(std::move(*child));
  }
}

/// Features of the path, and of each interaction set that has the whole path.
void TreeGrower::allowFeatures(GrowingNode &node, int32_t splitFeature) {
  if (columns_.isSampling())
    node.allowed = columns_.columnsFor(node.depth, node.number);
  if (parameters_.interactions.empty() || splitFeature < 0)
    return;
  std::vector<uint8_t> together = paths_[node.number];
  for (const std::vector<int64_t> &set : parameters_.interactions) {
    std::vector<uint8_t> has(features_, 0);
    for (int64_t feature : set)
      has[feature] = 1;
    bool hasPath = true;
    for (int64_t feature = 0; feature < features_; ++feature)
      hasPath &= has[feature] || !paths_[node.number][feature];
    for (int64_t feature = 0; hasPath && feature < features_; ++feature)
      together[feature] |= has[feature];
  }
  if (node.allowed.empty())
    node.allowed = std::move(together);
  else
    for (int64_t feature = 0; feature < features_; ++feature)
      node.allowed[feature] &= together[feature];
}

/// Splits that gain less than gamma and have but leaves below them are undone, from the bottom up.
void TreeGrower::prune() {
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    bool isSplit = node->left >= 0;
    if (isSplit && nodes_[node->left].left < 0 && nodes_[node->right].left < 0 &&
        node->best.gain < float(parameters_.gamma))
      node->left = node->right = -1;
  }
}

GrownTree TreeGrower::finish() {
  GrownTree grown;
  Tree &tree = grown.tree;
  // In the order in which they were made; a pruned node's children are left out.
  std::vector<int32_t> numbers(nodes_.size(), -1), kept;
  for (const GrowingNode &node : nodes_)
    if (node.parent < 0 || (numbers[node.parent] >= 0 && nodes_[node.parent].left >= 0)) {
      numbers[node.number] = int32_t(kept.size());
      kept.push_back(node.number);
    }
  float rate = float(parameters_.learningRate);
  for (int32_t number : kept) {
    const GrowingNode &node = nodes_[number];
    bool isLeaf = node.left < 0;
    tree.feature.push_back(isLeaf ? Tree::kNone : node.best.feature);
    tree.threshold.push_back(isLeaf ? 0 : node.best.threshold);
    tree.left.push_back(isLeaf ? Tree::kNone : numbers[node.left]);
    tree.right.push_back(isLeaf ? Tree::kNone : numbers[node.right]);
    tree.missingLeft.push_back(!isLeaf && node.best.missingLeft);
    tree.value.push_back(node.weight * rate);
    tree.gain.push_back(isLeaf ? 0 : node.best.gain);
    tree.cover.push_back(float(node.sum.second));
    const std::vector<int32_t> none, &set = isLeaf ? none : node.best.categories;
    tree.categoryBegin.push_back(set.empty() ? 0 : int32_t(tree.categories.size()));
    tree.categories.insert(tree.categories.end(), set.begin(), set.end());
    tree.categoryEnd.push_back(set.empty() ? 0 : int32_t(tree.categories.size()));
    if (isLeaf)
      grown.leaves.push_back({numbers[number], std::span(rows_).subspan(node.begin, node.rows())});
  }
  return grown;
}

} // namespace tensmith::trees

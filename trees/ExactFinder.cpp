// Scans of sorted columns. Thresholds lie halfway between neighbouring values in f32; where that is
// the greater of the two in a downward or the same in an upward scan, it is the value seen last.
#include "trees/ExactFinder.h"

#include <cmath>

namespace tensmith::trees {

namespace {

constexpr size_t kAhead = 24; // entries; 12 to 48 are alike

} // namespace

Status ExactFinder::begin(const GrowingTree &tree) {
  tree_ = tree;
  slot_.assign(columns_.rows(), -1);
  return {};
}

Status ExactFinder::find(std::span<const int32_t> nodes) {
  level_.clear();
  threads_.ranges(columns_.rows(), 1 << 16, [&](int64_t begin, int64_t end, int) {
    std::fill(slot_.begin() + begin, slot_.begin() + end, -1);
  });
  for (int32_t number : nodes)
    level_.push_back(&(*tree_.nodes)[number]);
  threads_.parts(int64_t(nodes.size()), [&](int64_t slot, int) {
    const GrowingNode &node = *level_[slot];
    for (uint32_t row : tree_.rows.subspan(node.begin, node.rows()))
      slot_[row] = int32_t(slot);
  });
  std::vector<std::vector<Seen>> seen(threads_.count(), std::vector<Seen>(nodes.size()));
  threads_.parts(columns_.columns(), [&](int64_t feature, int thread) {
    std::span<const SortedColumns::Entry> column = columns_.column(feature);
    bool isOneValue = !column.empty() && column.front().value == column.back().value;
    if (!columns_.isComplete(feature) && !isOneValue)
      scan<false>(column, int32_t(feature), seen[thread]);
    scan<true>(column, int32_t(feature), seen[thread]);
  });
  for (std::vector<Seen> &ofThread : seen)
    for (size_t slot = 0; slot < nodes.size(); ++slot)
      (*tree_.nodes)[nodes[slot]].best.take(std::move(ofThread[slot].best));
  return {};
}

template <bool Downwards>
void ExactFinder::scan(std::span<const SortedColumns::Entry> column, int32_t feature,
                       std::vector<Seen> &seen) const {
  if (prefetch_)
    scan<Downwards, true>(column, feature, seen);
  else
    scan<Downwards, false>(column, feature, seen);
}

template <bool Downwards, bool Prefetch>
void ExactFinder::scan(std::span<const SortedColumns::Entry> column, int32_t feature,
                       std::vector<Seen> &seen) const {
  for (Seen &node : seen)
    node.sum = {}, node.any = false;
  size_t count = column.size();
  for (size_t at = 0; at < count; ++at) {
    if (Prefetch && at + kAhead < count) {
      uint32_t ahead = column[Downwards ? count - 1 - at - kAhead : at + kAhead].row;
      __builtin_prefetch(&slot_[ahead]);
      __builtin_prefetch(&tree_.gradients[ahead]);
    }
    SortedColumns::Entry entry = column[Downwards ? count - 1 - at : at];
    int32_t slot = slot_[entry.row];
    if (slot < 0)
      continue;
    Seen &node = seen[slot];
    if (node.any && entry.value != node.last) {
      float halfway = (entry.value + node.last) * 0.5f;
      bool isEntry = halfway == entry.value || !std::isfinite(halfway);
      consider<Downwards>(*level_[slot], feature,
                          isEntry ? (Downwards ? node.last : entry.value) : halfway, node);
    }
    node.sum.add(tree_.gradients[entry.row]);
    node.any = node.any || node.sum.second != 0;
    node.last = entry.value;
  }
  // All that are present on one side, what is missing on the other.
  for (size_t slot = 0; slot < seen.size(); ++slot) {
    Seen &node = seen[slot];
    if (!node.any)
      continue;
    float gap = std::fabs(node.last) + 1e-6f;
    consider<Downwards>(*level_[slot], feature, node.last + (Downwards ? -gap : gap), node);
  }
}

template <bool Downwards>
void ExactFinder::consider(const GrowingNode &node, int32_t feature, float threshold,
                           Seen &seen) const {
  const SplitRules &rules = *tree_.rules;
  GradientSum rest = node.sum.less(seen.sum);
  if (!rules.mayBeChild(seen.sum) || !rules.mayBeChild(rest) || !node.allows(feature))
    return;
  const GradientSum &left = Downwards ? rest : seen.sum, &right = Downwards ? seen.sum : rest;
  float gain = rules.gain(left, right, feature, node.interval) - node.gain;
  if (!seen.best.yieldsTo(gain, feature))
    return;
  seen.best.gain = gain;
  seen.best.feature = feature;
  seen.best.threshold = threshold;
  seen.best.missingLeft = Downwards;
  seen.best.left = left, seen.best.right = right;
}

void ExactFinder::sides(const Candidate &split, std::span<const uint32_t> rows,
                        uint8_t *left) const {
  sidesByValue(matrix_, split.missingLeft, split.feature, split.threshold, split.categories, rows,
               left);
}

} // namespace tensmith::trees

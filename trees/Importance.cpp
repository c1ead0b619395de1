// Importances, and a forest as text; see Importance.h.
#include "trees/Importance.h"
#include "trees/Verification.h"

#include <fmt/format.h>

namespace tensmith::trees {

std::vector<double> importances(const Forest &forest, Importance kind) {
  std::vector<double> sums(forest.features.size(), 0), counts(forest.features.size(), 0);
  bool byGain = kind == Importance::Gain || kind == Importance::TotalGain;
  for (int64_t i = 0; i < countedTrees(forest); ++i) {
    const Tree &tree = forest.trees[size_t(i)];
    for (int32_t node = 0; node < tree.size(); ++node) {
      if (tree.isLeaf(node))
        continue;
      auto feature = size_t(tree.feature[size_t(node)]);
      counts[feature] += 1;
      sums[feature] += byGain ? tree.gain[size_t(node)] : tree.cover[size_t(node)];
    }
  }
  if (kind == Importance::Weight)
    return counts;
  for (size_t i = 0; i < sums.size(); ++i)
    if (counts[i] > 0 && (kind == Importance::Gain || kind == Importance::Cover))
      sums[i] /= counts[i];
  return sums;
}

std::string nameOf(const Forest &forest, int64_t feature) {
  const std::string &name = forest.features[size_t(feature)].name;
  return name.empty() ? fmt::format("f{}", feature) : name;
}

std::string testOf(const Forest &forest, const Tree &tree, int32_t node) {
  std::string name = nameOf(forest, tree.feature[size_t(node)]);
  if (!tree.isCategorical(node))
    return fmt::format("{} < {}", name, tree.threshold[size_t(node)]);
  constexpr int32_t kShown = 12;
  std::string set;
  int32_t begin = tree.categoryBegin[size_t(node)], end = tree.categoryEnd[size_t(node)];
  for (int32_t i = begin; i < end && i < begin + kShown; ++i)
    set += fmt::format("{}{}", i > begin ? ", " : "", tree.categories[size_t(i)]);
  if (end - begin > kShown)
    set += fmt::format(", ... ({} in all)", end - begin);
  return fmt::format("{} in {{{}}}", name, set);
}

std::string dumpText(const Forest &forest) {
  std::string text;
  for (size_t i = 0; i < forest.trees.size(); ++i) {
    const Tree &tree = forest.trees[i];
    text += fmt::format("tree {}, channel {}, scale {}\n", i, forest.channel[i], forest.scale[i]);
    for (int32_t node = 0; node < tree.size(); ++node)
      if (tree.isLeaf(node))
        text += fmt::format("  {}: value {}, cover {}\n", node, tree.value[size_t(node)],
                            tree.cover[size_t(node)]);
      else
        text += fmt::format(
            "  {}: {} ? {} : {}, missing {}, gain {}, cover {}\n", node, testOf(forest, tree, node),
            tree.left[size_t(node)], tree.right[size_t(node)],
            tree.missingLeft[size_t(node)] ? tree.left[size_t(node)] : tree.right[size_t(node)],
            tree.gain[size_t(node)], tree.cover[size_t(node)]);
  }
  return text;
}

} // namespace tensmith::trees

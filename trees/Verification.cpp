// The checks of a forest; see Verification.h.
#include "trees/Verification.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace tensmith::trees {
namespace {

Status broken(std::string what) { return {StatusCode::InvalidModel, std::move(what)}; }

bool hasArraysOfOneLength(const Tree &tree) {
  size_t count = tree.feature.size();
  return tree.threshold.size() == count && tree.left.size() == count &&
         tree.right.size() == count && tree.missingLeft.size() == count &&
         tree.value.size() == count && tree.gain.size() == count && tree.cover.size() == count &&
         tree.categoryBegin.size() == count && tree.categoryEnd.size() == count;
}

/// Empty where it is right.
std::string problemOfSet(const Tree &tree, int32_t node, const Feature &feature) {
  int32_t begin = tree.categoryBegin[node], end = tree.categoryEnd[node];
  if (begin == 0 && end == 0)
    return std::isnan(tree.threshold[node]) ? "has NaN as threshold" : "";
  if (begin < 0 || end <= begin || end > int64_t(tree.categories.size()))
    return "has a set of categories that is not there";
  for (int32_t i = begin; i < end; ++i)
    if (tree.categories[i] < 0 || tree.categories[i] >= kMostCategories ||
        (i > begin && tree.categories[i] <= tree.categories[i - 1]))
      return "has categories that don't ascend from 0 to 2^24";
  return feature.categories == 0 ? "splits a feature of numbers by categories" : "";
}

/// Children come later, and each has one parent.
std::string problemOfChildren(const Tree &tree, int32_t node, std::vector<bool> &isChild) {
  for (int32_t child : {tree.left[node], tree.right[node]}) {
    if (child <= node || child >= tree.size())
      return fmt::format("has the child {}, which does not come after it", child);
    if (isChild[size_t(child)])
      return fmt::format("has the child {}, which has another parent", child);
    isChild[size_t(child)] = true;
  }
  return "";
}

std::string problemOf(const Tree &tree, int32_t node, const Forest &forest,
                      std::vector<bool> &isChild) {
  if (!std::isfinite(tree.value[node]))
    return "has a value that is not finite";
  if (!(tree.cover[node] >= 0))
    return "has a cover below 0";
  if (tree.isLeaf(node))
    return tree.right[node] == Tree::kNone && tree.feature[node] == Tree::kNone &&
                   tree.categoryBegin[node] == 0 && tree.categoryEnd[node] == 0
               ? ""
               : "is a leaf with a feature, a child or categories";
  if (tree.feature[node] < 0 || tree.feature[node] >= int64_t(forest.features.size()))
    return fmt::format("tests the feature {}, but there are {}", tree.feature[node],
                       forest.features.size());
  std::string problem = problemOfSet(tree, node, forest.features[size_t(tree.feature[node])]);
  return problem.empty() ? problemOfChildren(tree, node, isChild) : problem;
}

} // namespace

Status verifyTree(const Tree &tree, const Forest &forest) {
  if (tree.size() == 0)
    return broken("has no nodes");
  if (!hasArraysOfOneLength(tree))
    return broken("has not as many of each number as there are nodes");
  std::vector<bool> isChild(size_t(tree.size()), false);
  int64_t members = 0; // of sets so far; shared ones would let a small file ask for much work
  for (int32_t node = 0; node < tree.size(); ++node) {
    members += std::max<int64_t>(int64_t(tree.categoryEnd[node]) - tree.categoryBegin[node], 0);
    if (members > int64_t(tree.categories.size()))
      return broken(fmt::format("node {} has a set of categories that is not there", node));
    std::string problem = problemOf(tree, node, forest, isChild);
    if (!problem.empty())
      return broken(fmt::format("node {} {}", node, problem));
  }
  if (std::count(isChild.begin(), isChild.end(), true) != tree.size() - 1)
    return broken("has nodes that no way leads to");
  return {};
}

Status verifyForest(const Forest &forest) {
  if (forest.channels() < 1 || forest.channels() > kMostChannels)
    return broken("a forest has from 1 to 2^20 channels");
  if (int64_t(forest.features.size()) > kMostFeatures)
    return broken("a forest has at most 2^28 features");
  for (double base : forest.baseScores)
    if (!std::isfinite(base))
      return broken("a base score is not finite");
  for (const Feature &feature : forest.features)
    if (feature.categories < 0 || feature.categories > kMostCategories)
      return broken("a feature has from 0 to 2^24 categories");
  for (const Feature &feature : forest.features)
    if (int64_t(feature.levels.names.size()) > feature.categories)
      return broken("a feature has more names of categories than categories");
  if (forest.channel.size() != forest.trees.size() || forest.scale.size() != forest.trees.size())
    return broken("there is not a channel and a scale for each tree");
  if (!std::ranges::is_sorted(forest.classes, std::ranges::less_equal()) ||
      (forest.classes.size() == 1) ||
      (forest.classes.size() > 2 && int64_t(forest.classes.size()) != forest.channels()))
    return broken("the classes don't ascend, or are not as many as there are channels");
  if (forest.classNames.size() > forest.classes.size())
    return broken("there are more names of classes than classes");
  if (forest.bestRound < -1 || forest.bestRound >= kMostNodes)
    return broken(
        fmt::format("the best round is {}, not from -1 (none) to 2^30 - 1", forest.bestRound));
  int64_t nodes = 0;
  for (size_t i = 0; i < forest.trees.size(); ++i) {
    if (forest.channel[i] < 0 || forest.channel[i] >= forest.channels() ||
        !std::isfinite(forest.scale[i]))
      return broken(fmt::format("tree {} has a channel that is not there, or a scale that is not "
                                "finite",
                                i));
    if (Status status = verifyTree(forest.trees[i], forest); !status.ok())
      return status.within(fmt::format("tree {}", i));
    nodes += forest.trees[i].size();
  }
  return nodes > kMostNodes ? broken("a forest has at most 2^30 nodes") : Status();
}

int64_t countedTrees(const Forest &forest) {
  return forest.bestRound < 0 ? int64_t(forest.trees.size())
                              : treesOfRounds(forest, forest.bestRound + 1);
}

int64_t treesOfRounds(const Forest &forest, int64_t rounds) {
  if (rounds <= 0)
    return countedTrees(forest);
  auto all = int64_t(forest.trees.size());
  return rounds > all / forest.channels() ? all : rounds * forest.channels();
}

Status checkComplements(const Forest &forest) {
  int64_t members = 0;
  for (const Tree &tree : forest.trees)
    for (int32_t node = 0; node < tree.size(); ++node) {
      if (tree.isLeaf(node) || !tree.isCategorical(node) || !tree.missingLeft[node])
        continue;
      int64_t known = forest.features[size_t(tree.feature[node])].categories;
      members += known < kMostCategories ? known : 0;
    }
  if (members <= kMostComplements)
    return {};
  return {StatusCode::ResourceExhausted,
          "more than 2^23 categories would have to be written: those that are in no split's set; "
          "save it as .forest"};
}

} // namespace tensmith::trees

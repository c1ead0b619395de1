// Breadth-first numbering of a file's nodes; see TreeAssembly.h.
#include "trees/TreeAssembly.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <unordered_set>

namespace tensmith::trees {

int32_t appendLeaf(Tree &tree, float value, float cover) {
  tree.feature.push_back(Tree::kNone);
  tree.threshold.push_back(0);
  tree.left.push_back(Tree::kNone);
  tree.right.push_back(Tree::kNone);
  tree.missingLeft.push_back(0);
  tree.value.push_back(value);
  tree.gain.push_back(0);
  tree.cover.push_back(cover);
  tree.categoryBegin.push_back(0);
  tree.categoryEnd.push_back(0);
  return tree.size() - 1;
}

void setCategories(Tree &tree, int32_t node, std::vector<int32_t> categories) {
  std::ranges::sort(categories);
  categories.erase(std::unique(categories.begin(), categories.end()), categories.end());
  if (categories.empty())
    return setNoCategories(tree, node);
  tree.categoryBegin[node] = int32_t(tree.categories.size());
  tree.categories.insert(tree.categories.end(), categories.begin(), categories.end());
  tree.categoryEnd[node] = int32_t(tree.categories.size());
}

void setNoCategories(Tree &tree, int32_t node) {
  tree.threshold[node] = -std::numeric_limits<float>::infinity();
}

float floatAbove(double threshold) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (std::isnan(threshold))
    return threshold;
  float below = threshold > double(std::numeric_limits<float>::max())      ? kInfinity
                : threshold < double(std::numeric_limits<float>::lowest()) ? -kInfinity
                                                                           : float(threshold);
  if (double(below) > threshold)
    below = std::nextafter(below, -kInfinity);
  return std::nextafter(below, kInfinity);
}

namespace {

/// From the order of `number` to that of the numbers themselves.
template <typename T> void sortBy(const std::vector<int64_t> &number, std::vector<T> &values) {
  std::vector<T> sorted(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    sorted[size_t(number[i])] = values[i];
  values = std::move(sorted);
}

/// Where the file's numbers are those of an order with parents first, they are taken.
void keepNumbers(Tree &tree, const std::vector<int64_t> &number, int64_t count) {
  if (int64_t(number.size()) != count)
    return;
  for (int32_t i = 0; i < tree.size(); ++i)
    if (!tree.isLeaf(i) && (number[size_t(tree.left[i])] <= number[size_t(i)] ||
                            number[size_t(tree.right[i])] <= number[size_t(i)]))
      return;
  for (std::vector<int32_t> *children : {&tree.left, &tree.right})
    for (int32_t &child : *children)
      child = child == Tree::kNone ? child : int32_t(number[size_t(child)]);
  sortBy(number, tree.missingLeft);
  for (auto *values :
       {&tree.feature, &tree.left, &tree.right, &tree.categoryBegin, &tree.categoryEnd})
    sortBy(number, *values);
  for (auto *values : {&tree.threshold, &tree.value, &tree.gain, &tree.cover})
    sortBy(number, *values);
}

} // namespace

Result<Tree> assembleTree(int64_t root, int64_t count,
                          const std::function<Result<GivenNode>(int64_t)> &nodeAt) {
  auto broken = [](std::string what) { return Status(StatusCode::InvalidModel, std::move(what)); };
  if (root < 0 || root >= count)
    return broken("has no root");
  Tree tree;
  std::unordered_set<int64_t> reached{root}; // `count` may be that of many trees
  std::vector<int64_t> given{root};          // by new number
  appendLeaf(tree, 0);
  for (size_t at = 0; at < given.size(); ++at) {
    auto node = nodeAt(given[at]);
    if (!node.ok())
      return node.status();
    auto place = int32_t(at);
    tree.value[at] = node->value;
    tree.cover[at] = node->cover;
    if (node->feature == Tree::kNone)
      continue;
    tree.feature[at] = node->feature;
    tree.threshold[at] = node->threshold;
    tree.missingLeft[at] = node->missingLeft;
    tree.gain[at] = node->gain;
    if (node->categories)
      setCategories(tree, place, std::move(*node->categories));
    for (auto [child, number] : {std::pair(&tree.left, node->left), {&tree.right, node->right}}) {
      if (number < 0 || number >= count)
        return broken(fmt::format("node {} has the child {}, but there are {} nodes", given[at],
                                  number, count));
      if (!reached.insert(number).second)
        return broken(fmt::format("node {} is reached twice", number));
      given.push_back(number);
      int32_t appended = appendLeaf(tree, 0);
      (*child)[at] = appended;
    }
  }
  keepNumbers(tree, given, count);
  return tree;
}

} // namespace tensmith::trees

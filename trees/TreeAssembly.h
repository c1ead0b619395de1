// Makes a tree of nodes in whatever order a file has them.
//
// Files number nodes as they like: leaves behind all splits (LightGBM), depth first (scikit-learn),
// with holes where nodes were pruned (XGBoost). A file may also be hostile, and let a node lead
// back to its parent. So all readers walk from the root, breadth first, and number nodes as they
// come: children get greater numbers than parents, what isn't reached is left out, and a node that
// is reached twice is an error. Where the file's own numbers are such an order, without holes, they
// are kept, so that leaves are called the same there and here.
#pragma once

#include "trees/Forest.h"

#include "base/Status.h"

#include <functional>
#include <optional>

namespace tensmith::trees {

/// A node as a file has it.
struct GivenNode {
  int32_t feature = Tree::kNone; // kNone: a leaf
  float threshold = 0;           // left: less than this
  int64_t left = -1, right = -1; // by the file's numbers
  bool missingLeft = false;
  float value = 0, gain = 0, cover = 0;
  std::optional<std::vector<int32_t>> categories; // that go left; a split of numbers has none
};

/// `nodeAt` is asked for each number from 0 to `count` - 1 at most once.
Result<Tree> assembleTree(int64_t root, int64_t count,
                          const std::function<Result<GivenNode>(int64_t number)> &nodeAt);

/// Appends a leaf of that value; gives back its number.
int32_t appendLeaf(Tree &tree, float value, float cover = 0);
/// The sorted set without repetitions. Splits hold sets that aren't empty.
void setCategories(Tree &tree, int32_t node, std::vector<int32_t> categories);

/// The least float that is greater than all floats that are at most `threshold`: x <= threshold is
/// x < floatAbove(threshold) for each finite f32 x.
float floatAbove(double threshold);

/// A split of a set of categories that is empty sends all that isn't missing right: as numbers have
/// it, x < -infinity.
void setNoCategories(Tree &tree, int32_t node);

} // namespace tensmith::trees

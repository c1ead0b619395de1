// Follows trees a row and a node at a time; see Trees.h.
#include "reference/Trees.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tensmith::reference {

TreeNode PackedForest::node(int64_t number) const {
  int64_t word = nodes.getInt(2 * number + 1);
  return TreeNode::of(isWide() ? uint64_t(word) : uint64_t(uint32_t(word)), columnBits);
}

uint64_t PackedForest::bits(int64_t node) const {
  int64_t bits = nodes.getInt(2 * node);
  return isWide() ? uint64_t(bits) : uint64_t(uint32_t(bits));
}

double PackedForest::number(int64_t node) const {
  if (isWide())
    return std::bit_cast<double>(bits(node));
  return double(std::bit_cast<float>(uint32_t(bits(node))));
}

Status checkForest(const PackedForest &forest) {
  const int64_t count = forest.size(), columns = forest.columns.size();
  const int64_t rows =
      forest.weights.type() == DataType::Undefined ? -1 : forest.weights.shape()[0];
  // Of each node, the longest way below it, which lies behind it.
  std::vector<int64_t> depths(size_t(count), 0);
  for (int64_t at = count - 1; at >= 0; --at) {
    TreeNode node = forest.node(at);
    if (node.ahead == 0) {
      bool isLeaf = node.column == columns &&
                    (rows < 0 ? forest.number(at) > -std::numeric_limits<double>::infinity()
                              : forest.bits(at) < uint64_t(rows));
      if (!isLeaf)
        return invalidArgument("leaf " + std::to_string(at) +
                               " has no weight, or no place in the weights");
      continue;
    }
    if (node.column >= columns || node.ahead >= count - at - 1)
      return invalidArgument("node " + std::to_string(at) + " tests or leads to what is not there");
    const int64_t *below = &depths[size_t(at + node.ahead)];
    depths[size_t(at)] = 1 + std::max(below[0], below[1]);
  }
  for (int64_t tree = 0; tree < forest.trees.shape()[0]; ++tree) {
    int64_t root = forest.trees.getInt(2 * tree), target = forest.trees.getInt(2 * tree + 1);
    if (root < 0 || root >= count || target < 0 || target >= forest.targets)
      return invalidArgument("tree " + std::to_string(tree) + " has no root or no target");
    if (depths[size_t(root)] > forest.depth)
      return invalidArgument("a way is longer than " + std::to_string(forest.depth) + " nodes");
  }
  return {};
}

namespace {

/// The leaf that a row's elements, by column, lead to.
Result<int64_t> leafOf(const PackedForest &forest, int64_t root, std::span<const double> row,
                       bool isStrict) {
  int64_t at = root;
  for (int64_t step = 0; step <= forest.depth; ++step) {
    if (at < 0 || at >= forest.size())
      break;
    TreeNode node = forest.node(at);
    if (node.ahead == 0)
      return at;
    if (node.column >= int64_t(row.size()))
      break;
    double x = row[size_t(node.column)], t = forest.number(at);
    bool passes = std::isnan(x)     ? node.nanPasses
                  : node.isEquality ? x == t
                                    : (isStrict ? x < t : x <= t);
    at += node.ahead + (passes ? 0 : 1);
  }
  return invalidArgument("tree_ensemble: a way leads to no leaf");
}

PackedForest forestOf(Workspace &workspace, const Invocation &invocation) {
  const Attributes &attributes = invocation.attributes;
  PackedForest forest{workspace.operand(1, "columns", 1),
                      workspace.operand(2, "nodes", 2),
                      workspace.operand(3, "trees", 2),
                      {}};
  forest.targets = attributes.integer("targets", 1);
  forest.columnBits = attributes.integer("column_bits", 1);
  forest.depth = attributes.integer("depth");
  if (invocation.operands.size() > 4 && invocation.operands[4].type() != DataType::Undefined)
    forest.weights = workspace.operand(4, "weights", 2);
  if (!workspace.ok())
    return forest;
  workspace.require(forest.nodes.shape()[1] == 2 && isInteger(forest.nodes.type()), "nodes",
                    "must be pairs of integers");
  workspace.require(forest.trees.shape()[1] == 2 && isInteger(forest.trees.type()), "trees",
                    "must be pairs of integers");
  workspace.require(forest.weights.type() == DataType::Undefined ||
                        forest.weights.shape()[1] == forest.targets,
                    "weights", "must have a column for each target");
  if (forest.targets < 1 || forest.targets > kLargestExtent || forest.columnBits < 1 ||
      forest.columnBits > 61)
    workspace.rejectAttribute("targets", "or 'column_bits' can't be");
  return forest;
}

} // namespace

Outcome evaluateTreeEnsemble(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x", 2);
  PackedForest forest = forestOf(workspace, invocation);
  const std::string aggregate = invocation.attributes.string("aggregate", "sum");
  const bool isStrict = invocation.attributes.integer("strict") != 0;
  if (!workspace.ok())
    return workspace.status();
  const int64_t rows = x.shape()[0], features = x.shape()[1], targets = forest.targets;
  for (int64_t i = 0; i < forest.columns.size(); ++i)
    if (int64_t column = forest.columns.getInt(i); column < 0 || column >= features)
      workspace.reject("columns", "hold a feature that x does not have");
  std::span<double> sums = workspace.zeros<double>({rows, targets});
  if (!workspace.ok())
    return workspace.status();
  const double largest = x.type() == DataType::F64 ? std::numeric_limits<double>::max()
                                                   : double(std::numeric_limits<float>::max());
  if (aggregate != "sum")
    std::fill(sums.begin(), sums.end(), aggregate == "min" ? largest : -largest);
  auto add = [&](double &sum, double weight) {
    sum = aggregate == "sum"   ? sum + weight
          : aggregate == "min" ? std::min(sum, weight)
                               : std::max(sum, weight);
  };
  std::vector<double> row(size_t(forest.columns.size()));
  for (int64_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < row.size(); ++i)
      row[i] = x.getDouble(r * features + forest.columns.getInt(int64_t(i)));
    for (int64_t tree = 0; tree < forest.trees.shape()[0]; ++tree) {
      auto leaf = leafOf(forest, forest.trees.getInt(2 * tree), row, isStrict);
      if (!leaf)
        return leaf.status();
      if (forest.weights.type() == DataType::Undefined) {
        int64_t target = forest.trees.getInt(2 * tree + 1);
        if (target < 0 || target >= targets)
          return invalidArgument("tree_ensemble: a tree has no target");
        add(sums[size_t(r * targets + target)], forest.number(*leaf));
        continue;
      }
      uint64_t place = forest.bits(*leaf);
      if (place >= uint64_t(forest.weights.shape()[0]))
        return invalidArgument("tree_ensemble: a leaf has no weights");
      for (int64_t target = 0; target < targets; ++target)
        add(sums[size_t(r * targets + target)],
            forest.weights.getDouble(int64_t(place) * targets + target));
    }
  }
  return workspace.finish(workspace.narrow<double>(sums, x.type(), {rows, targets}));
}

} // namespace tensmith::reference

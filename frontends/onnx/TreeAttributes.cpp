// Reads ensembles of trees from the attributes of the operators that have them; see Trees.h.
//
// A node that asks for membership of a set becomes a chain of nodes that ask for equality.
#include "frontends/onnx/Trees.h"

#include <limits>
#include <map>
#include <set>

namespace tensmith::onnx_import {
namespace {

/// Numbers that a node's tensor attribute holds.
SmallVector<double> numbersOf(NodeImport &n, StringRef name) {
  SmallVector<double> numbers;
  auto *attribute = n.attribute(name, onnx::AttributeProto::TENSOR);
  if (!attribute)
    return numbers;
  auto tensor = readTensor(attribute->t(), n.importer.tensorSource());
  if (tensor.ok() && tensor->type() != DataType::String)
    for (int64_t i = 0; i < tensor->size(); ++i)
      numbers.push_back(tensor->getDouble(i));
  return numbers;
}

/// The sets of the membership nodes, in the order of the nodes, each ended by NaN.
void expandMembers(Forest &forest, ArrayRef<double> members) {
  size_t next = 0;
  for (int64_t node = 0, count = forest.nodes(); node < count; ++node) {
    if (forest.modes[size_t(node)] != Member)
      continue;
    int64_t at = node;
    forest.modes[size_t(at)] = Equal; // of NaN, which nothing is equal to, in an empty set
    forest.splits[size_t(at)] = std::numeric_limits<double>::quiet_NaN();
    for (bool isFirst = true; next < members.size() && members[next] == members[next];
         ++next, isFirst = false) {
      if (!isFirst) {
        int64_t added = forest.nodes();
        for (Ints *column :
             {&forest.features, &forest.modes, &forest.yes, &forest.no, &forest.missing})
          column->push_back((*column)[size_t(at)]);
        forest.splits.push_back(0);
        forest.no[size_t(at)] = added;
        at = added;
      }
      forest.splits[size_t(at)] = members[next];
    }
    ++next;
  }
}

} // namespace

FailureOr<Forest> readForest(NodeImport &n) {
  Forest forest;
  forest.features = n.intsAttr("nodes_featureids");
  forest.splits = numbersOf(n, "nodes_splits");
  for (double mode : numbersOf(n, "nodes_modes"))
    forest.modes.push_back(int64_t(mode));
  forest.roots = n.intsAttr("tree_roots");
  forest.targets = n.intsAttr("leaf_targetids");
  forest.weights = numbersOf(n, "leaf_weights");
  forest.targetCount = n.intAttr("n_targets", 1);
  forest.leafCount = int64_t(forest.targets.size());
  for (int64_t leaf = 0; leaf < forest.leafCount; ++leaf)
    forest.holders.push_back(leaf);
  forest.missing = n.intsAttr("nodes_missing_value_tracks_true");
  size_t count = forest.features.size();
  if (forest.missing.empty())
    forest.missing.resize(count, 0);
  Ints ids[] = {n.intsAttr("nodes_truenodeids"), n.intsAttr("nodes_falsenodeids")};
  Ints areLeaves[] = {n.intsAttr("nodes_trueleafs"), n.intsAttr("nodes_falseleafs")};
  for (size_t size : {forest.splits.size(), forest.modes.size(), forest.missing.size(),
                      ids[0].size(), ids[1].size(), areLeaves[0].size(), areLeaves[1].size()})
    if (size != count)
      return n.error("the attributes of nodes are not as many of each");
  if (forest.weights.size() != forest.targets.size() || forest.targets.empty() || count == 0 ||
      forest.roots.empty() || forest.targetCount < 1)
    return n.error("has no trees, no leaves or no targets, or not a weight for each leaf");
  auto isWithin = [](ArrayRef<int64_t> values, int64_t limit) {
    return llvm::all_of(values, [=](int64_t value) { return value >= 0 && value < limit; });
  };
  if (!isWithin(forest.roots, forest.nodes()) || !isWithin(forest.modes, Member + 1) ||
      !isWithin(forest.targets, forest.targetCount) ||
      !isWithin(forest.features, std::numeric_limits<int32_t>::max()))
    return n.error("a root, mode, target or feature is out of range");
  // Leaves are marked by negative numbers until their place behind all nodes is known.
  Ints *branches[] = {&forest.yes, &forest.no};
  for (size_t side = 0; side < 2; ++side)
    for (size_t node = 0; node < count; ++node) {
      bool isLeaf = areLeaves[side][node] != 0;
      int64_t id = ids[side][node];
      if (id < 0 || id >= (isLeaf ? forest.leaves() : forest.nodes()))
        return n.error("node " + llvm::Twine(node) + " leads to " + llvm::Twine(id) +
                       ", which is none");
      branches[side]->push_back(isLeaf ? -1 - id : id);
    }
  expandMembers(forest, numbersOf(n, "membership_values"));
  return forest;
}

namespace {

using NodeName = std::pair<int64_t, int64_t>;

constexpr const char *kModes[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                  "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};

/// Where every node has its place: inner nodes in their order, leaves as -1 - their order.
FailureOr<std::map<NodeName, int64_t>> placeNodes(NodeImport &n, Forest &forest) {
  Ints trees = n.intsAttr("nodes_treeids"), nodes = n.intsAttr("nodes_nodeids");
  auto modes = n.stringsAttr("nodes_modes");
  if (trees.empty() || nodes.size() != trees.size() || modes.size() != trees.size())
    return n.error("the attributes of nodes are not as many of each, or none");
  std::map<NodeName, int64_t> places;
  std::set<int64_t> seen;
  int64_t inner = 0;
  for (size_t i = 0; i < trees.size(); ++i) {
    int64_t place = modes[i] == "LEAF" ? -1 - forest.leafCount++ : inner++;
    if (!places.emplace(NodeName(trees[i], nodes[i]), place).second)
      return n.error("two nodes of tree " + llvm::Twine(trees[i]) + " have the number " +
                     llvm::Twine(nodes[i]));
    if (seen.insert(trees[i]).second)
      forest.roots.push_back(place);
  }
  return places;
}

} // namespace

SmallVector<double> floatsOrTensor(NodeImport &n, const std::string &name) {
  return n.hasAttribute(name + "_as_tensor") ? numbersOf(n, name + "_as_tensor")
                                             : n.floatsAttr(name);
}

FailureOr<Forest> readNamedForest(NodeImport &n, const std::string &held, int64_t targetCount) {
  Forest forest;
  auto places = placeNodes(n, forest);
  if (failed(places))
    return failure();
  Ints trees = n.intsAttr("nodes_treeids"), features = n.intsAttr("nodes_featureids");
  Ints yes = n.intsAttr("nodes_truenodeids"), no = n.intsAttr("nodes_falsenodeids");
  Ints missing = n.intsAttr("nodes_missing_value_tracks_true");
  auto modes = n.stringsAttr("nodes_modes");
  auto splits = floatsOrTensor(n, "nodes_values");
  missing.resize(trees.size(), 0);
  for (size_t size : {features.size(), yes.size(), no.size(), splits.size()})
    if (size != trees.size())
      return n.error("the attributes of nodes are not as many of each");
  for (size_t i = 0; i < trees.size(); ++i) {
    if (modes[i] == "LEAF")
      continue;
    auto mode = numberOf(kModes, modes[i]);
    auto then = places->find({trees[i], yes[i]}), otherwise = places->find({trees[i], no[i]});
    if (!mode || then == places->end() || otherwise == places->end() || features[i] < 0)
      return n.error("node " + llvm::Twine(i) + " has mode '" + modes[i] +
                     "', or leads to a node that there is not");
    forest.features.push_back(features[i]);
    forest.modes.push_back(*mode);
    forest.splits.push_back(splits[i]);
    forest.missing.push_back(missing[i]);
    forest.yes.push_back(then->second);
    forest.no.push_back(otherwise->second);
  }
  forest.targets = n.intsAttr(held + "_ids");
  forest.targetCount = targetCount;
  forest.weights = floatsOrTensor(n, held + "_weights");
  Ints treeOf = n.intsAttr(held + "_treeids"), nodeOf = n.intsAttr(held + "_nodeids");
  if (forest.weights.size() != forest.targets.size() || treeOf.size() != forest.targets.size() ||
      nodeOf.size() != forest.targets.size())
    return n.error("the attributes of targets are not as many of each");
  for (size_t i = 0; i < treeOf.size(); ++i) {
    auto leaf = places->find({treeOf[i], nodeOf[i]});
    if (leaf == places->end() || leaf->second >= 0 || forest.targets[i] < 0 ||
        forest.targets[i] >= forest.targetCount)
      return n.error("weight " + llvm::Twine(i) + " is of no leaf or of no target");
    forest.holders.push_back(-1 - leaf->second);
  }
  return forest;
}

} // namespace tensmith::onnx_import

// Ensembles of decision trees, as a loop over depth: all rows descend all trees together, one node
// a step.
//
// Nodes and leaves are numbered together, leaves last, and a leaf leads to itself: after as many
// steps as the deepest tree has, each position is a leaf. A node that asks for membership of a set
// becomes a chain of nodes that ask for equality. Every step is a handful of gathers, so it
// compiles.
#include "frontends/onnx/Loops.h"

#include <limits>
#include <map>
#include <set>

namespace tensmith::onnx_import {
namespace {

enum Mode : int64_t { LessOrEqual, Less, GreaterOrEqual, Greater, Equal, NotEqual, Member };
enum Aggregate : int64_t { Average, Sum, Minimum, Maximum };
enum Transform : int64_t { NoTransform, Softmax, Logistic, SoftmaxZero, Probit };

constexpr const char *kComparisons[] = {"graph.less_or_equal", "graph.less",
                                        "graph.greater_or_equal", "graph.greater", "graph.equal"};

struct Forest {
  Ints features, modes, yes, no, missing; // by node; `yes` and `no` count leaves from `leaf(0)`
  SmallVector<double> splits;
  Ints roots;            // by tree; a leaf as -1 - leaf
  Ints holders, targets; // by weight: the leaf that has it, and what it is for
  SmallVector<double> weights;
  int64_t targetCount = 1, leafCount = 0;

  int64_t nodes() const { return int64_t(features.size()); }
  int64_t leaves() const { return leafCount; }
};

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

/// How many nodes lie on the longest way to a leaf; nothing where a way leads back.
std::optional<int64_t> depthOf(const Forest &forest) {
  enum : int64_t { Unseen = -1, Open = -2 };
  Ints depths(forest.features.size(), Unseen);
  int64_t deepest = 0;
  SmallVector<int64_t> path;
  for (int64_t root : forest.roots) {
    if (root < 0)
      continue;
    path.push_back(root);
    while (!path.empty()) {
      int64_t node = path.back();
      int64_t &depth = depths[size_t(node)], below = 0;
      bool isReady = true;
      for (int64_t next : {forest.yes[size_t(node)], forest.no[size_t(node)]}) {
        if (next < 0 || depth >= 0)
          continue;
        if (depths[size_t(next)] == Open)
          return std::nullopt;
        if (depths[size_t(next)] == Unseen) {
          path.push_back(next);
          isReady = false;
          break;
        }
        below = std::max(below, depths[size_t(next)]);
      }
      if (isReady && depth < 0)
        depth = below + 1;
      else if (!isReady)
        depth = Open;
      if (isReady)
        path.pop_back();
      deepest = std::max(deepest, depth);
    }
  }
  return deepest;
}

/// Lets leaves follow the nodes, each leading to itself.
void appendLeaves(Forest &forest) {
  int64_t nodes = forest.nodes();
  for (Ints *branch : {&forest.yes, &forest.no}) {
    for (int64_t &next : *branch)
      if (next < 0)
        next = nodes + (-1 - next);
    for (int64_t leaf = 0; leaf < forest.leaves(); ++leaf)
      branch->push_back(nodes + leaf);
  }
  for (int64_t &root : forest.roots)
    root = root < 0 ? nodes + (-1 - root) : root;
  size_t all = forest.yes.size();
  forest.features.resize(all, 0);
  forest.missing.resize(all, 0);
  forest.splits.resize(all, 0);
  forest.modes.resize(all, forest.modes.empty() ? int64_t(LessOrEqual) : forest.modes.front());
}

Value constantOf(NodeImport &n, Type element, ArrayRef<double> values, Shape shape) {
  HostTensor tensor(graph::dataType(element), std::move(shape));
  if (!tensor.valid())
    return {};
  for (size_t i = 0; i < values.size(); ++i)
    tensor.setDouble(int64_t(i), values[i]);
  return n.constant(tensor);
}

Value lookedUp(NodeImport &n, Value table, Value at) {
  return n("graph.gather", {table, at}, n.integer("axis", 0));
}

/// Whether the rows' features pass the tests of the nodes that they are at.
Value passes(NodeImport &n, const Forest &forest, Value feature, Value at) {
  Type type = n.element(feature);
  Value split =
      lookedUp(n, constantOf(n, type, forest.splits, {int64_t(forest.splits.size())}), at);
  auto compared = [&](int64_t mode) -> Value {
    if (mode == NotEqual)
      return n.unary("graph.not", n("graph.equal", {feature, split}));
    return n(kComparisons[mode], {feature, split});
  };
  Value result, mode;
  for (int64_t kind = LessOrEqual; kind < Member; ++kind) {
    if (!llvm::is_contained(forest.modes, kind))
      continue;
    if (llvm::all_equal(forest.modes)) {
      result = compared(kind);
      continue;
    }
    if (!mode)
      mode = lookedUp(n, n.vector(forest.modes), at);
    Value chosen =
        n("graph.and", {n("graph.equal", {mode, n.scalar(mode, double(kind))}), compared(kind)});
    result = result ? n("graph.or", {result, chosen}) : chosen;
  }
  if (!llvm::is_contained(forest.missing, 1))
    return result;
  Value tracked = n.cast(lookedUp(n, n.vector(forest.missing), at), n.builder.getI1Type());
  return n("graph.or", {result, n("graph.and", {tracked, n.unary("graph.isnan", feature)})});
}

/// The leaves' weights, [rows, trees, targets], as one value for each row and target.
Value aggregated(NodeImport &n, const Forest &forest, Value leaf, Type type, int64_t aggregate) {
  double absent = 0, largest = type.isF64()   ? std::numeric_limits<double>::max()
                               : type.isF16() ? 65504
                                              : double(std::numeric_limits<float>::max());
  if (aggregate == Minimum || aggregate == Maximum)
    absent = aggregate == Minimum ? largest : -largest;
  SmallVector<double> table(size_t(forest.leaves() * forest.targetCount), absent);
  for (size_t i = 0; i < forest.weights.size(); ++i) {
    double &held = table[size_t(forest.holders[i] * forest.targetCount + forest.targets[i])];
    double weight = forest.weights[i];
    held = aggregate == Minimum   ? std::min(held, weight)
           : aggregate == Maximum ? std::max(held, weight)
                                  : held + weight;
  }
  Value weights = constantOf(n, type, table, {forest.leaves(), forest.targetCount});
  Value read = lookedUp(n, weights, leaf);
  const char *name = aggregate == Minimum   ? "graph.reduce_min"
                     : aggregate == Maximum ? "graph.reduce_max"
                                            : "graph.reduce_sum";
  Value result = n.reduce(name, read, {1}, false);
  return aggregate == Average ? n.mul(result, 1 / double(forest.roots.size())) : result;
}

Value transformed(NodeImport &n, Value x, int64_t transform) {
  if (!x)
    return x;
  switch (transform) {
  case Softmax:
    return n("graph.softmax", {x}, n.integer("axis", 1));
  case Logistic:
    return n.unary("graph.sigmoid", x);
  case SoftmaxZero: { // zeros are classes without a score, and stay
    Value isZero = n("graph.equal", {x, n.scalar(x, 0)});
    Value least = n.scalar(x, -std::numeric_limits<double>::infinity());
    Value weights = n("graph.softmax", {n.where(isZero, least, x)}, n.integer("axis", 1));
    return n.where(isZero, n.scalar(x, 0), weights);
  }
  default:
    return x;
  }
}

/// What the trees say of each row of the operand, [rows, targets]; null, with an error, where they
/// can't be followed.
Value predict(NodeImport &n, Value x, Forest &forest, int64_t aggregate) {
  constexpr int64_t kMostWeights = int64_t(1) << 28;
  if (forest.targetCount < 1 || forest.leaves() < 1 ||
      !elementCount(Shape{forest.leaves(), forest.targetCount}, kMostWeights)) {
    (void)n.error("has no leaves or targets, or more than 2^28 of both together");
    return {};
  }
  auto depth = depthOf(forest);
  if (!depth) {
    (void)n.error("a node of a tree leads back to itself");
    return {};
  }
  int64_t nodes = forest.nodes();
  appendLeaves(forest);
  AffineExpr rows = n.dims(x)[0], trees = n.size(int64_t(forest.roots.size()));
  Value start = n.broadcast(n.vector(forest.roots), {rows, trees});
  auto descend = [&](mlir::ValueRange arguments) -> FailureOr<SmallVector<Value>> {
    Value at = arguments[2];
    Value feature = n("graph.gather_elements", {x, lookedUp(n, n.vector(forest.features), at)},
                      n.integer("axis", 1));
    if (!feature)
      return failure();
    Value next = n.where(passes(n, forest, feature, at), lookedUp(n, n.vector(forest.yes), at),
                         lookedUp(n, n.vector(forest.no), at));
    if (!next)
      return failure();
    return SmallVector<Value>{n.graph.scalar(n.builder.getI1Type(), 1), next};
  };
  if (failed(buildLoop(n, n.integerScalar(*depth), n.none(), {start}, 0, descend)))
    return {};
  Value leaf = n.add(n.results[0], -double(nodes));
  return aggregated(n, forest, leaf, n.element(x), aggregate);
}

LogicalResult treeEnsemble(NodeImport &n) {
  if (failed(n.needRank(0)) || n.rank(n.input(0)) != 2)
    return n.error("operand 0 has not rank 2");
  int64_t aggregate = n.intAttr("aggregate_function", Sum);
  int64_t transform = n.intAttr("post_transform", NoTransform);
  if (aggregate < Average || aggregate > Maximum || transform < NoTransform || transform >= Probit)
    return n.error("aggregate_function " + llvm::Twine(aggregate) + " or post_transform " +
                   llvm::Twine(transform) + " is not supported");
  auto forest = readForest(n);
  if (failed(forest))
    return failure();
  return n.give({transformed(n, predict(n, n.input(0), *forest, aggregate), transform)});
}

// ---- TreeEnsembleRegressor, whose nodes are named by a tree's number and their own

using NodeName = std::pair<int64_t, int64_t>;

/// The position of a name in a list of names; nothing where there is none.
template <size_t count>
std::optional<int64_t> numberOf(const char *const (&names)[count], StringRef name) {
  const auto *it = llvm::find(names, name);
  return it == std::end(names) ? std::nullopt : std::optional(int64_t(it - std::begin(names)));
}

constexpr const char *kModes[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                  "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
constexpr const char *kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
constexpr const char *kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"};

/// Floats of the attribute, or of the tensor that newer opsets allow instead.
SmallVector<double> floatsOrTensor(NodeImport &n, const std::string &name) {
  return n.hasAttribute(name + "_as_tensor") ? numbersOf(n, name + "_as_tensor")
                                             : n.floatsAttr(name);
}

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

FailureOr<Forest> readNamedForest(NodeImport &n) {
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
  forest.targets = n.intsAttr("target_ids");
  forest.targetCount = n.intAttr("n_targets", 1);
  forest.weights = floatsOrTensor(n, "target_weights");
  Ints treeOf = n.intsAttr("target_treeids"), nodeOf = n.intsAttr("target_nodeids");
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

LogicalResult treeEnsembleRegressor(NodeImport &n) {
  if (failed(n.needRank(0)) || n.rank(n.input(0)) != 2)
    return n.error("operand 0 has not rank 2");
  auto aggregate = numberOf(kAggregates, n.stringAttr("aggregate_function", "SUM"));
  auto transform = numberOf(kTransforms, n.stringAttr("post_transform", "NONE"));
  if (!aggregate || !transform)
    return n.error("aggregate_function or post_transform is not supported");
  auto forest = readNamedForest(n);
  if (failed(forest))
    return failure();
  auto base = floatsOrTensor(n, "base_values");
  if (!base.empty() && int64_t(base.size()) != forest->targetCount)
    return n.error("has not a base value for each target");
  Value x = n.cast(n.input(0), n.element(n.input(0)).isF64() ? n.builder.getF64Type()
                                                             : Type(n.builder.getF32Type()));
  Value y = predict(n, x, *forest, *aggregate);
  if (y && !base.empty())
    y = n.add(y, constantOf(n, n.element(x), base, {int64_t(base.size())}));
  return n.give({n.cast(transformed(n, y, *transform), n.builder.getF32Type())});
}

constexpr Operator kOperators[] = {
    {"TreeEnsemble", treeEnsemble, "ai.onnx.ml"},
    {"TreeEnsembleRegressor", treeEnsembleRegressor, "ai.onnx.ml"},
};

} // namespace

std::span<const Operator> treeOperators() { return kOperators; }

} // namespace tensmith::onnx_import

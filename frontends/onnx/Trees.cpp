// Ensembles of decision trees, as a loop over depth: all rows descend all trees together, one node
// a step.
//
// Nodes and leaves are numbered together, leaves last, and a leaf leads to itself: after as many
// steps as the deepest tree has, each position is a leaf. A node that asks for membership of a set
// becomes a chain of nodes that ask for equality. Every step is a handful of gathers, so it
// compiles.
#include "frontends/onnx/Loops.h"

#include <limits>

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
  Ints roots, targets;         // by tree; by leaf
  SmallVector<double> weights; // by leaf
  int64_t targetCount = 1;

  int64_t nodes() const { return int64_t(features.size()); }
  int64_t leaves() const { return int64_t(targets.size()); }
};

/// Numbers that a node's tensor attribute holds.
SmallVector<double> numbersOf(NodeImport &n, StringRef name) {
  SmallVector<double> numbers;
  auto *attribute = n.attribute(name);
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
  size_t all = forest.yes.size();
  forest.features.resize(all, 0);
  forest.missing.resize(all, 0);
  forest.splits.resize(all, 0);
  forest.modes.resize(all, forest.modes.front());
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
  for (int64_t i = 0; i < forest.leaves(); ++i)
    table[size_t(i * forest.targetCount + forest.targets[size_t(i)])] = forest.weights[size_t(i)];
  Value weights = constantOf(n, type, table, {forest.leaves(), forest.targetCount});
  Value read = lookedUp(n, weights, leaf);
  const char *name = aggregate == Minimum   ? "graph.reduce_min"
                     : aggregate == Maximum ? "graph.reduce_max"
                                            : "graph.reduce_sum";
  Value result = n.reduce(name, read, {1}, false);
  return aggregate == Average ? n.mul(result, 1 / double(forest.roots.size())) : result;
}

Value transformed(NodeImport &n, Value x, int64_t transform) {
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
  auto depth = depthOf(*forest);
  if (!depth)
    return n.error("a node of a tree leads back to itself");
  int64_t nodes = forest->nodes();
  appendLeaves(*forest);
  Value x = n.input(0);
  AffineExpr rows = n.dims(x)[0], trees = n.size(int64_t(forest->roots.size()));
  Value start = n.broadcast(n.vector(forest->roots), {rows, trees});
  auto descend = [&](mlir::ValueRange arguments) -> FailureOr<SmallVector<Value>> {
    Value at = arguments[2];
    Value feature = n("graph.gather_elements", {x, lookedUp(n, n.vector(forest->features), at)},
                      n.integer("axis", 1));
    if (!feature)
      return failure();
    Value next = n.where(passes(n, *forest, feature, at), lookedUp(n, n.vector(forest->yes), at),
                         lookedUp(n, n.vector(forest->no), at));
    if (!next)
      return failure();
    return SmallVector<Value>{n.graph.scalar(n.builder.getI1Type(), 1), next};
  };
  if (failed(buildLoop(n, n.integerScalar(*depth), n.none(), {start}, 0, descend)))
    return failure();
  Value leaf = n.add(n.results[0], -double(nodes));
  return n.give({transformed(n, aggregated(n, *forest, leaf, n.element(x), aggregate), transform)});
}

constexpr Operator kOperators[] = {{"TreeEnsemble", treeEnsemble, "ai.onnx.ml"}};

} // namespace

std::span<const Operator> treeOperators() { return kOperators; }

} // namespace tensmith::onnx_import

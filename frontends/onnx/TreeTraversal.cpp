// Follows ensembles of trees that graph.tree_ensemble does not hold (TreePacking.cpp): all rows
// descend all trees together, one node a step; see Trees.h.
//
// Nodes and leaves are numbered together, leaves last, and a leaf leads to itself: after as many
// steps as the deepest tree has, each position is a leaf. A step is four reads of tables and a
// comparison, and a few steps are written one after another, so that they become one kernel in
// which a position stays in registers; deeper trees take those steps in a loop. This is the
// traversal by tables of Nakandala et al., "A Tensor Compiler for Unified Machine Learning
// Prediction Serving" (OSDI 2020), fused.
#include "frontends/onnx/Classifiers.h"
#include "frontends/onnx/Loops.h"
#include "frontends/onnx/Trees.h"

#include <limits>

namespace tensmith::onnx_import {
namespace {

constexpr const char *kComparisons[] = {"graph.less_or_equal", "graph.less",
                                        "graph.greater_or_equal", "graph.greater", "graph.equal"};

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

constexpr int64_t kStepsOfAKernel = 12;

/// Whole numbers as a table of i32, which the positions are.
Value tableOf(NodeImport &n, ArrayRef<int64_t> values) {
  HostTensor table(DataType::I32, {int64_t(values.size())});
  if (!table.valid())
    return {};
  for (size_t i = 0; i < values.size(); ++i)
    table.setInt(int64_t(i), values[i]);
  return n.constant(table);
}

Value lookedUp(NodeImport &n, Value table, Value at) {
  return n("graph.gather", {table, at}, n.integer("axis", 0));
}

/// What a step looks up, by position.
struct Tables {
  Value features, splits, branches; // where `no` and then `yes` lead to
  Value modes, missing;             // null where they are the same for all
};

Tables tablesOf(NodeImport &n, const Forest &forest, Type type) {
  SmallVector<int64_t> branches;
  for (auto [yes, no] : llvm::zip_equal(forest.yes, forest.no))
    branches.append({no, yes});
  Tables tables{tableOf(n, forest.features),
                constantOf(n, type, forest.splits, {int64_t(forest.splits.size())}),
                tableOf(n, branches),
                {},
                {}};
  if (!llvm::all_equal(forest.modes))
    tables.modes = tableOf(n, forest.modes);
  if (llvm::is_contained(forest.missing, 1))
    tables.missing = tableOf(n, forest.missing);
  return tables;
}

/// Whether the rows' features pass the tests of the nodes that they are at.
Value passes(NodeImport &n, const Forest &forest, const Tables &tables, Value feature, Value at) {
  Value split = lookedUp(n, tables.splits, at);
  auto compared = [&](int64_t mode) -> Value {
    if (mode == NotEqual)
      return n.unary("graph.not", n("graph.equal", {feature, split}));
    return n(kComparisons[mode], {feature, split});
  };
  Value result, mode = tables.modes ? lookedUp(n, tables.modes, at) : Value();
  if (!tables.modes)
    result = compared(forest.modes.front());
  for (int64_t kind = LessOrEqual; mode && kind < Member; ++kind) {
    if (!llvm::is_contained(forest.modes, kind))
      continue;
    Value chosen =
        n("graph.and", {n("graph.equal", {mode, n.scalar(mode, double(kind))}), compared(kind)});
    result = result ? n("graph.or", {result, chosen}) : chosen;
  }
  if (!tables.missing)
    return result;
  Value tracked = n.cast(lookedUp(n, tables.missing, at), n.builder.getI1Type());
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
  Value weights = forest.targetCount == 1
                      ? constantOf(n, type, table, {forest.leaves()})
                      : constantOf(n, type, table, {forest.leaves(), forest.targetCount});
  Value read = lookedUp(n, weights, leaf);
  const char *name = aggregate == Minimum   ? "graph.reduce_min"
                     : aggregate == Maximum ? "graph.reduce_max"
                                            : "graph.reduce_sum";
  Value result = n.reduce(name, read, {0}, false);
  if (result && forest.targetCount == 1)
    result = n.reshape(result, {n.dims(result)[0], n.size(1)});
  return aggregate == Average ? n.mul(result, 1 / double(forest.roots.size())) : result;
}

/// The positions one step further down.
Value descended(NodeImport &n, const Forest &forest, const Tables &tables, Value x, Value at) {
  Value feature =
      at ? n("graph.gather_elements", {x, lookedUp(n, tables.features, at)}, n.integer("axis", 0))
         : at;
  if (!feature)
    return feature;
  Value passed = n.cast(passes(n, forest, tables, feature, at), n.element(at));
  return passed ? lookedUp(n, tables.branches, n.add(n.mul(at, 2), passed)) : passed;
}

} // namespace

Value predict(NodeImport &n, Value x, Forest &forest, int64_t aggregate) {
  constexpr int64_t kMostWeights = int64_t(1) << 28, kMostPositions = int64_t(1) << 29;
  constexpr int64_t kMostInTables = int64_t(1) << 26;
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
  if (nodes + forest.leaves() > kMostPositions) {
    (void)n.error("has more than 2^29 nodes and leaves");
    return {};
  }
  if (Value packed = predictPacked(n, x, forest, aggregate))
    return packed;
  if (forest.leaves() * forest.targetCount > kMostInTables) {
    (void)n.error("has more than 2^26 of leaves and targets together, and no packed form, or there "
                  "is not enough memory for its weights");
    return {};
  }
  appendLeaves(forest);
  AffineExpr rows = n.dims(x)[0], trees = n.size(int64_t(forest.roots.size()));
  x = n.transpose(x, {1, 0});
  Value at = n.broadcast(n.reshape(tableOf(n, forest.roots), {trees, n.size(1)}), {trees, rows});
  Tables tables = tablesOf(n, forest, n.element(x));
  auto descend = [&](Value at, int64_t steps) {
    for (int64_t step = 0; step < steps && at; ++step)
      at = descended(n, forest, tables, x, at);
    return at;
  };
  if (*depth <= kStepsOfAKernel) {
    at = descend(at, *depth);
  } else {
    auto body = [&](mlir::ValueRange arguments) -> FailureOr<SmallVector<Value>> {
      Value next = descend(arguments[2], kStepsOfAKernel);
      if (!next)
        return failure();
      return SmallVector<Value>{n.graph.scalar(n.builder.getI1Type(), 1), next};
    };
    int64_t rounds = (*depth + kStepsOfAKernel - 1) / kStepsOfAKernel;
    if (failed(buildLoop(n, n.integerScalar(rounds), n.none(), {at}, 0, body)))
      return {};
    at = n.results[0];
    n.results.clear();
  }
  Value leaf = at ? n.add(at, -double(nodes)) : at;
  return leaf ? aggregated(n, forest, leaf, n.element(x), aggregate) : leaf;
}

} // namespace tensmith::onnx_import

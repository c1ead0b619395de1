// Continues both branches of an If with the nodes after it; see Branches.h.
#include "frontends/onnx/Branches.h"

#include "compiler/graph/Evaluate.h"
#include "frontends/onnx/NodeImport.h"

#include "llvm/ADT/ScopeExit.h"

using namespace mlir;

namespace tensmith::onnx_import {
namespace {

/// Ifs within the continuation of another: each doubles the nodes.
constexpr int kMostFollowed = 6;

graph::YieldOp yieldOf(Region &region) {
  return cast<graph::YieldOp>(region.front().getTerminator());
}

/// Whether the rank of an If's result is known within each of its branches, if only by following an
/// If within them.
bool diverges(Value result) {
  auto branches = result.getDefiningOp<graph::IfOp>();
  if (!branches || !isa<UnrankedTensorType>(result.getType()))
    return false;
  unsigned number = cast<OpResult>(result).getResultNumber();
  return llvm::all_of(branches->getRegions(), [&](Region &region) {
    Value given = yieldOf(region).getOperand(number);
    bool isInner = given.getParentRegion() == &region && given.hasOneUse();
    return isa<RankedTensorType>(given.getType()) || (isInner && diverges(given));
  });
}

} // namespace

graph::IfOp divergingBranches(ArrayRef<Value> values) {
  for (Value value : values)
    if (value && value.getDefiningOp() && value.getDefiningOp()->use_empty() && diverges(value))
      return value.getDefiningOp<graph::IfOp>();
  return {};
}

Dependents dependentsOf(ArrayRef<std::string> names, const Nodes &nodes, ArrayRef<int> order) {
  Dependents result;
  result.defined.insert(names.begin(), names.end());
  for (int number : order) {
    std::unordered_set<std::string> used;
    addFreeNames(nodes.Get(number), used);
    bool depends =
        llvm::any_of(used, [&](const std::string &name) { return result.defined.count(name); });
    (depends ? result.dependent : result.independent).push_back(number);
    for (const std::string &output : nodes.Get(number).output())
      if (depends && !output.empty())
        result.defined.insert(output);
  }
  return result;
}

/// One branch and what comes after it.
struct Importer::Path {
  Region &region;
  Location place; ///< of the error
  bool isPossible = false;
  std::string error;          ///< why it is not
  SmallVector<Value> results; ///< of the wanted names
};

LogicalResult Importer::importInOrder(const Nodes &nodes, ArrayRef<int> order,
                                      ArrayRef<std::string> wanted, Scope &scope) {
  for (auto [i, number] : llvm::enumerate(order)) {
    const onnx::NodeProto &node = nodes.Get(number);
    if (failed(importNode(node, number, scope)))
      return failure();
    if ((node.op_type() != "If" && node.op_type() != "Squeeze") || followed_ >= kMostFollowed)
      continue;
    SmallVector<Value> results;
    for (const std::string &output : node.output())
      results.push_back(scope.values.lookup(output));
    if (graph::IfOp branches = divergingBranches(results))
      return continueBranches(branches, nodes, order.drop_front(i + 1), wanted, scope);
  }
  return success();
}

LogicalResult Importer::continueBranches(graph::IfOp branches, const Nodes &nodes,
                                         ArrayRef<int> order, ArrayRef<std::string> wanted,
                                         Scope &scope) {
  SmallVector<std::string> given;
  for (const auto &entry : scope.values)
    if (entry.second && entry.second.getDefiningOp() == branches)
      given.push_back(entry.first().str());
  Dependents rest = dependentsOf(given, nodes, order);
  // The others come first, so that both branches can use them.
  std::unordered_set<std::string> used(wanted.begin(), wanted.end());
  for (int number : rest.dependent)
    addFreeNames(nodes.Get(number), used);
  SmallVector<std::string> names(used.begin(), used.end());
  llvm::sort(names);
  if (failed(importInOrder(nodes, rest.independent, names, scope)))
    return failure();
  if (rest.dependent.empty())
    return success();
  Block *block = branches->getBlock();
  branches->moveBefore(block, block->end());
  auto leave = llvm::make_scope_exit([&] { builder.setInsertionPointToEnd(block); });
  names.clear();
  for (const std::string &name : wanted)
    if (rest.defined.count(name) && !llvm::is_contained(names, name))
      names.push_back(name);
  Path yes{branches.getThenRegion(), branches.getLoc()},
      no{branches.getElseRegion(), branches.getLoc()};
  follow(yes, branches, nodes, rest.dependent, names, scope);
  follow(no, branches, nodes, rest.dependent, names, scope);
  if (!yes.isPossible && !no.isPossible)
    return emitError(yes.place) << yes.error;
  if (yes.isPossible && no.isPossible)
    return keepBoth(branches, {&yes, &no}, names, scope);
  Path &kept = yes.isPossible ? yes : no, &other = yes.isPossible ? no : yes;
  return keepOne(branches, kept, graph::describe(other.place) + ": " + other.error, names, scope);
}

void Importer::follow(Path &path, graph::IfOp branches, const Nodes &nodes, ArrayRef<int> order,
                      ArrayRef<std::string> wanted, Scope &scope) {
  ++followed_;
  auto leave = llvm::make_scope_exit([&] { --followed_; });
  ScopedDiagnosticHandler handler(builder.getContext(), [&](Diagnostic &diagnostic) {
    if (path.error.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error) {
      path.error = diagnostic.str();
      path.place = diagnostic.getLocation();
    }
    return success();
  });
  Scope inner;
  inner.parent = &scope;
  inner.opsets = scope.opsets;
  inner.prefix = scope.prefix;
  graph::YieldOp yield = yieldOf(path.region);
  SmallVector<Value> given(yield.getOperands());
  for (const auto &entry : scope.values)
    if (entry.second && entry.second.getDefiningOp() == branches)
      inner.values[entry.first()] = given[cast<OpResult>(entry.second).getResultNumber()];
  yield->erase();
  builder.setInsertionPointToEnd(&path.region.front());
  graph::IfOp next = followed_ < kMostFollowed ? divergingBranches(given) : graph::IfOp();
  path.isPossible = succeeded(next ? continueBranches(next, nodes, order, wanted, inner)
                                   : importInOrder(nodes, order, wanted, inner));
  for (const std::string &name : wanted) {
    const Value *value = inner.find(name);
    path.isPossible &= value && *value;
    path.results.push_back(value ? *value : Value());
  }
}

LogicalResult Importer::keepBoth(graph::IfOp branches, std::array<Path *, 2> paths,
                                 ArrayRef<std::string> wanted, Scope &scope) {
  OperationState state(branches.getLoc(), graph::IfOp::getOperationName());
  state.addOperands(branches.getCondition());
  state.addTypes(SmallVector<Type>(wanted.size(), builder.getNoneType()));
  for (Path *path : paths) {
    builder.setInsertionPointToEnd(&path->region.front());
    builder.create<graph::YieldOp>(branches.getLoc(), path->results);
    state.addRegion()->takeBody(path->region);
  }
  builder.setInsertionPointToEnd(branches->getBlock());
  auto joined = cast<graph::IfOp>(builder.create(state));
  discard(branches);
  SmallVector<Type> types;
  if (failed(joined.inferResults(shapes, types)))
    return failure();
  for (auto [name, result, type] : llvm::zip_equal(wanted, joined.getResults(), types)) {
    result.setType(type);
    scope.values[name] = result;
  }
  return success();
}

/// x, where the condition is as expected; else the run fails: no tensor has sizes of -2.
static Value checked(graph::GraphBuilder &graph, Value x, Value condition, bool expected) {
  graph::GraphCode code(graph);
  bool isScalar = code.isRanked(x) && code.rank(x) == 0;
  Value flat = isScalar ? code.reshape(x, {code.size(1)}) : x;
  Value isAsExpected = expected ? condition : code.unary("graph.not", condition);
  Value sizes = code.where(isAsExpected, code.op("graph.shape", {flat}),
                           graph.scalar(graph.builder.getI64Type(), -2));
  Value same = code.op("graph.dynamic_reshape", {flat, sizes},
                       graph.named("allowzero", graph.builder.getBoolAttr(true)));
  return code.isRanked(x) ? code.reshape(same, code.dims(x)) : same;
}

LogicalResult Importer::keepOne(graph::IfOp branches, Path &path, StringRef reason,
                                ArrayRef<std::string> wanted, Scope &scope) {
  bool whenTrue = &path.region == &branches.getThenRegion();
  Block *block = branches->getBlock();
  block->getOperations().splice(Block::iterator(branches), path.region.front().getOperations());
  builder.setInsertionPointToEnd(block);
  std::string said =
      whenTrue ? " is given false, and its else_branch" : " is given true, and its then_branch";
  auto name = dyn_cast<NameLoc>(branches.getLoc());
  std::string place = (name ? name.getName().str() : "If") + said +
                      " gives what the nodes after it can't take: " + reason.str();
  graph::GraphBuilder graph(
      builder, shapes,
      NameLoc::get(builder.getStringAttr(place), name ? name.getChildLoc() : branches.getLoc()));
  for (auto [wantedName, value] : llvm::zip_equal(wanted, path.results)) {
    if (!isa<TensorType>(value.getType()))
      return emitError(path.place) << reason;
    scope.values[wantedName] = checked(graph, value, branches.getCondition(), whenTrue);
    if (!scope.values[wantedName])
      return failure();
  }
  discard(branches);
  return success();
}

/// Takes an If whose results nothing uses out of the program.
void Importer::discard(graph::IfOp branches) {
  for (Region &region : branches->getRegions()) {
    retire(std::make_unique<Region>());
    retired_.back()->takeBody(region);
  }
  branches->erase();
}

} // namespace tensmith::onnx_import

// If, Loop and Scan: subgraphs become regions, which use the values around them as they are.
#include "frontends/onnx/Loops.h"

using namespace tensmith::graph;
using mlir::Block;
using mlir::NoneType;
using mlir::OpBuilder;
using mlir::OperationState;
using mlir::Region;

namespace tensmith::onnx_import {
namespace {

const onnx::GraphProto *subgraph(NodeImport &n, StringRef name) {
  auto *attribute = n.attribute(name, onnx::AttributeProto::GRAPH);
  if (attribute && attribute->has_g())
    return &attribute->g();
  (void)n.error("has no subgraph '" + name + "'");
  return nullptr;
}

Scope innerScope(NodeImport &n) {
  Scope scope;
  scope.parent = &n.scope;
  scope.opsets = n.scope.opsets;
  scope.prefix = n.scope.prefix + displayName(n.node) + "/";
  return scope;
}

/// Fills a region with a subgraph without inputs.
LogicalResult importBranch(NodeImport &n, const onnx::GraphProto &graph, Region &region) {
  OpBuilder::InsertionGuard guard(n.builder);
  n.builder.setInsertionPointToEnd(&region.emplaceBlock());
  Scope scope = innerScope(n);
  auto values = n.importer.importSubgraph(graph, scope, n.graph.location);
  if (failed(values))
    return failure();
  n.builder.create<YieldOp>(n.graph.location, *values);
  return success();
}

LogicalResult ifRule(NodeImport &n) {
  auto *yes = subgraph(n, "then_branch"), *no = yes ? subgraph(n, "else_branch") : nullptr;
  if (!yes || !no || !n.has(0))
    return failure();
  if (yes->output_size() != no->output_size())
    return n.error("has branches of " + llvm::Twine(yes->output_size()) + " and " +
                   llvm::Twine(no->output_size()) + " outputs");
  // A condition that is known, as an exporter's checks of shapes are, leaves one branch.
  if (auto known = n.constants(n.input(0)); known && known->size() == 1) {
    Scope scope = innerScope(n);
    auto values = n.importer.importSubgraph((*known)[0] ? *yes : *no, scope, n.graph.location);
    return failed(values) ? failure() : n.give(*values);
  }
  OperationState state(n.graph.location, IfOp::getOperationName());
  state.addOperands(n.input(0));
  state.addTypes(SmallVector<Type>(size_t(yes->output_size()), n.builder.getNoneType()));
  Region *thenRegion = state.addRegion(), *elseRegion = state.addRegion();
  if (failed(importBranch(n, *yes, *thenRegion)) || failed(importBranch(n, *no, *elseRegion))) {
    for (auto &region : state.regions)
      n.importer.retire(std::move(region));
    return failure();
  }
  return n.give(finishRegions(n, state));
}

/// The region takes the iteration's number, the condition and the carried values.
LogicalResult loopRule(NodeImport &n) {
  auto *body = subgraph(n, "body");
  if (!body)
    return failure();
  size_t carried = n.inputCount() < 2 ? 0 : n.inputCount() - 2;
  if (size_t(body->input_size()) != carried + 2 || size_t(body->output_size()) < carried + 1)
    return n.error("has a body of " + llvm::Twine(body->input_size()) + " inputs and " +
                   llvm::Twine(body->output_size()) + " outputs for " + llvm::Twine(carried) +
                   " carried values");
  SmallVector<Value> initial;
  for (size_t i = 0; i < carried; ++i)
    initial.push_back(n.maybe(2 + i));
  Value trips = n.maybe(0);
  if (n.has(0) && n.isRanked(trips) && n.rank(trips) == 1)
    trips = n.reshape(trips, {});
  return buildLoop(n, trips, n.maybe(1), initial, size_t(body->output_size()) - carried - 1,
                   [&](mlir::ValueRange arguments) -> FailureOr<SmallVector<Value>> {
                     Scope scope = innerScope(n);
                     for (int i = 0; i < body->input_size(); ++i)
                       scope.values[body->input(i).name()] = arguments[size_t(i)];
                     return n.importer.importSubgraph(*body, scope, n.graph.location);
                   });
}

int64_t entry(const Ints &list, size_t number) { return number < list.size() ? list[number] : 0; }

/// A loop over slices of the scanned inputs; results are stacked by the loop, and then put in
/// place.
struct ScanPlan {
  const onnx::GraphProto *body = nullptr;
  size_t states = 0, scans = 0, first = 0; ///< `first`: of the operands that are states
  Ints inputAxes, inputDirections, outputAxes, outputDirections;
};

FailureOr<ScanPlan> scanPlan(NodeImport &n) {
  ScanPlan plan;
  plan.body = subgraph(n, "body");
  if (!plan.body)
    return failure();
  plan.first = n.opset < 9 ? 1 : 0;
  int64_t scans = n.intAttr("num_scan_inputs");
  if (scans < 1 || size_t(scans) + plan.first > n.inputCount())
    return n.error("num_scan_inputs is " + llvm::Twine(scans) + " of " +
                   llvm::Twine(n.inputCount()) + " operands");
  plan.scans = size_t(scans);
  plan.states = n.inputCount() - plan.first - plan.scans;
  if (size_t(plan.body->input_size()) != plan.states + plan.scans ||
      size_t(plan.body->output_size()) < plan.states)
    return n.error("has a body of other inputs and outputs than its own");
  plan.inputAxes = n.intsAttr("scan_input_axes");
  plan.inputDirections = n.intsAttr(n.opset < 9 ? "directions" : "scan_input_directions");
  plan.outputAxes = n.intsAttr("scan_output_axes");
  plan.outputDirections = n.intsAttr("scan_output_directions");
  return plan;
}

/// The element of a scanned input that belongs to this iteration.
Value scanned(NodeImport &n, const ScanPlan &plan, size_t number, Value x, Value iteration,
              Value last) {
  auto axis = n.axis(entry(plan.inputAxes, number), n.rank(x));
  if (failed(axis))
    return {};
  Value at = entry(plan.inputDirections, number) ? n.sub(last, iteration) : iteration;
  return n("graph.gather", {x, at}, n.integer("axis", *axis));
}

Value placed(NodeImport &n, const ScanPlan &plan, size_t number, Value stacked) {
  if (!stacked || !n.isRanked(stacked))
    return stacked;
  if (entry(plan.outputDirections, number))
    stacked = n("graph.reverse", {stacked}, n.integers("axes", {0}));
  auto axis = n.axis(entry(plan.outputAxes, number), n.rank(stacked));
  if (failed(axis) || *axis == 0)
    return failed(axis) ? Value() : stacked;
  Ints permutation; // dimension 0 goes to `axis`
  for (int64_t dim = 1; dim < n.rank(stacked); ++dim)
    permutation.push_back(dim);
  permutation.insert(permutation.begin() + *axis, 0);
  return n.transpose(stacked, permutation);
}

/// An operand of unknown rank, as what comes from a sequence is, has the rank that the body
/// declares for one element of it, and one more.
Value ranked(NodeImport &n, const ScanPlan &plan, size_t number, Value x) {
  const auto &type = plan.body->input(int(number)).type().tensor_type();
  if (!x || n.isRanked(x) || !type.has_shape())
    return x;
  Value shape = n.reshape(n("graph.shape", {x}), {n.size(type.shape().dim_size() + 1)});
  return shape ? n("graph.dynamic_reshape", {x, shape}) : Value();
}

/// One scan over the given operands (states, then scanned).
FailureOr<SmallVector<Value>> scan(NodeImport &n, const ScanPlan &plan, ArrayRef<Value> given) {
  SmallVector<Value> operands(given);
  for (size_t i = plan.states; i < operands.size(); ++i)
    operands[i] = ranked(n, plan, i, operands[i]);
  for (Value x : ArrayRef(operands).drop_front(plan.states))
    if (!x || !n.isRanked(x) || n.rank(x) == 0)
      return n.error("a scanned operand has no known rank, or none to scan");
  auto axis = n.axis(entry(plan.inputAxes, 0), n.rank(operands[plan.states]));
  if (failed(axis))
    return failure();
  Value trips = n.sizeOf(operands[plan.states], *axis), last = n.add(trips, -1);
  size_t outputs = size_t(plan.body->output_size());
  auto body = [&](mlir::ValueRange arguments) -> FailureOr<SmallVector<Value>> {
    Scope scope = innerScope(n);
    for (size_t i = 0; i < plan.states + plan.scans; ++i) {
      Value value = i < plan.states
                        ? Value(arguments[2 + i])
                        : scanned(n, plan, i - plan.states, operands[i], arguments[0], last);
      if (!value)
        return failure();
      scope.values[plan.body->input(int(i)).name()] = value;
    }
    auto values = n.importer.importSubgraph(*plan.body, scope, n.graph.location);
    if (succeeded(values))
      values->insert(values->begin(), n.graph.scalar(n.builder.getI1Type(), 1));
    return values;
  };
  if (failed(buildLoop(n, trips, n.none(), ArrayRef(operands).take_front(plan.states),
                       outputs - plan.states, body)))
    return failure();
  SmallVector<Value> results(n.results);
  for (size_t i = plan.states; i < outputs; ++i)
    results[i] = placed(n, plan, i - plan.states, results[i]);
  return results;
}

/// Opset 8 scans each element of a batch, the first dimension of all: a loop around the scan, which
/// stacks its results. sequence_lens are not supported.
LogicalResult batchedScan(NodeImport &n, const ScanPlan &plan) {
  if (n.has(0))
    return n.error("sequence_lens are not supported");
  SmallVector<Value> operands(n.inputs.begin() + plan.first, n.inputs.end());
  if (operands.empty() || !operands[0] || !n.isRanked(operands[0]) || n.rank(operands[0]) == 0)
    return n.error("operand 1 has no known rank, or none");
  auto element = [&](mlir::ValueRange arguments) -> FailureOr<SmallVector<Value>> {
    SmallVector<Value> own;
    for (Value x : operands)
      own.push_back(n("graph.gather", {x, arguments[0]}, n.integer("axis", 0)));
    auto results = scan(n, plan, own);
    if (succeeded(results))
      results->insert(results->begin(), n.graph.scalar(n.builder.getI1Type(), 1));
    return results;
  };
  return buildLoop(n, n.sizeOf(operands[0], 0), n.none(), {}, size_t(plan.body->output_size()),
                   element);
}

LogicalResult scanRule(NodeImport &n) {
  auto plan = scanPlan(n);
  if (failed(plan))
    return failure();
  if (n.opset < 9)
    return batchedScan(n, *plan);
  auto results = scan(n, *plan, n.inputs);
  return failed(results) ? failure() : n.give(*results);
}

constexpr Operator kOperators[] = {{"If", ifRule}, {"Loop", loopRule}, {"Scan", scanRule}};

} // namespace

std::span<const Operator> controlFlowOperators() { return kOperators; }

} // namespace tensmith::onnx_import

// Gradient of the preview training domain: the derivative of y's sum with respect to values that y
// was computed from, in reverse.
//
// Walks back from y over the graph as it has been imported. Each operator hands its result's
// gradient on to its operands; what an operand was broadcast to is summed up again.
#include "compiler/graph/Evaluate.h"
#include "frontends/onnx/NodeImport.h"

#include "llvm/ADT/DenseSet.h"

namespace tensmith::onnx_import {
namespace {

using Values = SmallVector<Value>;

/// The gradients of an operator's operands from its result's; null for one that has none. Nothing
/// for an operator that has no rule.
std::optional<Values> derivative(NodeImport &n, mlir::Operation *op, Value g) {
  StringRef name = op->getName().getStringRef();
  auto x = [&](unsigned i) { return Value(op->getOperand(i)); };
  Value y = op->getResult(0);
  auto negated = [&](Value v) { return n.unary("graph.neg", v); };
  auto complement = [&](Value v) { return n.add(negated(v), 1); };
  if (name == "graph.add")
    return Values{g, g};
  if (name == "graph.sub")
    return Values{g, negated(g)};
  if (name == "graph.mul")
    return Values{n.mul(g, x(1)), n.mul(g, x(0))};
  if (name == "graph.div")
    return Values{n.div(g, x(1)), negated(n.div(n.mul(g, y), x(1)))};
  if (name == "graph.neg")
    return Values{negated(g)};
  if (name == "graph.exp")
    return Values{n.mul(g, y)};
  if (name == "graph.log")
    return Values{n.div(g, x(0))};
  if (name == "graph.sqrt")
    return Values{n.div(n.mul(g, 0.5), y)};
  if (name == "graph.sin")
    return Values{n.mul(g, n.unary("graph.cos", x(0)))};
  if (name == "graph.cos")
    return Values{negated(n.mul(g, n.unary("graph.sin", x(0))))};
  if (name == "graph.tanh")
    return Values{n.mul(g, complement(n.mul(y, y)))};
  if (name == "graph.sigmoid")
    return Values{n.mul(g, n.mul(y, complement(y)))};
  if (name == "graph.abs")
    return Values{n.mul(g, n.unary("graph.sign", x(0)))};
  if (name == "graph.max" || name == "graph.min") { // of equal operands the first
    Value isFirst = name == "graph.max" ? n("graph.greater_or_equal", {x(0), x(1)})
                                        : n("graph.less_or_equal", {x(0), x(1)});
    Value zero = n.scalar(g, 0);
    return Values{n.where(isFirst, g, zero), n.where(isFirst, zero, g)};
  }
  if (name == "graph.where")
    return Values{Value(), n.where(x(0), g, n.scalar(g, 0)), n.where(x(0), n.scalar(g, 0), g)};
  if (name == "graph.reshape")
    return Values{n.reshape(g, n.dims(x(0)))};
  if (name == "graph.broadcast")
    return Values{g};
  if (name == "graph.matmul" && n.rank(x(0)) == 2 && n.rank(x(1)) == 2)
    return Values{n.matmul(g, n.transpose(x(1), {1, 0})), n.matmul(n.transpose(x(0), {1, 0}), g)};
  return std::nullopt;
}

/// A gradient of the shape that an operand was broadcast to, as one of the operand's own shape.
Value unbroadcast(NodeImport &n, Value g, Value operand) {
  if (!g)
    return g;
  auto from = n.dims(g), to = n.dims(operand);
  size_t added = from.size() - to.size();
  Ints summed;
  for (size_t dim = 0; dim < from.size(); ++dim)
    if (dim < added || !n.graph.shapes.equal(from[dim], to[dim - added]))
      summed.push_back(int64_t(dim));
  return summed.empty() ? g : n.reshape(n.reduce("graph.reduce_sum", g, summed, false), to);
}

/// The operators that y is computed by from any of the xs, each before those that use it.
void collect(Value value, const llvm::DenseSet<Value> &xs, llvm::DenseMap<Value, bool> &depends,
             llvm::SmallVectorImpl<mlir::Operation *> &order) {
  SmallVector<Value> path{value};
  while (!path.empty()) {
    Value at = path.back();
    mlir::Operation *op = at.getDefiningOp();
    if (xs.contains(at) || !op || depends.contains(at)) {
      depends.try_emplace(at, xs.contains(at));
      path.pop_back();
      continue;
    }
    size_t before = path.size();
    for (Value operand : op->getOperands())
      if (!depends.contains(operand))
        path.push_back(operand);
    if (path.size() != before)
      continue;
    bool any = llvm::any_of(op->getOperands(), [&](Value v) { return depends.lookup(v); });
    for (Value result : op->getResults())
      depends[result] = any;
    if (any)
      order.push_back(op);
    path.pop_back();
  }
}

LogicalResult gradient(NodeImport &n) {
  auto names = n.stringsAttr("xs");
  const Value *y = n.scope.find(n.stringAttr("y"));
  if (names.empty() || !y || !*y || names.size() > n.inputCount())
    return n.error("has no xs, or no y that is computed before it");
  llvm::DenseSet<Value> xs;
  for (auto [i, name] : llvm::enumerate(names)) {
    const Value *x = n.scope.find(name);
    if (!x || !*x || *x != n.input(i))
      return n.error("operand " + llvm::Twine(i) + " is not '" + name +
                     "'; a gradient elsewhere than where y was computed is not supported");
    xs.insert(*x);
  }
  llvm::DenseMap<Value, bool> depends;
  SmallVector<mlir::Operation *> order;
  collect(*y, xs, depends, order);
  llvm::DenseMap<Value, Value> gradients;
  if (!n.isRanked(*y))
    return n.error("y has no known rank");
  gradients[*y] = n.filled(n.element(*y), n.dims(*y), 1);
  for (mlir::Operation *op : llvm::reverse(order)) {
    Value g = gradients.lookup(op->getResult(0));
    if (!g)
      continue;
    if (llvm::any_of(op->getOperands(), [](Value v) { return !graph::GraphCode::isRanked(v); }))
      return n.error("a value that y is computed from has no known rank");
    auto parts = derivative(n, op, g);
    if (!parts)
      return n.error("'" + op->getName().getStringRef() + "' (" + graph::describe(op->getLoc()) +
                     ") has no derivative here");
    for (auto [operand, part] : llvm::zip_equal(op->getOperands(), *parts)) {
      if (!part || !depends.lookup(operand))
        continue;
      Value own = unbroadcast(n, part, operand);
      Value &sum = gradients[operand];
      sum = sum ? n.add(sum, own) : own;
    }
  }
  SmallVector<Value> results;
  for (size_t i = 0; i < names.size(); ++i) {
    Value x = n.input(i), g = gradients.lookup(x);
    results.push_back(g ? g : n.filled(n.element(x), n.dims(x), 0));
  }
  return n.give(results);
}

constexpr Operator kOperators[] = {{"Gradient", gradient, "ai.onnx.preview.training"}};

} // namespace

std::span<const Operator> gradientOperators() { return kOperators; }

} // namespace tensmith::onnx_import

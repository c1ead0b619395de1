// GELU's variants and the activations that fused operators end with; see Contrib.h.
#include "frontends/onnx/Contrib.h"
#include "frontends/onnx/Schemas.h"

#include <numbers>

namespace tensmith::onnx_import {

LogicalResult importAs(NodeImport &n, std::string_view standard) {
  n.opset = newestOpset("");
  return findRule("", standard)(n);
}

LogicalResult needOperands(NodeImport &n, size_t count, size_t ranked) {
  for (size_t i = 0; i < count; ++i)
    if (!n.has(i))
      return n.error("operand " + llvm::Twine(i) + " is missing");
  for (size_t i = 0; i < ranked; ++i)
    if (failed(n.needRank(i)))
      return failure();
  return success();
}

Value channelsFirst(NodeImport &n, Value x) {
  if (!x || n.rank(x) < 2)
    return x;
  Ints order{0, n.rank(x) - 1};
  for (int64_t dim = 1; dim < n.rank(x) - 1; ++dim)
    order.push_back(dim);
  return n.transpose(x, order);
}

Value channelsLast(NodeImport &n, Value x) {
  if (!x || n.rank(x) < 2)
    return x;
  Ints order{0};
  for (int64_t dim = 2; dim < n.rank(x); ++dim)
    order.push_back(dim);
  order.push_back(1);
  return n.transpose(x, order);
}

Value erfGelu(NodeImport &n, Value x) {
  Value inner = n.unary("graph.erf", n.mul(x, 1 / std::numbers::sqrt2));
  return n.mul(n.mul(x, 0.5), n.add(inner, 1)); // half of x first: twice the largest overflows
}

Value tanhGelu(NodeImport &n, Value x) {
  Value cube = n.mul(n.mul(n.mul(x, x), x), 0.044715);
  Value inner = n.unary("graph.tanh", n.mul(n.add(x, cube), std::sqrt(2 / std::numbers::pi)));
  return n.mul(n.mul(x, 0.5), n.add(inner, 1)); // half of x first: twice the largest overflows
}

static Value clamped(NodeImport &n, Value x, double low, double high) {
  if (!x)
    return x;
  Value atLeast = n("graph.max", {x, n.scalar(x, low)});
  return atLeast ? n("graph.min", {atLeast, n.scalar(x, high)}) : atLeast;
}

static Value softmaxed(NodeImport &n, Value x) {
  auto axis = n.axis(n.intAttr("activation_axis", -1), n.rank(x));
  return succeeded(axis) ? n("graph.softmax", {x}, n.integer("axis", *axis)) : Value();
}

Value activated(NodeImport &n, Value x, ArrayRef<double> parameters) {
  std::string name = n.stringAttr("activation");
  auto parameter = [&](size_t i, double otherwise) {
    return i < parameters.size() ? parameters[i] : otherwise;
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!x || name.empty())
    return x;
  if (name == "Relu")
    return n("graph.max", {x, n.scalar(x, 0)});
  if (name == "Tanh")
    return n.unary("graph.tanh", x);
  if (name == "Sigmoid")
    return n.unary("graph.sigmoid", x);
  if (name == "LeakyRelu")
    return n.where(n("graph.less", {x, n.scalar(x, 0)}), n.mul(x, parameter(0, 0.01)), x);
  if (name == "Clip")
    return clamped(n, x, parameter(0, -kInfinity), parameter(1, kInfinity));
  if (name == "HardSigmoid")
    return clamped(n, n.add(n.mul(x, parameter(0, 0.2)), parameter(1, 0.5)), 0, 1);
  if (name == "HardSwish")
    return n.mul(x, clamped(n, n.add(n.mul(x, parameter(0, 1.0 / 6)), parameter(1, 0.5)), 0, 1));
  if (name == "Softsign")
    return n.div(x, n.add(n.unary("graph.abs", x), 1));
  if (name == "Gelu")
    return erfGelu(n, x);
  if (name == "Silu" || name == "silu")
    return n.mul(x, n.unary("graph.sigmoid", x));
  if (name == "Softmax")
    return softmaxed(n, x);
  if (name == "none")
    return x;
  (void)n.error("activation '" + name + "' is none that is known");
  return {};
}

namespace {

template <Value (*formula)(NodeImport &, Value)> LogicalResult biased(NodeImport &n) {
  if (failed(needOperands(n, 1)))
    return failure();
  Value x = n.widen(n.input(0));
  if (n.has(1))
    x = n.add(x, n.cast(n.input(1), n.element(x)));
  return n.give({n.cast(formula(n, x), n.element(n.input(0)))});
}

Value quickGelu(NodeImport &n, Value x) {
  return n.mul(x, n.unary("graph.sigmoid", n.mul(x, n.floatAttr("alpha", 1.702))));
}

/// softmax(x + bias) over all dimensions from `axis` on as one.
LogicalResult biasSoftmax(NodeImport &n) {
  if (failed(needOperands(n, 2, 2)))
    return failure();
  Value x = n.input(0), bias = n.input(1);
  auto dims = n.dims(x);
  auto axis = n.axis(n.intAttr("axis", 1), int64_t(dims.size()));
  if (failed(axis))
    return failure();
  // An inner bias has a row for each of the first rows of x: its dimensions repeat within them.
  if (n.intAttr("is_inner_broadcast") && n.rank(bias) < int64_t(dims.size()))
    return n.error("an inner bias has not the rank of the data");
  Value sum = n.add(x, bias);
  auto &shapes = n.graph.shapes;
  ArrayRef<AffineExpr> all(dims);
  Value flat = n.reshape(sum, {shapes.product(all.take_front(size_t(*axis))),
                               shapes.product(all.drop_front(size_t(*axis)))});
  if (!flat)
    return failure();
  return n.give({n.reshape(n("graph.softmax", {flat}, n.integer("axis", 1)), dims)});
}

constexpr Operator kOperators[] = {
    {"Gelu", biased<erfGelu>, kContrib},      {"BiasGelu", biased<erfGelu>, kContrib},
    {"FastGelu", biased<tanhGelu>, kContrib}, {"QuickGelu", biased<quickGelu>, kContrib},
    {"BiasSoftmax", biasSoftmax, kContrib},
};

} // namespace

std::span<const Operator> contribActivationOperators() { return kOperators; }

} // namespace tensmith::onnx_import

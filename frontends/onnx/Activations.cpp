// Activation functions, as arithmetic: kernels fuse it anyway.
#include "frontends/onnx/NodeImport.h"

#include <numbers>

namespace tensmith::onnx_import {
namespace {

/// A rule over the one operand x.
template <Value (*formula)(NodeImport &, Value)> LogicalResult of(NodeImport &n) {
  return n.has(0) ? n.give({formula(n, n.input(0))}) : n.error("operand 0 is missing");
}

/// The same, for what takes several steps: computed in f32 where x is a half, and rounded once.
template <Value (*formula)(NodeImport &, Value)> LogicalResult ofWide(NodeImport &n) {
  return n.has(0) ? n.give({n.cast(formula(n, n.widen(n.input(0))), n.element(n.input(0)))})
                  : n.error("operand 0 is missing");
}

Value maximum(NodeImport &n, Value a, double b) { return n("graph.max", {a, n.scalar(a, b)}); }
Value minimum(NodeImport &n, Value a, double b) { return n("graph.min", {a, n.scalar(a, b)}); }
Value compare(NodeImport &n, StringRef name, Value a, double b) {
  return n(name, {a, n.scalar(a, b)});
}
Value negative(NodeImport &n, Value x) { return compare(n, "graph.less", x, 0); }

Value relu(NodeImport &n, Value x) { return maximum(n, x, 0); }

Value leakyRelu(NodeImport &n, Value x) {
  return n.where(negative(n, x), n.mul(x, n.floatAttr("alpha", 0.01)), x);
}

/// alpha (e^x - 1) below zero.
Value elu(NodeImport &n, Value x) {
  Value below = n.mul(n.add(n.unary("graph.exp", minimum(n, x, 0)), -1), n.floatAttr("alpha", 1));
  return n.where(negative(n, x), below, x);
}

Value selu(NodeImport &n, Value x) {
  double alpha = n.floatAttr("alpha", 1.6732632), gamma = n.floatAttr("gamma", 1.0507010);
  Value below = n.mul(n.add(n.unary("graph.exp", minimum(n, x, 0)), -1), alpha);
  return n.mul(n.where(n("graph.less_or_equal", {x, n.scalar(x, 0)}), below, x), gamma);
}

Value celu(NodeImport &n, Value x) {
  double alpha = n.floatAttr("alpha", 1);
  Value scaled = n.div(minimum(n, x, 0), n.scalar(x, alpha));
  Value below = n.mul(n.add(n.unary("graph.exp", scaled), -1), alpha);
  return n.add(maximum(n, x, 0), below);
}

Value gelu(NodeImport &n, Value x) {
  Value inner;
  if (n.stringAttr("approximate", "none") == "tanh") {
    Value cube = n.mul(n.mul(n.mul(x, x), x), 0.044715);
    inner = n.unary("graph.tanh", n.mul(n.add(x, cube), std::sqrt(2 / std::numbers::pi)));
  } else {
    inner = n.unary("graph.erf", n.mul(x, 1 / std::numbers::sqrt2));
  }
  return n.mul(n.mul(x, 0.5), n.add(inner, 1)); // half of x first: twice the largest overflows
}

/// log(1 + e^x), without overflow.
Value softplus(NodeImport &n, Value x) {
  Value magnitude = n.unary("graph.neg", n.unary("graph.abs", x));
  return n.add(maximum(n, x, 0), n.unary("graph.log1p", n.unary("graph.exp", magnitude)));
}

Value softsign(NodeImport &n, Value x) { return n.div(x, n.add(n.unary("graph.abs", x), 1)); }

Value hardSigmoid(NodeImport &n, Value x) {
  Value line = n.add(n.mul(x, n.floatAttr("alpha", 0.2)), n.floatAttr("beta", 0.5));
  return maximum(n, minimum(n, line, 1), 0);
}

Value hardSwish(NodeImport &n, Value x) {
  return n.mul(x, maximum(n, minimum(n, n.add(n.mul(x, 1.0 / 6), 0.5), 1), 0));
}

Value mish(NodeImport &n, Value x) { return n.mul(x, n.unary("graph.tanh", softplus(n, x))); }

Value swish(NodeImport &n, Value x) {
  double alpha = n.floatAttr("alpha", 1);
  return n.mul(x, n.unary("graph.sigmoid", alpha == 1 ? x : n.mul(x, alpha)));
}

Value shrink(NodeImport &n, Value x) {
  double lambda = n.floatAttr("lambd", 0.5), bias = n.floatAttr("bias", 0);
  Value inner = n.where(compare(n, "graph.greater", x, lambda), n.add(x, -bias), n.scalar(x, 0));
  return n.where(compare(n, "graph.less", x, -lambda), n.add(x, bias), inner);
}

Value thresholdedRelu(NodeImport &n, Value x) {
  return n.where(compare(n, "graph.greater", x, n.floatAttr("alpha", 1)), x, n.scalar(x, 0));
}

Value prelu(NodeImport &n, Value x) {
  // Before opset 7 slopes were of channels, without broadcasting.
  if (n.opset < 7 && n.has(1) && n.isRanked(x) && n.isRanked(n.input(1)) && n.rank(x) > 1 &&
      n.rank(n.input(1)) == 1 && NodeImport::known(n.dims(n.input(1))[0]) != 1)
    n.inputs[1] = n.alongDimension(n.input(1), 1, n.rank(x));
  return n.has(1) ? n.where(negative(n, x), n.mul(x, n.input(1)), x) : Value();
}

constexpr Operator kOperators[] = {
    {"Relu", of<relu>},
    {"LeakyRelu", of<leakyRelu>},
    {"Elu", ofWide<elu>},
    {"Selu", ofWide<selu>},
    {"Celu", ofWide<celu>},
    {"Gelu", ofWide<gelu>},
    {"Softplus", ofWide<softplus>},
    {"Softsign", ofWide<softsign>},
    {"HardSigmoid", ofWide<hardSigmoid>},
    {"HardSwish", ofWide<hardSwish>},
    {"Mish", ofWide<mish>},
    {"Swish", ofWide<swish>},
    {"Shrink", of<shrink>},
    {"ThresholdedRelu", of<thresholdedRelu>},
    {"PRelu", of<prelu>},
};

} // namespace

std::span<const Operator> activationOperators() { return kOperators; }

} // namespace tensmith::onnx_import

// The optimisers of the preview training domain, as arithmetic on each tensor that they update.
//
// Operands: the learning rate, the number of updates so far, and then n tensors, their n gradients
// and n of each state; results: the n tensors and n of each state.
#include "frontends/onnx/NodeImport.h"

namespace tensmith::onnx_import {
namespace {

constexpr std::string_view kDomain = "ai.onnx.preview.training";

/// One tensor of those that a node updates.
struct Update {
  NodeImport &n;
  Value rate, step;    // scalars of the tensor's element type
  Value isFirst;       // whether there was no update before
  Value x, g;          // the tensor, and its gradient with that of the regularisation
  ArrayRef<Value> old; // the states
};

Value blend(const Update &u, double share, Value a, Value b) {
  return u.n.add(u.n.mul(a, share), u.n.mul(b, 1 - share));
}

SmallVector<Value> adagrad(const Update &u) {
  NodeImport &n = u.n;
  Value rate = n.div(u.rate, n.add(n.mul(u.step, n.floatAttr("decay_factor")), 1));
  Value sum = n.add(u.old[0], n.mul(u.g, u.g));
  Value root = n.add(n.unary("graph.sqrt", sum), n.floatAttr("epsilon"));
  return {n.sub(u.x, n.div(n.mul(rate, u.g), root)), sum};
}

SmallVector<Value> adam(const Update &u) {
  NodeImport &n = u.n;
  double alpha = n.floatAttr("alpha"), beta = n.floatAttr("beta");
  Value v = blend(u, alpha, u.old[0], u.g), h = blend(u, beta, u.old[1], n.mul(u.g, u.g));
  auto bias = [&](double share) {
    return n.sub(n.scalar(u.step, 1), n("graph.pow", {n.scalar(u.step, share), u.step}));
  };
  Value corrected = n.div(n.mul(u.rate, n.unary("graph.sqrt", bias(beta))), bias(alpha));
  Value rate = n.where(u.isFirst, u.rate, corrected);
  Value root = n.add(n.unary("graph.sqrt", h), n.floatAttr("epsilon"));
  Value x = n.sub(u.x, n.mul(rate, n.div(v, root)));
  return {n.mul(x, 1 - n.floatAttr("norm_coefficient_post")), v, h};
}

SmallVector<Value> momentum(const Update &u) {
  NodeImport &n = u.n;
  double alpha = n.floatAttr("alpha");
  Value share = n.where(u.isFirst, n.scalar(u.x, 1), n.scalar(u.x, n.floatAttr("beta")));
  Value v = n.add(n.mul(u.old[0], alpha), n.mul(share, u.g));
  bool isNesterov = n.stringAttr("mode") == "nesterov";
  return {n.sub(u.x, n.mul(u.rate, isNesterov ? n.add(u.g, n.mul(v, alpha)) : v)), v};
}

template <size_t states, SmallVector<Value> (*rule)(const Update &)>
LogicalResult optimise(NodeImport &n) {
  const size_t kinds = 2 + states;
  const size_t count = n.inputCount() < 2 ? 0 : (n.inputCount() - 2) / kinds;
  if (count == 0 || count * kinds + 2 != n.inputCount() || llvm::is_contained(n.inputs, Value()))
    return n.error("has " + llvm::Twine(n.inputCount()) + " operands, not 2 and " +
                   llvm::Twine(kinds) + " for each tensor");
  SmallVector<Value> results((1 + states) * count);
  for (size_t i = 0; i < count; ++i) {
    auto operand = [&](size_t kind) { return n.input(2 + kind * count + i); };
    Value x = operand(0);
    SmallVector<Value> old;
    for (size_t state = 0; state < states; ++state)
      old.push_back(operand(2 + state));
    Value step = n.cast(n.input(1), n.element(x));
    Value isFirst = n("graph.less_or_equal", {step, n.scalar(x, 0)});
    Value gradient = n.add(n.mul(x, n.floatAttr("norm_coefficient")), operand(1));
    SmallVector<Value> updated =
        rule({n, n.cast(n.input(0), n.element(x)), step, isFirst, x, gradient, old});
    for (size_t kind = 0; kind <= states; ++kind)
      results[kind * count + i] = updated[kind];
  }
  return n.give(results);
}

constexpr Operator kOperators[] = {
    {"Adagrad", optimise<1, adagrad>, kDomain},
    {"Adam", optimise<2, adam>, kDomain},
    {"Momentum", optimise<1, momentum>, kDomain},
};

} // namespace

std::span<const Operator> trainingOperators() { return kOperators; }

} // namespace tensmith::onnx_import

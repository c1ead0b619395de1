// Reductions over axes, and operators along one.
#include "frontends/onnx/NodeImport.h"
#include "frontends/onnx/OperatorName.h"

namespace tensmith::onnx_import {
namespace {

struct Reduced {
  Value x;
  Ints axes;
  bool keepdims = true;
  bool isIdentity = false; ///< noop_with_empty_axes
};

/// Axes are an attribute, or an operand since opset 13 (ReduceSum) and 18; none are all.
FailureOr<Reduced> reduction(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  Reduced result{n.input(0), n.intsAttr("axes"), n.intAttr("keepdims", 1) != 0};
  if (n.has(1)) {
    auto known = n.constants(n.input(1));
    if (!known)
      return n.error("the axes are computed by the model, which is not supported");
    result.axes = *known;
  }
  if (result.axes.empty()) {
    result.isIdentity = n.intAttr("noop_with_empty_axes") != 0;
    result.axes = llvm::to_vector(llvm::seq<int64_t>(0, n.rank(result.x)));
    return result;
  }
  auto axes = n.axes(result.axes, n.rank(result.x));
  if (failed(axes))
    return failure();
  result.axes = *axes;
  return result;
}

Value identity(NodeImport &, Value x) { return x; }
Value absolute(NodeImport &n, Value x) { return n.unary("graph.abs", x); }
Value square(NodeImport &n, Value x) { return n.mul(x, x); }
Value squareRoot(NodeImport &n, Value x) { return n.unary("graph.sqrt", x); }
Value logarithm(NodeImport &n, Value x) { return n.unary("graph.log", x); }

using Step = Value (*)(NodeImport &, Value);

/// after(reduce(before(x)))
template <OperatorName name, Step before = identity, Step after = identity>
LogicalResult reduce(NodeImport &n) {
  auto r = reduction(n);
  if (failed(r))
    return failure();
  Value x = before(n, r->x);
  if (!r->isIdentity)
    x = n.reduce(name, x, r->axes, r->keepdims);
  return n.give({after(n, x)});
}

/// Booleans' extremes are those of 0 and 1.
template <OperatorName name> LogicalResult extreme(NodeImport &n) {
  if (!n.has(0) || !n.element(n.input(0)).isInteger(1))
    return reduce<name>(n);
  auto r = reduction(n);
  if (failed(r) || r->isIdentity)
    return failed(r) ? failure() : n.give({r->x});
  Value bytes = n.cast(r->x, n.builder.getIntegerType(8, /*isSigned=*/false));
  return n.give({n.cast(n.reduce(name, bytes, r->axes, r->keepdims), n.builder.getI1Type())});
}

LogicalResult reduceMean(NodeImport &n) {
  auto r = reduction(n);
  if (failed(r) || r->isIdentity)
    return failed(r) ? failure() : n.give({r->x});
  Value mean = n.mean(r->x, r->axes);
  if (!mean || r->keepdims)
    return n.give({mean});
  NodeImport::Dims kept;
  for (auto [dim, size] : llvm::enumerate(n.dims(r->x)))
    if (!llvm::is_contained(r->axes, int64_t(dim)))
      kept.push_back(size);
  return n.give({n.reshape(mean, kept)});
}

/// log(sum(e^x)), shifted by the largest so that it does not overflow.
LogicalResult reduceLogSumExp(NodeImport &n) {
  auto r = reduction(n);
  if (failed(r) || r->isIdentity)
    return failed(r) ? failure() : n.give({r->x});
  Value most = n.reduce("graph.reduce_max", r->x, r->axes, true);
  Value lowest = n.scalar(r->x, std::numeric_limits<float>::lowest());
  Value highest = n.scalar(r->x, std::numeric_limits<float>::max());
  if (n.element(r->x).isF16()) {
    lowest = n.scalar(r->x, -65504);
    highest = n.scalar(r->x, 65504);
  }
  Value shift = n("graph.min", {n("graph.max", {most, lowest}), highest});
  Value sum = n.reduce("graph.reduce_sum", n.unary("graph.exp", n.sub(r->x, shift)), r->axes, true);
  Value result = n.add(n.unary("graph.log", sum), shift);
  return n.give({r->keepdims ? result : n.reduce("graph.reduce_sum", result, r->axes, false)});
}

template <OperatorName name> LogicalResult argReduce(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  auto axis = n.axis(n.intAttr("axis"), n.rank(n.input(0)));
  if (failed(axis))
    return failure();
  return n.give({n(name, {n.input(0)},
                   {n.integer("axis", *axis), n.boolean("keepdims", n.intAttr("keepdims", 1)),
                    n.boolean("last", n.intAttr("select_last_index"))})});
}

template <OperatorName name> LogicalResult cumulative(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  auto number = n.constants(n.input(1));
  if (!number || number->size() != 1)
    return n.error("the axis is computed by the model, which is not supported");
  auto axis = n.axis((*number)[0], n.rank(n.input(0)));
  if (failed(axis))
    return failure();
  return n.give({n(name, {n.input(0)},
                   {n.integer("axis", *axis), n.boolean("exclusive", n.intAttr("exclusive")),
                    n.boolean("reverse", n.intAttr("reverse"))})});
}

constexpr Operator kOperators[] = {
    {"ReduceSum", reduce<"graph.reduce_sum">},
    {"ReduceProd", reduce<"graph.reduce_prod">},
    {"ReduceMax", extreme<"graph.reduce_max">},
    {"ReduceMin", extreme<"graph.reduce_min">},
    {"ReduceMean", reduceMean},
    {"ReduceL1", reduce<"graph.reduce_sum", absolute>},
    {"ReduceL2", reduce<"graph.reduce_sum", square, squareRoot>},
    {"ReduceLogSum", reduce<"graph.reduce_sum", identity, logarithm>},
    {"ReduceSumSquare", reduce<"graph.reduce_sum", square>},
    {"ReduceLogSumExp", reduceLogSumExp},
    {"ArgMax", argReduce<"graph.arg_max">},
    {"ArgMin", argReduce<"graph.arg_min">},
    {"CumSum", cumulative<"graph.cumsum">},
    {"CumProd", cumulative<"graph.cumprod">},
};

} // namespace

std::span<const Operator> reductionOperators() { return kOperators; }

} // namespace tensmith::onnx_import

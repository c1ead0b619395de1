// Reductions over axes, and operators along one.
#include "frontends/onnx/ComputedAxes.h"
#include "frontends/onnx/Loops.h"
#include "frontends/onnx/OperatorName.h"
#include "frontends/onnx/Widened.h"

namespace tensmith::onnx_import {
namespace {

struct Reduced {
  Value x;
  Ints axes;
  bool keepdims = true;
  bool isIdentity = false; ///< noop_with_empty_axes
  Value computedAxes;      ///< a vector, where the model computes them
  bool noneAreAll = false; ///< of those, if there turn out to be none
};

/// Axes are an attribute, or an operand since opset 13 (ReduceSum) and 18; none are all.
FailureOr<Reduced> reduction(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  Reduced result{n.input(0), n.intsAttr("axes"), n.intAttr("keepdims", 1) != 0, false, {}};
  if (n.has(1)) {
    if (failed(n.needRank(1)))
      return failure();
    auto known = n.constants(n.input(1));
    auto dims = n.dims(n.input(1));
    if (known)
      result.axes = *known;
    else if (dims.size() != 1)
      return n.error("the axes are no vector");
    else if (NodeImport::known(dims[0]) != 0) {
      result.computedAxes = n.input(1);
      result.noneAreAll = !n.intAttr("noop_with_empty_axes");
      return result;
    }
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

/// x with `step` applied along each dimension that is among the axes, which the model computes.
Value alongComputedAxes(NodeImport &n, Value x, Value axes, bool noneAreAll,
                        llvm::function_ref<Value(Value x, int64_t dim)> step) {
  int64_t rank = n.rank(x);
  Value among = amongAxes(n, axes, n.size(rank), noneAreAll);
  for (int64_t dim = 0; dim < rank && x && among; ++dim) {
    Value chosen = n.reshape(n.slice(among, {dim}, {n.size(1)}), {});
    x = buildIf(n, chosen, [&] { return step(x, dim); }, [&] { return x; });
  }
  return x;
}

Value reduceOver(NodeImport &n, StringRef name, Value x, const Reduced &r, bool keepdims) {
  if (!r.computedAxes || !x)
    return n.reduce(name, x, r.axes, keepdims);
  x = alongComputedAxes(n, x, r.computedAxes, r.noneAreAll,
                        [&](Value x, int64_t dim) { return n.reduce(name, x, {dim}, true); });
  return keepdims || !x ? x : removeComputedAxes(n, x, r.computedAxes, r.noneAreAll);
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
    x = reduceOver(n, name, x, *r, r->keepdims);
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
  return n.give({n.cast(reduceOver(n, name, bytes, *r, r->keepdims), n.builder.getI1Type())});
}

LogicalResult reduceMean(NodeImport &n) {
  auto r = reduction(n);
  if (failed(r) || r->isIdentity)
    return failed(r) ? failure() : n.give({r->x});
  if (r->computedAxes) {
    Value sum = reduceOver(n, "graph.reduce_sum", r->x, *r, r->keepdims);
    if (!sum)
      return failure();
    Value count = n.div(n.unary("graph.size", r->x), n.unary("graph.size", sum));
    return n.give({n.div(sum, n.cast(count, n.element(sum)))});
  }
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
  Value most = reduceOver(n, "graph.reduce_max", r->x, *r, true);
  Value lowest = n.scalar(r->x, std::numeric_limits<float>::lowest());
  Value highest = n.scalar(r->x, std::numeric_limits<float>::max());
  Value shift = n("graph.min", {n("graph.max", {most, lowest}), highest});
  Value sum = reduceOver(n, "graph.reduce_sum", n.unary("graph.exp", n.sub(r->x, shift)), *r, true);
  Value result = n.add(n.unary("graph.log", sum), shift);
  if (r->keepdims)
    return n.give({result});
  // The dimensions that remain of the axes have size 1.
  return n.give({r->computedAxes ? removeComputedAxes(n, result, r->computedAxes, r->noneAreAll)
                                 : n.reduce("graph.reduce_sum", result, r->axes, false)});
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
  if (failed(n.needRank(0)) || failed(n.needRank(1)))
    return failure();
  auto along = [&](Value x, int64_t axis) {
    return n(name, {x},
             {n.integer("axis", axis), n.boolean("exclusive", n.intAttr("exclusive")),
              n.boolean("reverse", n.intAttr("reverse"))});
  };
  auto number = n.constants(n.input(1));
  if (!number)
    return n.give({alongComputedAxes(n, n.input(0), n.input(1), false, along)});
  if (number->size() != 1)
    return n.error("the axis has " + llvm::Twine(number->size()) + " elements, not 1");
  auto axis = n.axis((*number)[0], n.rank(n.input(0)));
  return failed(axis) ? failure() : n.give({along(n.input(0), *axis)});
}

constexpr Operator kOperators[] = {
    {"ReduceSum", reduce<"graph.reduce_sum">},
    {"ReduceProd", reduce<"graph.reduce_prod">},
    {"ReduceMax", extreme<"graph.reduce_max">},
    {"ReduceMin", extreme<"graph.reduce_min">},
    {"ReduceMean", widened<reduceMean>},
    {"ReduceL1", widened<reduce<"graph.reduce_sum", absolute>>},
    {"ReduceL2", widened<reduce<"graph.reduce_sum", square, squareRoot>>},
    {"ReduceLogSum", widened<reduce<"graph.reduce_sum", identity, logarithm>>},
    {"ReduceSumSquare", widened<reduce<"graph.reduce_sum", square>>},
    {"ReduceLogSumExp", widened<reduceLogSumExp>},
    {"ArgMax", argReduce<"graph.arg_max">},
    {"ArgMin", argReduce<"graph.arg_min">},
    {"CumSum", cumulative<"graph.cumsum">},
    {"CumProd", cumulative<"graph.cumprod">},
};

} // namespace

std::span<const Operator> reductionOperators() { return kOperators; }

} // namespace tensmith::onnx_import

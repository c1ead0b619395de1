// Pooling over windows and over whole images.
#include "compiler/graph/Inference.h"
#include "frontends/onnx/OperatorName.h"
#include "frontends/onnx/Widened.h"
#include "frontends/onnx/Windows.h"

#include <cmath>
#include <limits>

namespace tensmith::onnx_import {
namespace {

struct Pool {
  Window window;
  SmallVector<NamedAttribute> attributes;
};

FailureOr<Pool> poolOf(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  auto window = windowOf(n, n.input(0));
  if (failed(window))
    return failure();
  auto attributes = window->attributes(n);
  attributes.push_back(n.integers("kernel", window->kernel));
  bool automatic = llvm::StringRef(n.stringAttr("auto_pad")).starts_with("SAME");
  attributes.push_back(n.boolean("ceil_mode", n.intAttr("ceil_mode") && !automatic));
  return Pool{*window, attributes};
}

/// The number that every other one of the type is at least.
Value least(NodeImport &n, Value x) {
  Type element = n.element(x);
  if (auto integer = mlir::dyn_cast<mlir::IntegerType>(element))
    return n.scalar(x, integer.isUnsigned() ? 0 : -std::ldexp(1.0, int(integer.getWidth()) - 1));
  return n.scalar(x, -std::numeric_limits<double>::infinity());
}

/// Indices into what was padded, as ones into x. Numbers count along the last of `order` first.
Value withoutPadding(NodeImport &n, const Window &window, Value indices, Value padded,
                     ArrayRef<int64_t> order) {
  Value x = n.input(0), rest = indices, result, stride = n.integerScalar(1);
  for (int64_t dim : llvm::reverse(order)) {
    Value size = n.sizeOf(padded, dim);
    Value at = n("graph.mod", {rest, size});
    if (dim >= 2 && window.isPadded(size_t(dim - 2)))
      at = n.sub(at, window.lows[size_t(dim - 2)]);
    at = n.mul(at, stride);
    result = result ? n.add(result, at) : at;
    rest = n.div(rest, size);
    stride = n.mul(stride, n.sizeOf(x, dim));
  }
  return result;
}

/// Of windows whose padding only the run tells: the padding is below every number of x, so that
/// none of its indices is found.
Value paddedIndices(NodeImport &n, const Pool &pool) {
  Value x = n.input(0);
  int64_t rank = n.rank(x);
  if (mlir::isa<mlir::IntegerType>(n.element(x))) // of 8 bits
    x = n.cast(x, n.builder.getI32Type());
  else
    x = n("graph.max", {n.widen(x), n.scalar(n.widen(x), std::numeric_limits<float>::lowest())});
  Value padded = paddedFor(n, pool.window, x, least(n, x));
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (n.intAttr("storage_order"))
    std::reverse(order.begin() + 2, order.end());
  return withoutPadding(n, pool.window, n("graph.max_pool_indices", {padded}, pool.attributes),
                        padded, order);
}

LogicalResult maxPool(NodeImport &n) {
  auto pool = poolOf(n);
  if (failed(pool))
    return failure();
  Value x = paddedFor(n, pool->window, n.input(0), least(n, n.input(0)));
  SmallVector<Value> results{n("graph.max_pool", {x}, pool->attributes)};
  if (n.wants(1)) {
    pool->attributes.push_back(n.boolean("column_major", n.intAttr("storage_order")));
    results.push_back(pool->window.isPadded() ? paddedIndices(n, *pool)
                                              : n("graph.max_pool_indices", {x}, pool->attributes));
  }
  return n.give(results);
}

/// Where only the run tells the padding: the mean with it, by the part of the window that it
/// leaves.
LogicalResult averagePool(NodeImport &n) {
  auto pool = poolOf(n);
  if (failed(pool))
    return failure();
  bool counts = n.intAttr("count_include_pad"), divides = pool->window.isPadded() && !counts;
  pool->attributes.push_back(n.boolean("count_include_pad", counts || divides));
  auto mean = [&](Value x) {
    return n("graph.average_pool", {paddedFor(n, pool->window, x)}, pool->attributes);
  };
  Value x = n.input(0), y = mean(x);
  if (!divides)
    return n.give({y});
  auto sizes = n.dims(x);
  sizes[0] = sizes[1] = n.size(1);
  return n.give({n.div(y, mean(n.filled(n.element(x), sizes, 1)))});
}

/// The norm's exponent, which the first opset has as a float; 0, with an error, of one that is no
/// whole number.
int64_t exponentOf(NodeImport &n) {
  auto *p = n.attribute("p");
  if (!p || !p->has_f())
    return n.intAttr("p", 2);
  if (p->f() >= 1 && p->f() <= 1e6f && p->f() == std::floor(p->f()))
    return int64_t(p->f());
  (void)n.error("attribute 'p' is no positive whole number");
  return 0;
}

LogicalResult lpPool(NodeImport &n) {
  auto pool = poolOf(n);
  if (failed(pool))
    return failure();
  int64_t p = exponentOf(n);
  if (p == 0)
    return failure();
  pool->attributes.push_back(n.integer("p", p));
  return n.give({n("graph.lp_pool", {paddedFor(n, pool->window, n.input(0))}, pool->attributes)});
}

LogicalResult maxUnpool(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  auto window = windowOf(n, n.input(0));
  if (failed(window))
    return failure();
  return n.give({n("graph.max_unpool", {n.input(0), n.input(1), n.maybe(2)},
                   {n.integers("kernel", window->kernel), n.integers("strides", window->strides),
                    n.integers("pads", window->pads)})});
}

LogicalResult maxRoiPool(NodeImport &n) {
  return n.give({n("graph.max_roi_pool", {n.input(0), n.input(1)},
                   {n.integers("pooled_shape", n.intsAttr("pooled_shape")),
                    n.real("spatial_scale", n.floatAttr("spatial_scale", 1))})});
}

FailureOr<Ints> spatialAxes(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  if (n.rank(n.input(0)) < 2)
    return n.error("operand 0 has rank " + llvm::Twine(n.rank(n.input(0))) + ", not 2 or more");
  return llvm::to_vector(llvm::seq<int64_t>(2, n.rank(n.input(0))));
}

LogicalResult globalAveragePool(NodeImport &n) {
  auto axes = spatialAxes(n);
  return failed(axes) ? failure() : n.give({n.mean(n.input(0), *axes)});
}

LogicalResult globalMaxPool(NodeImport &n) {
  auto axes = spatialAxes(n);
  return failed(axes) ? failure() : n.give({n.reduce("graph.reduce_max", n.input(0), *axes, true)});
}

LogicalResult globalLpPool(NodeImport &n) {
  auto axes = spatialAxes(n);
  if (failed(axes))
    return failure();
  double p = double(exponentOf(n));
  if (p == 0)
    return failure();
  Value x = n.unary("graph.abs", n.input(0));
  Value sum = n.reduce("graph.reduce_sum", n("graph.pow", {x, n.scalar(x, p)}), *axes, true);
  return n.give({n("graph.pow", {sum, n.scalar(x, 1 / p)})});
}

/// As of opset 20: blocks summed where they overlap.
LogicalResult col2Im(NodeImport &n) {
  if (failed(n.needRank(2)) || n.rank(n.input(2)) != 1)
    return n.error("operand 2, the block's shape, is no vector");
  auto count = NodeImport::known(n.dims(n.input(2))[0]);
  if (!count) // the result's rank is the run's, unless an attribute or the other vector tells it
    for (StringRef name : {"dilations", "strides", "pads"})
      if (n.hasAttribute(name) && !count)
        count = int64_t(n.intsAttr(name).size()) / (name == "pads" ? 2 : 1);
  if (!count && n.isRanked(n.input(1)) && n.rank(n.input(1)) == 1)
    count = NodeImport::known(n.dims(n.input(1))[0]);
  if (!count)
    return n.give(
        {n("graph.col2im", {n.input(0), n.input(1), n.input(2)},
           {n.integers("dilations", {}), n.integers("pads", {}), n.integers("strides", {})})});
  if (*count > graph::kMostDimensions)
    return n.error("has a block of " + llvm::Twine(*count) + " dimensions; a tensor has at most " +
                   llvm::Twine(graph::kMostDimensions));
  size_t spatial = size_t(*count);
  auto counted = [&](Value sizes) { return sizes ? n.reshape(sizes, {n.size(*count)}) : sizes; };
  return n.give({n("graph.col2im", {n.input(0), counted(n.input(1)), counted(n.input(2))},
                   {n.integers("dilations", n.intsAttr("dilations", Ints(spatial, 1))),
                    n.integers("pads", n.intsAttr("pads", Ints(2 * spatial, 0))),
                    n.integers("strides", n.intsAttr("strides", Ints(spatial, 1)))})});
}

constexpr Operator kOperators[] = {
    {"MaxPool", maxPool},
    {"AveragePool", averagePool},
    {"LpPool", lpPool},
    {"MaxUnpool", maxUnpool},
    {"MaxRoiPool", maxRoiPool},
    {"GlobalAveragePool", widened<globalAveragePool>},
    {"GlobalMaxPool", globalMaxPool},
    {"GlobalLpPool", widened<globalLpPool>},
    {"Col2Im", col2Im},
};

} // namespace

std::span<const Operator> poolingOperators() { return kOperators; }

} // namespace tensmith::onnx_import

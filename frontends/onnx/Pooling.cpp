// Pooling over windows and over whole images.
#include "compiler/graph/Inference.h"
#include "frontends/onnx/OperatorName.h"
#include "frontends/onnx/Windows.h"

#include <cmath>

namespace tensmith::onnx_import {
namespace {

FailureOr<SmallVector<NamedAttribute>> poolAttributes(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  auto window = windowOf(n, n.input(0));
  if (failed(window))
    return failure();
  auto attributes = window->attributes(n);
  attributes.push_back(n.integers("kernel", window->kernel));
  bool automatic = llvm::StringRef(n.stringAttr("auto_pad")).starts_with("SAME");
  attributes.push_back(n.boolean("ceil_mode", n.intAttr("ceil_mode") && !automatic));
  return attributes;
}

LogicalResult maxPool(NodeImport &n) {
  auto attributes = poolAttributes(n);
  if (failed(attributes))
    return failure();
  SmallVector<Value> results{n("graph.max_pool", {n.input(0)}, *attributes)};
  if (n.wants(1)) {
    attributes->push_back(n.boolean("column_major", n.intAttr("storage_order")));
    results.push_back(n("graph.max_pool_indices", {n.input(0)}, *attributes));
  }
  return n.give(results);
}

LogicalResult averagePool(NodeImport &n) {
  auto attributes = poolAttributes(n);
  if (failed(attributes))
    return failure();
  attributes->push_back(n.boolean("count_include_pad", n.intAttr("count_include_pad")));
  return n.give({n("graph.average_pool", {n.input(0)}, *attributes)});
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
  auto attributes = poolAttributes(n);
  if (failed(attributes))
    return failure();
  int64_t p = exponentOf(n);
  if (p == 0)
    return failure();
  attributes->push_back(n.integer("p", p));
  return n.give({n("graph.lp_pool", {n.input(0)}, *attributes)});
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
  if (!count)
    return n.error("the number of dimensions is not known");
  if (*count > graph::kMostDimensions)
    return n.error("has a block of " + llvm::Twine(*count) + " dimensions; a tensor has at most " +
                   llvm::Twine(graph::kMostDimensions));
  size_t spatial = size_t(*count);
  return n.give({n("graph.col2im", {n.input(0), n.input(1), n.input(2)},
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
    {"GlobalAveragePool", globalAveragePool},
    {"GlobalMaxPool", globalMaxPool},
    {"GlobalLpPool", globalLpPool},
    {"Col2Im", col2Im},
};

} // namespace

std::span<const Operator> poolingOperators() { return kOperators; }

} // namespace tensmith::onnx_import

// Strides, pads and dilations with their defaults; see Windows.h.
#include "frontends/onnx/Windows.h"

using tensmith::graph::GraphBuilder;

namespace tensmith::onnx_import {
namespace {

/// The padding in front of a dimension of which only the run tells the size n, or the window's.
/// Windows begin at every stride, ceil(n / stride) of them, and reach over the elements by max(c -
/// m, 0), where c is reach - 1 and m is (n - 1) mod stride. Half of that stands in front, rounded
/// down or, `lower`, up.
///
/// What stands behind may be more than the rest, as long as no further window fits: with c in all
/// the result has floor((n - 1) / stride) + 1 elements, as those of explicit pads are written.
void padOpen(NodeImport &n, Value x, Value weights, Window &window, size_t dim, bool lower) {
  auto c = NodeImport::known(window.spans[dim]);
  int64_t stride = window.strides[dim], axis = int64_t(2 + dim);
  size_t spatial = window.kernel.size();
  window.pads[dim] = window.pads[spatial + dim] = 0;
  if (c) {
    int64_t most = (*c + lower) / 2, least = (std::max<int64_t>(*c - stride + 1, 0) + lower) / 2;
    if (most == least) {
      window.pads[dim] = most;
      window.pads[spatial + dim] = *c - most;
      return;
    }
  }
  Value span = c ? n.integerScalar(*c)
                 : n.mul(n.add(n.sizeOf(weights, axis), -1), double(window.dilations[dim]));
  Value m = n("graph.mod", {n.add(n.sizeOf(x, axis), double(stride - 1)), n.integerScalar(stride)});
  Value over = n("graph.max", {n.sub(span, m), n.integerScalar(0)});
  window.lows[dim] = n.div(n.add(over, double(lower)), n.integerScalar(2));
  window.highs[dim] = n.sub(span, window.lows[dim]);
}

/// Pads such that there are ceil(size / stride) results, an odd one at the end (or the start).
void padToSame(NodeImport &n, Value x, Value weights, Window &window, bool lower) {
  size_t spatial = window.kernel.size();
  auto dims = n.dims(x);
  for (size_t dim = 0; dim < spatial; ++dim) {
    auto size = NodeImport::known(dims[2 + dim]);
    if (!size || !NodeImport::known(window.spans[dim])) {
      padOpen(n, x, weights, window, dim, lower);
      continue;
    }
    int64_t stride = window.strides[dim];
    int64_t total = ((*size + stride - 1) / stride - 1) * stride + window.reach(dim) - *size;
    total = std::max<int64_t>(total, 0);
    window.pads[dim] = lower ? total - total / 2 : total / 2;
    window.pads[spatial + dim] = total - window.pads[dim];
  }
}

} // namespace

Ints kernelOf(NodeImport &n, Value weights) {
  Ints kernel;
  for (AffineExpr size : ArrayRef(n.dims(weights)).drop_front(2))
    kernel.push_back(NodeImport::known(size).value_or(1));
  return kernel;
}

FailureOr<Window> windowOf(NodeImport &n, Value x, Value weights) {
  int64_t spatial = n.rank(x) - 2;
  if (spatial < 1)
    return n.error("operand 0 has rank " + llvm::Twine(n.rank(x)) + ", not 3 or more");
  size_t count = size_t(spatial);
  Window window;
  window.kernel = n.intsAttr("kernel_shape", weights ? kernelOf(n, weights) : Ints());
  window.strides = n.intsAttr("strides", Ints(count, 1));
  window.dilations = n.intsAttr("dilations", Ints(count, 1));
  window.pads = n.intsAttr("pads", Ints(2 * count, 0));
  window.lows.resize(count);
  window.highs.resize(count);
  if (window.kernel.size() != count || window.strides.size() != count ||
      window.dilations.size() != count || window.pads.size() != 2 * count)
    return n.error("kernel_shape, strides, dilations or pads are not those of " +
                   llvm::Twine(spatial) + " spatial dimensions");
  constexpr int64_t kMost = int64_t(1) << 31;
  for (size_t dim = 0; dim < count; ++dim)
    if (window.kernel[dim] < 1 || window.strides[dim] < 1 || window.dilations[dim] < 1 ||
        window.kernel[dim] > kMost || window.strides[dim] > kMost || window.dilations[dim] > kMost)
      return n.error("kernel_shape, strides or dilations are not all positive, or too large");
  for (size_t dim = 0; dim < count; ++dim) {
    AffineExpr size = n.size(window.kernel[dim]);
    if (weights && !n.hasAttribute("kernel_shape"))
      size = n.dims(weights)[2 + dim];
    window.spans.push_back(n.graph.shapes.simplify((size - 1) * window.dilations[dim]));
  }
  for (int64_t amount : window.pads)
    if (amount < -kMost || amount > kMost)
      return n.error("pads are too large");
  std::string automatic = n.stringAttr("auto_pad", "NOTSET");
  if (automatic == "VALID")
    window.pads.assign(2 * count, 0);
  else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    padToSame(n, x, weights, window, automatic == "SAME_LOWER");
  } else if (automatic != "NOTSET" && !automatic.empty())
    return n.error("auto_pad is '" + automatic + "', which is not known");
  return window;
}

Value paddedFor(NodeImport &n, const Window &window, Value x, Value filling) {
  if (!x || !window.isPadded())
    return x;
  auto sizes = n.dims(x);
  SmallVector<Value> lows(sizes.size()), highs(sizes.size());
  for (auto [dim, low] : llvm::enumerate(window.lows)) {
    if (!window.isPadded(dim))
      continue;
    sizes[2 + dim] = n.graph.shapes.simplify(sizes[2 + dim] + window.spans[dim]);
    lows[2 + dim] = low;
    highs[2 + dim] = window.highs[dim];
  }
  return padTo(n, x, lows, highs, sizes, filling);
}

Value padTo(NodeImport &n, Value x, ArrayRef<Value> lows, ArrayRef<Value> highs,
            ArrayRef<AffineExpr> sizes, Value filling) {
  SmallVector<Value> pads;
  for (ArrayRef<Value> side : {lows, highs})
    for (Value count : side)
      pads.push_back(count ? n.reshape(count, {n.size(1)}) : n.vector({0}));
  if (!x || llvm::is_contained(pads, Value()))
    return {};
  return GraphBuilder::first(n.graph.createTyped(
      "graph.dynamic_pad", n.graph.shapes.tensorType(n.element(x), sizes),
      {x, n.concat(pads, 0), filling ? filling : n.none(), n.none()}, n.text("mode", "constant")));
}

Value cropped(NodeImport &n, Value x, int64_t axis, Value start, Value size) {
  auto count = n.contents(size);
  if (!x || !start || !count)
    return {};
  auto sizes = n.dims(x);
  SmallVector<Value> lows(sizes.size()), highs(sizes.size());
  lows[size_t(axis)] = n.unary("graph.neg", start);
  highs[size_t(axis)] = n.sub(n.add(start, size), n.sizeOf(x, axis));
  sizes[size_t(axis)] = count->front();
  return padTo(n, x, lows, highs, sizes);
}

} // namespace tensmith::onnx_import

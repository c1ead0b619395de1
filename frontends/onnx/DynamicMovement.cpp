// Operators that ONNX gives their parameters as operands: static where these are known when the
// model is imported (constants, or arithmetic on shapes), which nearly all are.
#include "compiler/graph/Checks.h"
#include "compiler/graph/ReshapeTarget.h"
#include "compiler/graph/SlicedRange.h"
#include "frontends/onnx/NodeImport.h"

#include <limits>

using namespace tensmith::graph;

namespace tensmith::onnx_import {
namespace {

using Dims = NodeImport::Dims;

/// The target of a reshape with -1 and 0 replaced, and what must hold for it; nothing where it is
/// no valid one, for the dynamic form's shape function to say why.
std::optional<Dims> reshapedDims(NodeImport &n, ArrayRef<AffineExpr> target, bool allowZero,
                                 llvm::SmallVectorImpl<Condition> &conditions) {
  Dims from = n.dims(n.input(0)), to;
  std::optional<size_t> rest;
  AffineExpr others = n.size(1);
  for (auto [dim, size] : llvm::enumerate(target)) {
    auto known = NodeImport::known(size);
    if (known && *known < -1)
      return std::nullopt;
    if (known && *known == -1) {
      if (rest)
        return std::nullopt;
      rest = dim;
      to.push_back(size);
      continue;
    }
    if (known && *known == 0 && !allowZero) {
      if (dim >= from.size())
        return std::nullopt;
      to.push_back(from[dim]);
    } else if (!known && !allowZero) {
      auto [stated, condition] = targetSize(n.graph.shapes, size, dim, from);
      if (condition)
        conditions.push_back(*condition);
      to.push_back(stated);
    } else {
      to.push_back(size);
    }
    others = others * to.back();
  }
  auto &shapes = n.graph.shapes;
  AffineExpr total = shapes.product(from);
  others = shapes.simplify(others);
  if (rest) {
    auto divisor = NodeImport::known(others);
    if (divisor && *divisor == 0)
      return std::nullopt;
    to[*rest] = shapes.simplify(total.floorDiv(others));
  }
  auto have = NodeImport::known(total), need = NodeImport::known(shapes.product(to));
  if (have && need && *have != *need)
    return std::nullopt;
  return to;
}

LogicalResult reshape(NodeImport &n) {
  Value x = n.input(0);
  if (!x)
    return n.error("operand 0 is missing");
  Value shape = n.opset < 5 ? n.vector(n.intsAttr("shape")) : n.input(1);
  bool allowZero = n.intAttr("allowzero") != 0;
  SmallVector<Condition> conditions;
  if (auto target = n.contents(shape); target && n.isRanked(x))
    if (auto to = reshapedDims(n, *target, allowZero, conditions)) {
      for (const Condition &condition : conditions)
        makeCheck(n.builder, n.graph.location, n.graph.shapes, condition);
      return n.give({n.reshape(x, *to)});
    }
  return n.give({n("graph.dynamic_reshape", {x, shape}, {n.boolean("allowzero", allowZero)})});
}

LogicalResult expand(NodeImport &n) {
  Value x = n.input(0);
  auto target = n.contents(n.input(1));
  if (!x || !target || !n.isRanked(x))
    return n.give({n("graph.dynamic_broadcast", {x, n.input(1)})});
  Dims from = n.dims(x), to(*target);
  if (from.size() > to.size())
    to.insert(to.begin(), from.size() - to.size(), n.size(1));
  size_t missing = to.size() - from.size();
  for (size_t dim = 0; dim < from.size(); ++dim) {
    auto common = n.graph.shapes.broadcast(from[dim], to[missing + dim]);
    if (!common)
      return n.error("dimension " + llvm::Twine(dim) + " does not broadcast to the given shape");
    if (*common != from[dim] && *common != to[missing + dim]) // the run alone tells which it is
      return n.give({n("graph.dynamic_broadcast", {x, n.input(1)})});
    to[missing + dim] = *common;
  }
  return n.give({n.broadcast(x, to)});
}

/// Starts, ends and steps along axes, all known.
struct Range {
  int64_t axis;
  AffineExpr start, end;
  int64_t step;
};

std::optional<SmallVector<Range>> ranges(NodeImport &n, Value starts, Value ends, Value axes,
                                         Value steps) {
  auto s = n.contents(starts), e = n.contents(ends);
  auto a = n.constants(axes), t = n.constants(steps);
  bool known = s && e && (a || !axes) && (t || !steps);
  if (!known || s->size() != e->size() || (a && a->size() != s->size()) ||
      (t && t->size() != s->size()))
    return std::nullopt;
  SmallVector<Range> result;
  int64_t rank = n.rank(n.input(0));
  for (size_t i = 0; i < s->size(); ++i) {
    int64_t axis = a ? (*a)[i] : int64_t(i), step = t ? (*t)[i] : 1;
    if (axis < -rank || axis >= rank || step == 0)
      return std::nullopt;
    result.push_back({axis < 0 ? axis + rank : axis, (*s)[i], (*e)[i], withinDimension(step)});
  }
  return result;
}

/// A number, whatever the size: of an open one the start as given, which lies within the dimension
/// where anything is taken forwards.
std::optional<int64_t> firstOf(const Range &range, const SlicedRange &part) {
  if (auto first = NodeImport::known(part.first))
    return first;
  auto start = NodeImport::known(range.start);
  return start && *start >= 0 && range.step > 0 ? start : std::nullopt;
}

/// What begins at an element that is counted from the end, as x[-3:]: x is read backwards where the
/// step is negative, and cut before that element by a pad of less than nothing, so that the slice
/// of what is left begins at a number. The step is then positive.
Value cutBefore(NodeImport &n, Value x, Range &range) {
  int64_t start = *NodeImport::known(range.start);
  if (range.step < 0) {
    x = n("graph.reverse", {x}, {n.integers("axes", {range.axis})});
    range.step = -range.step;
    start = ~start;
  }
  range.start = n.size(std::max<int64_t>(start, 0));
  if (start >= 0)
    return x;
  Value place = n("graph.max", {n.add(n.sizeOf(x, range.axis), double(withinDimension(start))),
                                n.integerScalar(0)});
  SmallVector<Value> pads(2 * n.dims(x).size(), n.vector({0}));
  pads[size_t(range.axis)] = n.reshape(n.unary("graph.neg", place), {n.size(1)});
  return n("graph.dynamic_pad", {x, n.concat(pads, 0), n.none(), n.none()},
           {n.text("mode", "constant")});
}

LogicalResult slice(NodeImport &n) {
  Value x = n.input(0), starts = n.input(1), ends = n.input(2), axes = n.input(3),
        steps = n.input(4);
  if (n.opset < 10) {
    starts = n.vector(n.intsAttr("starts"));
    ends = n.vector(n.intsAttr("ends"));
    axes = n.hasAttribute("axes") ? n.vector(n.intsAttr("axes")) : Value();
    steps = Value();
  }
  if (!x || !starts || !ends)
    return n.error("operand 0, starts or ends is missing");
  auto dynamic = [&] {
    return n.give({n("graph.dynamic_slice",
                     {x, starts, ends, axes ? axes : n.none(), steps ? steps : n.none()})});
  };
  if (!n.isRanked(x))
    return dynamic();
  auto known = ranges(n, starts, ends, axes, steps);
  if (!known)
    return dynamic();
  Dims sizes = n.dims(x);
  Ints first(sizes.size(), 0), stride(sizes.size(), 1);
  SmallVector<SlicedRange> parts;
  for (const Range &range : *known) {
    AffineExpr size = sizes[size_t(range.axis)];
    bool isClosed = NodeImport::known(size) && NodeImport::known(range.end);
    auto part = isClosed || !NodeImport::known(size)
                    ? slicedRange(n.graph.shapes, size, range.start, range.end, range.step)
                    : std::nullopt;
    if (!part || (!firstOf(range, *part) && !NodeImport::known(range.start)))
      return dynamic();
    parts.push_back(*part);
  }
  for (auto [range, part] : llvm::zip_equal(*known, parts)) {
    auto start = firstOf(range, part);
    if (!start) {
      x = cutBefore(n, x, range);
      start = NodeImport::known(range.start);
    }
    first[size_t(range.axis)] = *start;
    sizes[size_t(range.axis)] = part.count;
    stride[size_t(range.axis)] = range.step;
  }
  if (n.graph.shapes.tensorType(n.element(x), sizes) == x.getType() &&
      llvm::all_of(stride, [](int64_t s) { return s == 1; }))
    return n.give({x});
  return n.give({n.graph.slice(x, first, stride, sizes)});
}

LogicalResult pad(NodeImport &n) {
  std::string mode = n.stringAttr("mode", "constant");
  Value x = n.input(0), pads = n.input(1), value = n.input(2), axes = n.input(3);
  if (!x)
    return n.error("operand 0 is missing");
  if (n.opset < 11) {
    pads = n.vector(n.intsAttr(n.hasAttribute("pads") ? "pads" : "paddings"));
    value = n.scalar(x, n.floatAttr("value"));
    axes = Value();
  }
  if (!pads)
    return n.error("the pads are missing");
  auto amounts = n.constants(pads), numbers = n.constants(axes);
  if (!amounts || (axes && !numbers) || !n.isRanked(x))
    return n.give(
        {n("graph.dynamic_pad", {x, pads, value ? value : n.none(), axes ? axes : n.none()},
           {n.text("mode", mode)})});
  int64_t rank = n.rank(x);
  Ints all = numbers ? *numbers : llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (amounts->size() != 2 * all.size())
    return n.error("has " + llvm::Twine(amounts->size()) + " pads for " + llvm::Twine(all.size()) +
                   " dimensions");
  Ints low(size_t(rank), 0), high(size_t(rank), 0);
  for (auto [i, number] : llvm::enumerate(all)) {
    auto axis = n.axis(number, rank);
    if (failed(axis))
      return failure();
    low[size_t(*axis)] = (*amounts)[i];
    high[size_t(*axis)] = (*amounts)[all.size() + i];
  }
  if (value && n.isRanked(value) && n.rank(value) > 0)
    value = n.reshape(value, {});
  return n.give({n("graph.pad", {x, value ? value : n.none()},
                   {n.integers("low", low), n.integers("high", high), n.text("mode", mode)})});
}

/// [a, b] repeated [r, s] times: broadcast [1, a, 1, b] to [r, a, s, b].
LogicalResult tile(NodeImport &n) {
  Value x = n.input(0);
  if (n.opset < 6 && n.has(2)) { // a number of tiles, and the dimension along which they lie
    if (failed(n.needRank(0)))
      return failure();
    Type integer = n.builder.getI64Type();
    Value tiles = n.cast(n.reshape(n.input(1), {n.size(1)}), integer),
          axis = n.cast(n.reshape(n.input(2), {n.size(1)}), integer);
    n.inputs[1] = n("graph.scatter_elements", {n.vector(Ints(size_t(n.rank(x)), 1)), axis, tiles},
                    {n.integer("axis", 0)});
  }
  auto repeats = n.contents(n.input(1));
  if (!x || !repeats || !n.isRanked(x) || repeats->size() != size_t(n.rank(x)))
    return n.give({n("graph.dynamic_tile", {x, n.input(1)})});
  Dims dims = n.dims(x), split, wide, joined;
  for (auto [dim, size] : llvm::enumerate(dims)) {
    AffineExpr times = (*repeats)[dim];
    if (NodeImport::known(times) != 1) {
      split.push_back(n.size(1));
      wide.push_back(times);
    }
    split.push_back(size);
    wide.push_back(size);
    joined.push_back(times * size);
  }
  return n.give({n.reshape(n.broadcast(n.reshape(x, split), wide), joined)});
}

constexpr Operator kOperators[] = {
    {"Reshape", reshape}, {"Expand", expand}, {"Slice", slice}, {"Pad", pad}, {"Tile", tile},
};

} // namespace

std::span<const Operator> dynamicMovementOperators() { return kOperators; }

} // namespace tensmith::onnx_import

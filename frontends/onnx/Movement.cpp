// Operators that rearrange elements by rules known from attributes and shapes alone.
#include "frontends/onnx/ComputedAxes.h"

using namespace tensmith::graph;

namespace tensmith::onnx_import {
namespace {

LogicalResult transpose(NodeImport &n) {
  if (n.has(0) && n.hasAttribute("perm"))
    n.inputs[0] = n.ranked(n.input(0), int64_t(n.intsAttr("perm").size()));
  if (failed(n.needRank(0)))
    return failure();
  Ints reversed;
  for (int64_t dim = n.rank(n.input(0)); dim-- > 0;)
    reversed.push_back(dim);
  return n.give({n.transpose(n.input(0), n.intsAttr("perm", reversed))});
}

LogicalResult flatten(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  auto dims = n.dims(n.input(0));
  int64_t rank = int64_t(dims.size()), axis = n.intAttr("axis", 1);
  if (axis < -rank || axis > rank)
    return n.error("axis " + llvm::Twine(axis) + " is not one of rank " + llvm::Twine(rank));
  ArrayRef<AffineExpr> all(dims);
  size_t split = size_t(axis < 0 ? axis + rank : axis);
  auto &shapes = n.graph.shapes;
  return n.give({n.reshape(
      n.input(0), {shapes.product(all.take_front(split)), shapes.product(all.drop_front(split))})});
}

/// An attribute before opset 13, an operand since; nothing, with an error, where the model computes
/// it.
FailureOr<std::optional<Ints>> axesOf(NodeImport &n, size_t operand) {
  if (n.hasAttribute("axes"))
    return std::optional(n.intsAttr("axes"));
  if (!n.has(operand))
    return std::optional<Ints>();
  if (auto known = n.constants(n.input(operand)))
    return std::optional(*known);
  return n.error("the axes are computed by the model, which is not supported");
}

/// Whether axes are an operand that the model computes.
bool axesAreComputed(NodeImport &n) {
  return !n.hasAttribute("axes") && n.has(1) && !n.constants(n.input(1)) &&
         isCountedVector(n, n.input(1)) && n.has(0) && n.isRanked(n.input(0));
}

LogicalResult squeeze(NodeImport &n) {
  if (axesAreComputed(n))
    return n.give({removeComputedAxes(n, n.input(0), n.input(1))});
  auto given = axesOf(n, 1);
  if (failed(n.needRank(0)) || failed(given))
    return failure();
  auto dims = n.dims(n.input(0));
  Ints removed;
  if (*given) {
    auto axes = n.axes(**given, int64_t(dims.size()));
    if (failed(axes))
      return failure();
    removed = *axes;
  } else {
    for (auto [dim, size] : llvm::enumerate(dims))
      if (NodeImport::known(size) == 1)
        removed.push_back(int64_t(dim));
  }
  NodeImport::Dims kept;
  for (auto [dim, size] : llvm::enumerate(dims)) {
    if (!llvm::is_contained(removed, int64_t(dim)))
      kept.push_back(size);
    else if (auto known = NodeImport::known(size); known && *known != 1)
      return n.error("dimension " + llvm::Twine(dim) + " has size " + llvm::Twine(*known) +
                     " and can't be removed");
  }
  return n.give({n.reshape(n.input(0), kept)});
}

LogicalResult unsqueeze(NodeImport &n) {
  if (axesAreComputed(n))
    return n.give({insertComputedAxes(n, n.input(0), n.input(1))});
  auto given = axesOf(n, 1);
  if (failed(n.needRank(0)) || failed(given))
    return failure();
  if (!*given)
    return n.error("has no axes");
  auto dims = n.dims(n.input(0));
  auto axes = n.axes(**given, int64_t(dims.size() + (*given)->size()));
  if (failed(axes))
    return failure();
  for (int64_t axis : *axes)
    dims.insert(dims.begin() + axis, n.size(1));
  return n.give({n.reshape(n.input(0), dims)});
}

LogicalResult concat(NodeImport &n) {
  SmallVector<Value> operands(n.inputs.begin(), n.inputs.end());
  if (operands.empty() || llvm::is_contained(operands, Value()))
    return n.error("an input is missing");
  return n.give({n.graph.concat(operands, n.intAttr("axis", 1))});
}

/// Sizes of the parts along the axis, or nothing after an error.
FailureOr<NodeImport::Dims> partSizes(NodeImport &n, AffineExpr whole) {
  NodeImport::Dims sizes;
  if (n.has(1)) {
    auto known = n.contents(n.input(1));
    if (!known)
      return n.error("the sizes of the parts are computed by the model, which is not supported");
    return NodeImport::Dims(*known);
  }
  if (n.hasAttribute("split")) {
    for (int64_t size : n.intsAttr("split"))
      sizes.push_back(n.size(size));
    return sizes;
  }
  int64_t parts = n.intAttr("num_outputs", n.node.output_size());
  if (parts <= 0 || parts != n.node.output_size())
    return n.error("has " + llvm::Twine(n.node.output_size()) + " outputs and num_outputs " +
                   llvm::Twine(parts));
  auto known = NodeImport::known(whole);
  AffineExpr each = known ? n.size((*known + parts - 1) / parts) : whole.ceilDiv(parts);
  sizes.assign(size_t(parts), each);
  if (known) // the last is what remains
    sizes.back() =
        n.size(std::max<int64_t>(*known - (parts - 1) * ((*known + parts - 1) / parts), 0));
  return sizes;
}

/// Parts of sizes that the model computes: slices between their running sums.
LogicalResult splitAt(NodeImport &n, Value sizes, int64_t axis) {
  if (NodeImport::known(n.dims(sizes)[0]) != n.node.output_size())
    return n.error("has not one size for each of its " + llvm::Twine(n.node.output_size()) +
                   " outputs");
  Value ends = n("graph.cumsum", {sizes}, n.integer("axis", 0)), starts = n.sub(ends, sizes);
  SmallVector<Value> parts;
  for (int64_t i = 0; i < n.node.output_size(); ++i) {
    Value start = n.slice(starts, {i}, {n.size(1)}), end = n.slice(ends, {i}, {n.size(1)});
    parts.push_back(n("graph.dynamic_slice", {n.input(0), start, end, n.vector({axis}), n.none()}));
  }
  return n.give(parts);
}

LogicalResult split(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  Value x = n.input(0);
  auto dims = n.dims(x);
  auto axis = n.axis(n.intAttr("axis"), int64_t(dims.size()));
  if (failed(axis))
    return failure();
  if (n.has(1) && !n.constants(n.input(1)) && isCountedVector(n, n.input(1)))
    return splitAt(n, n.input(1), *axis);
  auto sizes = partSizes(n, dims[size_t(*axis)]);
  if (failed(sizes))
    return failure();
  if (sizes->size() != size_t(n.node.output_size()))
    return n.error("has " + llvm::Twine(n.node.output_size()) + " outputs for " +
                   llvm::Twine(sizes->size()) + " parts");
  if (sizes->size() == 1)
    return n.give({x});
  SmallVector<Value> parts;
  int64_t start = 0;
  for (AffineExpr size : *sizes) {
    auto known = NodeImport::known(size);
    if (!known)
      return n.error("splits a dimension whose size only the run tells, which is not supported");
    if (*known < 0)
      return n.error("has a part of size " + llvm::Twine(*known));
    Ints starts(dims.size(), 0);
    starts[size_t(*axis)] = start;
    dims[size_t(*axis)] = size;
    parts.push_back(n.slice(x, starts, dims));
    start += *known;
  }
  auto whole = NodeImport::known(n.dims(x)[size_t(*axis)]);
  if (whole && *whole != start)
    return n.error("splits a dimension of " + llvm::Twine(*whole) + " into parts that add up to " +
                   llvm::Twine(start));
  return n.give(parts);
}

/// Picture blocks of b by b places as channels, or back: [N, C b b, H, W] and [N, C, H b, W b]. The
/// block's place comes before the channel (DCR) or behind it (CRD).
template <bool toSpace> LogicalResult moveBlocks(NodeImport &n) {
  int64_t b = n.intAttr("blocksize");
  if (failed(n.needRank(0)))
    return failure();
  auto d = n.dims(n.input(0));
  constexpr int64_t kMost = int64_t(1) << 20;
  if (d.size() != 4 || b <= 0 || b > kMost)
    return n.error("needs an operand of rank 4 and a blocksize from 1 to 2^20");
  bool first = n.stringAttr("mode", "DCR") == "DCR";
  auto quotient = [&](AffineExpr size, int64_t by) {
    return n.graph.shapes.simplify(size.floorDiv(by));
  };
  AffineExpr block = n.size(b);
  if (toSpace) {
    AffineExpr c = quotient(d[1], b * b);
    Value parts = first ? n.reshape(n.input(0), {d[0], block, block, c, d[2], d[3]})
                        : n.reshape(n.input(0), {d[0], c, block, block, d[2], d[3]});
    Value turned = n.transpose(parts, first ? Ints{0, 3, 4, 1, 5, 2} : Ints{0, 1, 4, 2, 5, 3});
    return n.give({n.reshape(turned, {d[0], c, d[2] * b, d[3] * b})});
  }
  AffineExpr h = quotient(d[2], b), w = quotient(d[3], b);
  Value parts = n.reshape(n.input(0), {d[0], d[1], h, block, w, block});
  Value turned = n.transpose(parts, first ? Ints{0, 3, 5, 1, 2, 4} : Ints{0, 1, 3, 5, 2, 4});
  return n.give({n.reshape(turned, {d[0], d[1] * (b * b), h, w})});
}

LogicalResult shape(NodeImport &n) {
  SmallVector<NamedAttribute> attributes{n.integer("start", n.intAttr("start", 0))};
  if (n.hasAttribute("end"))
    attributes.push_back(n.integer("end", n.intAttr("end")));
  return n.give({n("graph.shape", {n.input(0)}, attributes)});
}

LogicalResult size(NodeImport &n) { return n.give({n.unary("graph.size", n.input(0))}); }

LogicalResult trilu(NodeImport &n) {
  return n.give(
      {n("graph.trilu", {n.input(0), n.maybe(1)}, {n.boolean("upper", n.intAttr("upper", 1))})});
}

LogicalResult reverseSequence(NodeImport &n) {
  return n.give({n("graph.reverse_sequence", {n.input(0), n.input(1)},
                   {n.integer("batch_axis", n.intAttr("batch_axis", 1)),
                    n.integer("time_axis", n.intAttr("time_axis", 0))})});
}

LogicalResult centerCropPad(NodeImport &n) {
  SmallVector<NamedAttribute> attributes;
  if (n.hasAttribute("axes")) {
    if (failed(n.needRank(0)))
      return failure();
    Ints axes = n.intsAttr("axes"); // in their own order, which is that of the sizes
    for (int64_t &axis : axes) {
      auto dim = n.axis(axis, n.rank(n.input(0)));
      if (failed(dim))
        return failure();
      axis = *dim;
    }
    attributes.push_back(n.integers("axes", axes));
  }
  return n.give({n("graph.center_crop_pad", {n.input(0), n.input(1)}, attributes)});
}

constexpr Operator kOperators[] = {
    {"Transpose", transpose},
    {"Flatten", flatten},
    {"Squeeze", squeeze},
    {"Unsqueeze", unsqueeze},
    {"Concat", concat},
    {"Split", split},
    {"DepthToSpace", moveBlocks<true>},
    {"SpaceToDepth", moveBlocks<false>},
    {"Shape", shape},
    {"Size", size},
    {"Trilu", trilu},
    {"ReverseSequence", reverseSequence},
    {"CenterCropPad", centerCropPad},
};

} // namespace

std::span<const Operator> movementOperators() { return kOperators; }

} // namespace tensmith::onnx_import

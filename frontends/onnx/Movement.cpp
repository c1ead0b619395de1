// Operators that rearrange elements by rules known from attributes and shapes alone.
#include "compiler/graph/Checks.h"
#include "frontends/onnx/ComputedAxes.h"
#include "frontends/onnx/Loops.h"
#include "frontends/onnx/Windows.h"

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
         n.isRanked(n.input(1)) && n.rank(n.input(1)) == 1 && n.has(0) && n.isRanked(n.input(0));
}

/// x without dimensions of size 1. Of `open` ones only the run tells the size, and so the rank of
/// the result: a branch for each answer, which what follows is imported in (Branches.h).
Value withoutOnes(NodeImport &n, Value x, NodeImport::Dims dims, ArrayRef<int64_t> open) {
  if (open.empty()) {
    llvm::erase_if(dims, [](AffineExpr size) { return NodeImport::known(size) == 1; });
    return n.reshape(x, dims);
  }
  int64_t dim = open.front();
  Value isOne = n("graph.equal", {n.sizeOf(x, dim), n.integerScalar(1)});
  auto without = dims;
  without[size_t(dim)] = n.size(1);
  return buildIf(
      n, isOne, [&] { return withoutOnes(n, x, without, open.drop_front()); },
      [&] { return withoutOnes(n, x, dims, open.drop_front()); });
}

LogicalResult squeezeOnes(NodeImport &n) {
  constexpr size_t kMostOpen = 3; // each doubles the branches
  auto dims = n.dims(n.input(0));
  Ints open;
  for (auto [dim, size] : llvm::enumerate(dims))
    if (!NodeImport::known(size))
      open.push_back(int64_t(dim));
  if (open.size() <= kMostOpen)
    return n.give({withoutOnes(n, n.input(0), dims, open)});
  Value shape = n("graph.shape", {n.input(0)});
  Value isKept = n.unary("graph.not", n("graph.equal", {shape, n.integerScalar(1)}));
  Value sizes = n("graph.compress", {shape, isKept}, n.integer("axis", 0));
  return n.give({n("graph.dynamic_reshape", {n.input(0), sizes}, n.boolean("allowzero", true))});
}

LogicalResult squeeze(NodeImport &n) {
  if (axesAreComputed(n))
    return n.give({removeComputedAxes(n, n.input(0), n.input(1))});
  auto given = axesOf(n, 1);
  if (failed(n.needRank(0)) || failed(given))
    return failure();
  if (!*given)
    return squeezeOnes(n);
  auto dims = n.dims(n.input(0));
  auto axes = n.axes(**given, int64_t(dims.size()));
  if (failed(axes))
    return failure();
  const Ints &removed = *axes;
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

/// Parts whose sizes, i64 scalars of known contents, are expressions of sizes.
LogicalResult splitOpen(NodeImport &n, ArrayRef<Value> sizes, int64_t axis) {
  Value x = n.input(0), start = n.integerScalar(0);
  AffineExpr whole = n.dims(x)[size_t(axis)], sum = n.size(0);
  for (Value size : sizes)
    if (auto count = n.contents(size)) {
      sum = n.graph.shapes.simplify(sum + count->front());
      // Also of a part that nobody reads: others begin behind it.
      if (!isa<mlir::AffineSymbolExpr>(count->front()))
        makeCheck(n.builder, n.graph.location, n.graph.shapes,
                  {Condition::Relation::AtMost, n.size(0), count->front(),
                   "splits a dimension into parts of which one has {b} elements"});
    }
  if (!n.graph.shapes.equal(sum, whole))
    makeCheck(n.builder, n.graph.location, n.graph.shapes,
              {Condition::Relation::Equal, sum, whole,
               "splits a dimension of {b} into parts that add up to {a}"});
  SmallVector<Value> parts;
  for (Value size : sizes) {
    parts.push_back(cropped(n, x, axis, start, size));
    start = n.add(start, size);
  }
  return n.give(parts);
}

/// Parts whose sizes the run tells. A size is what a tensor has, and so each is made that of one: a
/// run makes and drops a tensor of booleans, which a negative number of elements refuses.
LogicalResult splitAt(NodeImport &n, Value sizes, int64_t axis) {
  int64_t count = n.node.output_size();
  if (NodeImport::known(n.dims(sizes)[0]).value_or(count) != count)
    return n.error("has not one size for each of its " + llvm::Twine(count) + " outputs");
  sizes = n.cast(n.reshape(sizes, {n.size(count)}), n.builder.getI64Type()); // which the run checks
  SmallVector<Value> parts;
  for (int64_t i = 0; i < count; ++i) {
    Value none = n.constant(HostTensor(DataType::Bool, {}));
    Value row = n("graph.dynamic_broadcast", {none, n.slice(sizes, {i}, {n.size(1)})});
    parts.push_back(n.sizeOf(row, 0));
  }
  return splitOpen(n, parts, axis);
}

LogicalResult splitKnown(NodeImport &n, ArrayRef<int64_t> sizes, int64_t axis) {
  Value x = n.input(0);
  auto dims = n.dims(x);
  auto whole = NodeImport::known(dims[size_t(axis)]);
  SmallVector<Value> parts;
  int64_t start = 0;
  for (int64_t size : sizes) {
    if (size < 0)
      return n.error("has a part of size " + llvm::Twine(size));
    Ints starts(dims.size(), 0);
    starts[size_t(axis)] = start;
    dims[size_t(axis)] = n.size(size);
    parts.push_back(n.slice(x, starts, dims));
    start += size;
  }
  if (whole && *whole != start)
    return n.error("splits a dimension of " + llvm::Twine(*whole) + " into parts that add up to " +
                   llvm::Twine(start));
  return n.give(parts);
}

/// As many parts as there are outputs, of one size but for the last, which is what remains.
LogicalResult splitEvenly(NodeImport &n, int64_t axis) {
  int64_t parts = n.intAttr("num_outputs", n.node.output_size());
  if (parts <= 0 || parts != n.node.output_size())
    return n.error("has " + llvm::Twine(n.node.output_size()) + " outputs and num_outputs " +
                   llvm::Twine(parts));
  if (auto whole = NodeImport::known(n.dims(n.input(0))[size_t(axis)])) {
    int64_t each = (*whole + parts - 1) / parts;
    Ints sizes(size_t(parts), each);
    sizes.back() = std::max<int64_t>(*whole - (parts - 1) * each, 0);
    return splitKnown(n, sizes, axis);
  }
  Value whole = n.sizeOf(n.input(0), axis);
  Value each = n.div(n.add(whole, double(parts - 1)), n.integerScalar(parts));
  SmallVector<Value> sizes(size_t(parts), each);
  sizes.back() = n.sub(whole, n.mul(each, double(parts - 1)));
  return splitOpen(n, sizes, axis);
}

LogicalResult split(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  auto axis = n.axis(n.intAttr("axis"), n.rank(n.input(0)));
  if (failed(axis))
    return failure();
  if (n.node.output_size() == 1 && !n.has(1) && !n.hasAttribute("split"))
    return n.give({n.input(0)});
  auto dims = n.dims(n.input(0));
  bool isOpen = !NodeImport::known(dims[size_t(*axis)]);
  auto isOfOutputs = [&](size_t count) {
    return count == size_t(n.node.output_size())
               ? success()
               : n.error("has " + llvm::Twine(n.node.output_size()) + " outputs for " +
                         llvm::Twine(count) + " parts");
  };
  if (!n.has(1) && !n.hasAttribute("split"))
    return splitEvenly(n, *axis);
  Value given = n.has(1) ? n.input(1) : n.vector(n.intsAttr("split"));
  if (auto sizes = n.constants(given); sizes && !isOpen)
    return failed(isOfOutputs(sizes->size())) ? failure() : splitKnown(n, *sizes, *axis);
  if (!n.isRanked(given) || n.rank(given) != 1)
    return n.error("operand 1, the sizes of the parts, is no vector");
  auto contents = n.contents(given);
  if (!contents)
    return splitAt(n, given, *axis);
  if (failed(isOfOutputs(contents->size())))
    return failure();
  SmallVector<Value> sizes;
  for (int64_t i = 0; i < n.node.output_size(); ++i)
    sizes.push_back(
        n.cast(n.reshape(n.slice(given, {i}, {n.size(1)}), {}), n.builder.getI64Type()));
  return splitOpen(n, sizes, *axis);
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

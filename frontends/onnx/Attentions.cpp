// Attention and what is used with it.
#include "frontends/onnx/Rotations.h"

namespace tensmith::onnx_import {
namespace {

LogicalResult attention(NodeImport &n) {
  SmallVector<Value> operands;
  for (size_t i = 0; i < 7; ++i)
    operands.push_back(n.maybe(i));
  SmallVector<NamedAttribute> attributes{
      n.boolean("is_causal", n.intAttr("is_causal")),
      n.integer("q_num_heads", n.intAttr("q_num_heads")),
      n.integer("kv_num_heads", n.intAttr("kv_num_heads")),
      n.integer("left_window", n.intAttr("left_window_size", -1)),
      n.integer("right_window", n.intAttr("right_window_size", -1)),
      n.real("softcap", n.floatAttr("softcap")),
      n.integer("qk_matmul_output_mode", n.intAttr("qk_matmul_output_mode"))};
  if (n.hasAttribute("scale"))
    attributes.push_back(n.real("scale", n.floatAttr("scale")));
  if (n.hasAttribute("softmax_precision"))
    attributes.push_back(n.integer("softmax_precision", n.intAttr("softmax_precision")));
  return n.give(n.graph.create("graph.attention", operands, attributes));
}

/// The scores or weights as a subgraph of one input and one output changes them.
Value modified(NodeImport &n, StringRef name, Value x) {
  auto *attribute = n.attribute(name, onnx::AttributeProto::GRAPH);
  if (!attribute || !x)
    return x;
  const onnx::GraphProto &graph = attribute->g();
  if (graph.input_size() != 1 || graph.output_size() != 1) {
    (void)n.error("subgraph '" + name + "' has not one input and one output");
    return {};
  }
  Scope scope;
  scope.parent = &n.scope;
  scope.opsets = n.scope.opsets;
  scope.prefix = n.scope.prefix + displayName(n.node) + "/";
  scope.values[graph.input(0).name()] = x;
  auto values = n.importer.importSubgraph(graph, scope, n.graph.location);
  return failed(values) ? Value() : n.cast(values->front(), n.element(x));
}

/// softmax(score_mod(q k^T * scale)) v with a prob_mod on the weights; query heads share those of k
/// and v in groups of equal size, as more rows of one product.
LogicalResult flexAttention(NodeImport &n) {
  for (size_t i = 0; i < 3; ++i)
    if (failed(n.needRank(i)) || n.rank(n.input(i)) != 4)
      return n.error("operand " + llvm::Twine(i) + " has not rank 4");
  Value q = n.widen(n.input(0)), k = n.widen(n.input(1)), v = n.widen(n.input(2));
  auto dims = n.dims(q);
  AffineExpr heads = dims[1], groups = n.dims(k)[1];
  bool isGrouped = !n.graph.shapes.equal(heads, groups);
  if (auto h = NodeImport::known(heads), g = NodeImport::known(groups); isGrouped && h && g)
    if (*g < 1 || *h % *g)
      return n.error("the numbers of heads don't divide");
  if (isGrouped) // numbers that don't divide make the run's reshape fail
    q = n.reshape(
        q, {dims[0], groups, n.graph.shapes.simplify(dims[2] * heads.floorDiv(groups)), dims[3]});
  Type precision =
      n.hasAttribute("softmax_precision") ? n.typeAttr("softmax_precision", 1) : n.element(q);
  if (!precision)
    return failure();
  Value scale = n.hasAttribute("scale") ? n.scalar(q, n.floatAttr("scale"))
                                        : n.inverseRoot(q, n.sizeOf(q, 3));
  Value scores = n.matmul(n.mul(q, scale), n.transpose(k, {0, 1, 3, 2}));
  AffineExpr keys = n.dims(k)[2], width = n.dims(v)[3];
  scores = n.cast(n.reshape(scores, {dims[0], dims[1], dims[2], keys}), precision);
  Value weights = n("graph.softmax", {modified(n, "score_mod", scores)}, n.integer("axis", 3));
  weights = modified(n, "prob_mod", weights);
  if (!weights)
    return failure();
  if (isGrouped)
    weights = n.reshape(weights, {dims[0], groups, n.dims(q)[2], keys});
  Value y = n.matmul(weights, n.cast(v, precision));
  return n.give({n.cast(n.reshape(y, {dims[0], dims[1], dims[2], width}), n.element(n.input(2)))});
}

/// The rotated half and the rest of a head: the first half and the second, or even and odd
/// elements.
struct Halves {
  Value first, second;
};

/// x as [batch, sequence, heads, size / 2, 2], or with the last two the other way round, of which
/// the one of size 2 is `axis`.
Value pairs(NodeImport &n, Value x, int64_t axis) {
  auto dims = n.dims(x);
  dims[3] = n.graph.shapes.simplify(dims[3].floorDiv(2));
  dims.insert(dims.begin() + axis, n.size(2));
  return n.reshape(x, dims);
}

/// `rotated` is 0 where it is all of x, whose size is open: where its second half begins is no
/// number then, but a reshape tells it.
Halves split(NodeImport &n, Value x, int64_t rotated, bool interleaved) {
  auto dims = n.dims(x);
  Ints starts(4, 0), steps(4, 1);
  if (!rotated) {
    int64_t axis = interleaved ? 4 : 3;
    Value paired = pairs(n, x, axis);
    auto part = [&](int64_t number) {
      NodeImport::Dims sizes = n.dims(paired), half = dims;
      half[3] = n.graph.shapes.simplify(dims[3].floorDiv(2));
      Ints first(5, 0);
      sizes[size_t(axis)] = n.size(1);
      first[size_t(axis)] = number;
      return n.reshape(n.slice(paired, first, sizes), half);
    };
    return paired ? Halves{part(0), part(1)} : Halves{};
  }
  dims[3] = n.size(rotated / 2);
  steps[3] = interleaved ? 2 : 1;
  Value first = n.graph.slice(x, starts, steps, dims);
  starts[3] = interleaved ? 1 : rotated / 2;
  return {first, n.graph.slice(x, starts, steps, dims)};
}

/// The inverse of `split`.
Value join(NodeImport &n, Halves halves, bool interleaved) {
  if (!interleaved)
    return n.concat({halves.first, halves.second}, 3);
  if (!halves.first || !halves.second)
    return {};
  auto dims = n.dims(halves.first), pairs = dims;
  pairs.push_back(n.size(1));
  dims[3] = n.graph.shapes.simplify(dims[3] * 2);
  return n.reshape(n.concat({n.reshape(halves.first, pairs), n.reshape(halves.second, pairs)}, 4),
                   dims);
}

} // namespace

Value rotations(NodeImport &n, Value cache, Value positions) {
  Value rows = positions ? n("graph.gather", {cache, positions}, n.integer("axis", 0)) : cache;
  if (!rows || !n.isRanked(rows) || n.rank(rows) != 3)
    return {};
  auto dims = n.dims(rows);
  dims.insert(dims.begin() + 2, n.size(1));
  return n.reshape(rows, dims);
}

Value rotatedHeads(NodeImport &n, Value x, Value cosines, Value sines, int64_t rotated,
                   bool interleaved) {
  if (!x)
    return x;
  AffineExpr whole = n.dims(x)[3];
  auto size = NodeImport::known(whole);
  if (size && !rotated)
    rotated = *size;
  if (rotated < 0 || rotated % 2 || (size && (rotated < 2 || rotated > *size))) {
    (void)n.error("rotates " + llvm::Twine(rotated) + " elements of a head of " +
                  (size ? llvm::Twine(*size) : llvm::Twine("unknown size")));
    return {};
  }
  // One angle alone would be broadcast to all.
  AffineExpr half = rotated ? n.size(rotated / 2) : n.graph.shapes.simplify(whole.floorDiv(2));
  for (Value *table : {&cosines, &sines})
    if (auto dims = n.dims(*table); !n.graph.shapes.equal(dims.back(), half)) {
      dims.back() = half;
      *table = n.reshape(*table, dims);
    }
  Halves h = split(n, x, rotated, interleaved);
  Halves turned{n.sub(n.mul(cosines, h.first), n.mul(sines, h.second)),
                n.add(n.mul(sines, h.first), n.mul(cosines, h.second))};
  Value result = join(n, turned, interleaved);
  if (!result || !rotated || rotated == size)
    return result;
  auto dims = n.dims(x);
  dims[3] = n.graph.shapes.simplify(whole - rotated);
  return n.concat({result, n.slice(x, {0, 0, 0, rotated}, dims)}, 3);
}

namespace {

/// Operands: x [batch, heads, sequence, size] or [batch, sequence, heads * size], cosines, sines,
/// positions.
LogicalResult rotaryEmbedding(NodeImport &n) {
  if (failed(n.needRank(0)) || failed(n.needRank(1)) || failed(n.needRank(2)))
    return failure();
  Value x = n.input(0);
  auto original = n.dims(x);
  int64_t heads = n.intAttr("num_heads");
  if (original.size() == 3) {
    if (heads < 1)
      return n.error("num_heads is " + llvm::Twine(heads) + ", which an operand of rank 3 needs");
    AffineExpr size = n.graph.shapes.simplify(original[2].floorDiv(heads));
    x = n.reshape(x, {original[0], original[1], n.size(heads), size});
  } else if (original.size() == 4) {
    x = n.transpose(x, {0, 2, 1, 3});
  } else {
    return n.error("operand 0 has rank " + llvm::Twine(original.size()) + ", not 3 or 4");
  }
  Value cosines = rotations(n, n.input(1), n.input(3)),
        sines = rotations(n, n.input(2), n.input(3));
  if (!cosines || !sines)
    return n.error("the caches of cosines and sines have not the rank that goes with position_ids");
  Value result = rotatedHeads(n, x, cosines, sines, n.intAttr("rotary_embedding_dim"),
                              n.intAttr("interleaved") != 0);
  return n.give(
      {original.size() == 3 ? n.reshape(result, original) : n.transpose(result, {0, 2, 1, 3})});
}

constexpr Operator kOperators[] = {{"Attention", attention},
                                   {"RotaryEmbedding", rotaryEmbedding},
                                   {"FlexAttention", flexAttention, "ai.onnx.preview"}};

} // namespace

std::span<const Operator> attentionOperators() { return kOperators; }

} // namespace tensmith::onnx_import

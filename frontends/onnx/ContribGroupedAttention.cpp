// Attention of groups of heads that keeps its keys and values in a cache and rotates by position,
// which is what language models are exported with; see Contrib.h.
#include "frontends/onnx/ContribAttention.h"
#include "frontends/onnx/Rotations.h"

#include <limits>

namespace tensmith::onnx_import {
namespace {

using Dims = NodeImport::Dims;

enum GroupOperand : size_t {
  PastKey = 3,
  PastValue,
  LengthsLessOne,
  TotalLength,
  Cosines,
  Sines,
  Positions,
  AddedBias,
  Sink,
  KeyScale,
  ValueScale,
  QueryNorm,
  KeyNorm
};

Value asI64(NodeImport &n, Value x, ArrayRef<AffineExpr> dims) {
  return n.reshape(n.cast(x, n.builder.getI64Type()), dims);
}

/// How many keys each image has before the new ones, [batch]: none in a first prompt, which is as
/// long as all there is.
Value lengthsBefore(NodeImport &n, Value q, AffineExpr batch) {
  Value length = n.sizeOf(q, 1);
  Value whole = asI64(n, n.input(TotalLength), {});
  Value lengths = asI64(n, n.input(LengthsLessOne), {batch});
  if (!length || !whole || !lengths)
    return {};
  Value isPrompt = n("graph.equal", {length, whole}), zero = n.scalar(length, 0);
  return isPrompt ? n.where(isPrompt, zero, n.sub(n.add(lengths, 1), length)) : isPrompt;
}

/// The past of each image with the new keys or values behind it; the result is as long as the
/// longer of the buffer that the past is in and of the total length.
Value appended(NodeImport &n, Value past, Value fresh, Value before) {
  if (!past || !fresh || !before || NodeImport::known(n.dims(past)[2]) == 0)
    return fresh;
  Value whole = asI64(n, n.input(TotalLength), {n.size(1)});
  Value have = n.reshape(n.sizeOf(past, 2), {n.size(1)});
  if (!whole || !have)
    return {};
  Value missing = n("graph.max", {n.sub(whole, have), n.scalar(whole, 0)});
  Value zeros = n.vector({0, 0, 0, 0, 0, 0}), last = n.vector({0});
  if (!missing)
    return {};
  Value pads = n.concat({zeros, missing, last}, 0);
  Value buffer = n("graph.dynamic_pad", {past, pads, n.none(), n.none()});
  if (!buffer)
    return {};
  return n("graph.tensor_scatter", {buffer, fresh, before}, n.integer("axis", 2));
}

/// Queries or keys normalised by head, then rotated by their positions.
Value prepared(NodeImport &n, Value x, GroupOperand norm, Value cosines, Value sines) {
  if (x && n.has(norm))
    x = n("graph.rms_norm", {x, n.input(norm)},
          {n.integer("axis", 3), n.real("epsilon", n.floatAttr("qk_norm_epsilon", 1e-6))});
  if (x && n.intAttr("do_rotary")) {
    auto half = NodeImport::known(n.dims(cosines).back());
    x = rotatedHeads(n, x, cosines, sines, half ? 2 * *half : 0,
                     n.intAttr("rotary_interleaved") != 0);
  }
  return x;
}

/// 0 for keys that a query sees, which are those up to its own place and within the window, and
/// minus infinity for others; [batch, 1, queries, keys].
Value causalBias(NodeImport &n, Value before, AffineExpr queries, AffineExpr keys) {
  AffineExpr one = n.size(1);
  Value query = n.add(n.reshape(before, {n.dims(before)[0], one, one, one}),
                      n.iota({one, one, queries, one}, 2));
  Value key = n.iota({one, one, one, keys}, 3);
  Value isSeen = n("graph.less_or_equal", {key, query});
  if (int64_t window = n.intAttr("local_window_size", -1); window >= 0 && isSeen)
    isSeen = n("graph.and", {isSeen, n("graph.less", {query, n.add(key, double(window))})});
  Type f32 = n.builder.getF32Type();
  return isSeen ? n.where(isSeen, n.graph.scalar(f32, 0),
                          n.graph.scalar(f32, -std::numeric_limits<double>::infinity()))
                : isSeen;
}

/// The bias that the node is given, as wide as there are keys.
Value givenBias(NodeImport &n, AffineExpr keys) {
  Value bias = n.input(AddedBias);
  if (!bias || !n.isRanked(bias) || n.rank(bias) != 4 ||
      n.graph.shapes.equal(n.dims(bias)[3], keys))
    return bias;
  auto dims = n.dims(bias);
  Value wide = n.iota({keys}, 0), have = n.sizeOf(bias, 3);
  Value place = n("graph.min", {wide, n.add(have, -1)});
  return place ? n("graph.gather", {bias, place}, n.integer("axis", 3)) : place;
}

/// A key that every query sees, with a value of zero, and the sink as its score: what it takes away
/// from the others' weights is what the sink does.
void addSink(NodeImport &n, Query &query, int64_t heads) {
  auto withZero = [&](Value x) {
    auto dims = n.dims(x);
    dims[2] = n.size(1);
    return n.concat({x, n.filled(n.element(x), dims, 0)}, 2);
  };
  query.k = withZero(query.k);
  query.v = withZero(query.v);
  auto dims = n.dims(query.bias);
  Dims column{n.size(1), n.size(heads), n.size(1), n.size(1)};
  Type f32 = n.builder.getF32Type();
  Value score =
      n.has(Sink) ? n.reshape(n.cast(n.input(Sink), f32), column) : n.filled(f32, column, 0);
  Dims of{dims[0], n.size(heads), dims[2], n.size(1)};
  Dims all{dims[0], n.size(heads), dims[2], dims[3]};
  query.bias = n.concat({n.broadcast(query.bias, all), n.broadcast(score, of)}, 3);
}

LogicalResult checkGroups(NodeImport &n, int64_t heads, int64_t keyHeads) {
  if (failed(needOperands(n, 1, 1)) || !n.has(LengthsLessOne) || !n.has(TotalLength))
    return n.error("has no query, seqlens_k or total_sequence_length");
  if (heads < 1 || keyHeads < 1 || heads % keyHeads || n.rank(n.input(0)) != 3)
    return n.error("the query has not rank 3, or kv_num_heads doesn't divide num_heads");
  bool quantized = n.has(KeyScale) || n.has(ValueScale);
  if (quantized || n.intAttr("sliding_window_cache") || !n.intAttr("causal", 1))
    return n.error("quantised and sliding caches, and causal = 0, are not supported");
  for (size_t i : {size_t(PastKey), size_t(PastValue)})
    if (n.has(i) && (!n.isRanked(n.input(i)) || n.rank(n.input(i)) != 4))
      return n.error("operand " + llvm::Twine(i) + " has not a known rank of 4");
  return success();
}

/// Queries, keys and values as [batch, length, heads, size].
FailureOr<Query> groupedHeads(NodeImport &n, int64_t heads, int64_t keyHeads) {
  Value q = n.input(0), k = n.input(1), v = n.input(2);
  if (!k) {
    auto width = NodeImport::known(n.dims(q)[2]);
    if (!width || *width % (heads + 2 * keyHeads))
      return n.error("the width of the packed queries, keys and values is not known, or not "
                     "divided by the number of heads");
    int64_t size = *width / (heads + 2 * keyHeads);
    v = columns(n, q, (heads + keyHeads) * size, keyHeads * size);
    k = columns(n, q, heads * size, keyHeads * size);
    q = columns(n, q, 0, heads * size);
  }
  for (Value part : {q, k, v})
    if (!part || !n.isRanked(part) || n.rank(part) != 3)
      return n.error("queries, keys and values have not rank 3");
  Query query;
  query.q = apart(n, q, heads), query.k = apart(n, k, keyHeads), query.v = apart(n, v, keyHeads);
  return query;
}

} // namespace

LogicalResult groupQueryAttention(NodeImport &n) {
  int64_t heads = n.intAttr("num_heads"), keyHeads = n.intAttr("kv_num_heads");
  if (failed(checkGroups(n, heads, keyHeads)))
    return failure();
  auto query = groupedHeads(n, heads, keyHeads);
  if (failed(query) || !query->q || !query->k || !query->v)
    return failure();
  AffineExpr batch = n.dims(query->q)[0], queries = n.dims(query->q)[1], one = n.size(1);
  Value before = lengthsBefore(n, query->q, batch);
  if (!before)
    return failure();
  before = n.broadcast(before, {batch});
  Value cosines, sines;
  if (n.intAttr("do_rotary")) {
    Value positions = n.has(Positions)
                          ? n.input(Positions)
                          : n.add(n.reshape(before, {batch, one}), n.iota({one, queries}, 1));
    cosines = n.has(Cosines) ? rotations(n, n.input(Cosines), positions) : Value();
    sines = n.has(Sines) ? rotations(n, n.input(Sines), positions) : Value();
    if (!cosines || !sines)
      return n.error("the caches of cosines and sines are missing, or have not rank 2");
  }
  query->q = headsFirst(n, prepared(n, query->q, QueryNorm, cosines, sines));
  Value key = headsFirst(n, prepared(n, query->k, KeyNorm, cosines, sines));
  query->k = appended(n, n.input(PastKey), key, before);
  query->v = appended(n, n.input(PastValue), headsFirst(n, query->v), before);
  if (!query->q || !query->k || !query->v)
    return failure();
  AffineExpr keys = n.dims(query->k)[2];
  query->bias = total(n, {causalBias(n, before, queries, keys), givenBias(n, keys)});
  Value presentKey = query->k, presentValue = query->v;
  if (n.has(Sink) || n.intAttr("smooth_softmax"))
    addSink(n, *query, heads);
  auto *op = attend(n, *query, n.intAttr("qk_output") == 2 ? 3 : 0);
  if (!op)
    return failure();
  auto dims = n.dims(op->getResult(0));
  Value y = n.reshape(headsFirst(n, op->getResult(0)),
                      {batch, queries, n.graph.shapes.simplify(dims[1] * dims[3])});
  return n.give({y, presentKey, presentValue, op->getResult(3)});
}

// ---- RotaryEmbedding

/// Operands: x [batch, length, heads * size] or [batch, heads, length, size], positions ([batch,
/// length], or one number, the first), cosines, sines.
LogicalResult contribRotaryEmbedding(NodeImport &n) {
  if (failed(needOperands(n, 4, 4)))
    return failure();
  Value x = n.input(0), positions = n.input(1);
  auto original = n.dims(x);
  auto half = NodeImport::known(n.dims(n.input(2)).back());
  int64_t heads = n.intAttr("num_heads");
  if (n.intAttr("is_packed_batching") || n.floatAttr("scale", 1) != 1)
    return n.error("is_packed_batching and a scale are not supported");
  if (original.size() == 4) {
    x = n.transpose(x, {0, 2, 1, 3});
  } else if (original.size() == 3 && heads > 0) {
    x = apart(n, x, heads);
  } else if (original.size() == 3 && half) { // the cache is as wide as half a head
    auto width = NodeImport::known(original[2]);
    if (!width || *half < 1 || *width % (2 * *half))
      return n.error("the number of heads is not known");
    x = apart(n, x, *width / (2 * *half));
  } else {
    return n.error("operand 0 has not rank 3 or 4, or the number of heads is not known");
  }
  if (!x)
    return failure();
  if (n.rank(positions) == 1)
    positions = n.add(n.reshape(positions, {n.size(1), n.size(1)}),
                      n.cast(n.iota({n.size(1), n.dims(x)[1]}, 1), n.element(positions)));
  Value cosines = rotations(n, n.input(2), positions), sines = rotations(n, n.input(3), positions);
  if (!cosines || !sines)
    return n.error("the caches of cosines and sines have not rank 2");
  Value y = rotatedHeads(n, x, cosines, sines, half ? 2 * *half : 0, n.intAttr("interleaved") != 0);
  return n.give({original.size() == 4 ? n.transpose(y, {0, 2, 1, 3}) : n.reshape(y, original)});
}

} // namespace tensmith::onnx_import

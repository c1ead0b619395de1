// Attention as smaller operators: two matrix products around a softmax (ONNX Attention, opset 24).
//
// Query heads that share keys become more rows of one product, so that keys and values are never
// repeated in memory; they stay that from the scores to the values, so that one kernel may hold
// what is between. Masks, causality and padding are one bias added to the scores; a row whose bias
// is minus infinity throughout has weights of zero.
#include "compiler/graph/GraphCode.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tensmith::graph {

namespace {
constexpr double kMasked = -std::numeric_limits<double>::infinity();

struct Heads {
  Value value; // [batch, heads, length, size]
  GraphCode::Dims dims;
};

/// A 3-d operand [batch, length, heads * size] with its heads apart; a 4-d one as it is.
std::optional<Heads> headsOf(const GraphCode &code, Value x, int64_t heads) {
  x = code.widen(x);
  if (!x)
    return std::nullopt;
  GraphCode::Dims dims = code.dims(x);
  if (dims.size() == 4)
    return Heads{x, dims};
  if (dims.size() != 3 || heads <= 0)
    return std::nullopt;
  AffineExpr size = code.graph.shapes.simplify(dims[2].floorDiv(heads));
  Value split = code.reshape(x, {dims[0], dims[1], code.size(heads), size});
  Value swapped = code.transpose(split, {0, 2, 1, 3});
  if (!swapped)
    return std::nullopt;
  return Heads{swapped, code.dims(swapped)};
}

/// The mask's share of the bias: a float mask itself, 0 or minus infinity for a boolean one; keys
/// beyond its end are masked. Null where it is longer than they are.
Value maskBias(const GraphCode &code, Value mask, AffineExpr keys, Type type) {
  Value bias = mask;
  if (GraphCode::element(mask).isSignlessInteger(1))
    bias = code.where(mask, code.graph.scalar(type, 0), code.graph.scalar(type, kMasked));
  else
    bias = code.cast(mask, type);
  if (!bias)
    return bias;
  AffineExpr length = code.dims(mask).back();
  if (code.graph.shapes.equal(length, keys))
    return bias;
  auto constantLength = dyn_cast<AffineConstantExpr>(length);
  auto constantKeys = dyn_cast<AffineConstantExpr>(keys);
  if (!constantLength ||
      !constantKeys) { // the keys behind the mask, of which the run knows how many
    GraphCode::Dims rest = code.dims(bias);
    rest.back() = code.graph.shapes.simplify(keys - length);
    Value behind = code.broadcast(code.graph.scalar(type, kMasked), rest);
    return code.concat({bias, behind}, GraphCode::rank(bias) - 1);
  }
  if (constantLength.getValue() > constantKeys.getValue())
    return {};
  SmallVector<int64_t> low(GraphCode::rank(mask), 0), high = low;
  high.back() = constantKeys.getValue() - constantLength.getValue();
  return code.op("graph.pad", {bias, code.graph.scalar(type, kMasked)},
                 {code.integers("low", low), code.integers("high", high)});
}

Value biasWhere(const GraphCode &code, Value isAllowed, Type type) {
  return code.where(isAllowed, code.graph.scalar(type, 0), code.graph.scalar(type, kMasked));
}

struct Masks {
  Value mask, pastKey, lengths; // none where absent
  bool isCausal;
  int64_t before, after; // keys that a query sees on either side of its own; all where negative
};

/// A part of the bias, or numbers of queries, that broadcasts to [batch, heads, queries, ...], as
/// it lies beside rows of queries whose heads share keys (`mergeGroups`).
Value besideGroups(const GraphCode &code, Value part, const Heads &q, AffineExpr keyHeads) {
  auto &shapes = code.graph.shapes;
  if (!part || shapes.equal(q.dims[1], keyHeads))
    return part;
  GraphCode::Dims dims = code.dims(part);
  AffineExpr one = code.size(1), groups = shapes.simplify(q.dims[1].floorDiv(keyHeads));
  if (!isa<AffineConstantExpr>(groups)) // scores are split before the bias is added
    return part;
  AffineExpr rows = shapes.simplify(q.dims[2] * groups);
  while (dims.size() < 4)
    dims.insert(dims.begin(), one);
  if (dims[1] == one && dims[2] == one)
    return part;
  if (dims[1] == one) { // each head's rows are those
    Value apart = code.reshape(part, {dims[0], one, one, dims[2], dims[3]});
    apart = code.broadcast(apart, {dims[0], one, groups, q.dims[2], dims[3]});
    return code.reshape(apart, {dims[0], one, rows, dims[3]});
  }
  Value whole = code.broadcast(code.reshape(part, dims), {dims[0], q.dims[1], q.dims[2], dims[3]});
  return code.reshape(whole, {dims[0], keyHeads, rows, dims[3]});
}

/// All that is added to the scores; `isNeeded` is false where that is nothing.
Value biasOf(const GraphCode &code, const Masks &masks, const Heads &q, const Heads &k,
             bool &isNeeded) {
  Type type = GraphCode::element(q.value);
  AffineExpr queries = q.dims[2], keys = k.dims[2];
  SmallVector<Value> parts;
  if (!GraphCode::isAbsent(masks.mask))
    parts.push_back(besideGroups(code, maskBias(code, masks.mask, keys, type), q, k.dims[1]));
  Value lengths;
  if (!GraphCode::isAbsent(masks.lengths)) {
    lengths = code.cast(masks.lengths, code.builder.getI64Type());
    // No more keys than there are, nor fewer than none, whatever the run says.
    lengths = code.op("graph.min", {lengths, code.sizeOf(k.value, 2)});
    lengths = code.op("graph.max", {lengths, code.graph.scalar(code.builder.getI64Type(), 0)});
    lengths = code.reshape(lengths, {q.dims[0], code.size(1), code.size(1), code.size(1)});
    Value key = code.iota({code.size(1), keys}, 1);
    parts.push_back(biasWhere(code, code.op("graph.less", {key, lengths}), type));
  }
  if (masks.isCausal || masks.before >= 0 || masks.after >= 0) {
    Value query = code.iota({queries, code.size(1)}, 0), key = code.iota({code.size(1), keys}, 1);
    if (lengths)
      query = code.add(query, code.sub(lengths, code.sizeOf(q.value, 2)));
    else if (!GraphCode::isAbsent(masks.pastKey))
      query = code.add(query, code.sizeOf(masks.pastKey, 2));
    query = besideGroups(code, query, q, k.dims[1]);
    auto allowOrdered = [&](Value a, Value b) {
      parts.push_back(biasWhere(code, code.op("graph.less_or_equal", {a, b}), type));
    };
    if (masks.isCausal)
      allowOrdered(key, query);
    if (masks.before >= 0)
      allowOrdered(query, code.add(key, double(masks.before)));
    if (masks.after >= 0)
      allowOrdered(key, code.add(query, double(masks.after)));
  }
  isNeeded = !parts.empty();
  Value bias;
  for (Value part : parts)
    bias = bias || part != parts.front() ? code.add(bias, part) : part;
  return bias;
}

/// [batch, heads, rows, columns] with the heads that share a key below one another.
Value mergeGroups(const GraphCode &code, Value x, AffineExpr keyHeads) {
  if (!x)
    return x;
  GraphCode::Dims dims = code.dims(x);
  if (code.graph.shapes.equal(dims[1], keyHeads))
    return x;
  AffineExpr rows = code.graph.shapes.simplify(dims[2] * dims[1].floorDiv(keyHeads));
  return code.reshape(x, {dims[0], keyHeads, rows, dims[3]});
}

/// The inverse of `mergeGroups`, for what products made of it.
Value splitGroups(const GraphCode &code, Value x, const Heads &q) {
  if (!x)
    return x;
  GraphCode::Dims dims = code.dims(x);
  return dims[1] == q.dims[1] ? x : code.reshape(x, {dims[0], q.dims[1], q.dims[2], dims.back()});
}

Value appendToPast(const GraphCode &code, Value past, Value present) {
  return GraphCode::isAbsent(past) ? present : code.concat({code.widen(past), present}, 2);
}
} // namespace

/// Times the scale that is given, or 1 / sqrt(length of a head), which the run may tell.
static Value scaled(const GraphCode &code, Value query, std::optional<APFloat> scale) {
  auto size = dyn_cast<AffineConstantExpr>(code.dims(query)[3]);
  if (scale)
    return code.mul(query, scale->convertToDouble());
  if (size)
    return code.mul(query, 1 / std::sqrt(double(std::max<int64_t>(size.getValue(), 1))));
  Value length = code.cast(code.sizeOf(query, 3), code.builder.getF64Type()), one;
  length = code.op("graph.max", {length, one = code.scalar(length, 1)});
  Value factor = code.div(one, code.unary("graph.sqrt", length));
  return code.mul(query, code.cast(factor, GraphCode::element(query)));
}

LogicalResult AttentionOp::decompose(GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  GraphCode code(graph);
  for (Value operand : getOperands())
    if (!GraphCode::isAbsent(operand) && !GraphCode::isRanked(operand))
      return failure();
  auto q = headsOf(code, getQ(), getQNumHeads()), k = headsOf(code, getK(), getKvNumHeads()),
       v = headsOf(code, getV(), getKvNumHeads());
  if (!q || !k || !v)
    return failure();
  auto queryHeads = dyn_cast<AffineConstantExpr>(q->dims[1]);
  auto keyHeads = dyn_cast<AffineConstantExpr>(k->dims[1]);
  // Of what the run tells it is checked (A1).
  if (keyHeads && keyHeads.getValue() == 0)
    return failure();
  if (queryHeads && keyHeads && queryHeads.getValue() % keyHeads.getValue() != 0)
    return failure();
  AffineExpr groups = k->dims[1];

  Value presentKey = appendToPast(code, getPastKey(), k->value);
  Value presentValue = appendToPast(code, getPastValue(), v->value);
  if (!presentKey || !presentValue)
    return failure();
  k->dims = code.dims(presentKey);

  Value query = mergeGroups(code, scaled(code, q->value, getScale()), groups);
  Value scores = code.matmul(query, code.transpose(presentKey, {0, 1, 3, 2}));
  // Only the run knows how many heads share keys: rows in between would be of a quotient.
  if (!isa<AffineConstantExpr>(graph.shapes.simplify(q->dims[1].floorDiv(groups))))
    scores = splitGroups(code, scores, *q);
  SmallVector<Value> stages{scores};

  double softcap = getSoftcap().convertToDouble();
  if (softcap > 0)
    scores = code.mul(code.unary("graph.tanh", code.mul(scores, 1 / softcap)), softcap);
  stages.push_back(scores);

  bool hasBias = false;
  Masks masks{getMask(),
              getPastKey(),
              getNonpadKvSeqlen(),
              getIsCausal(),
              int64_t(getLeftWindow()),
              int64_t(getRightWindow())};
  Value bias = biasOf(code, masks, *q, *k, hasBias);
  if (hasBias)
    scores = code.add(scores, bias);
  stages.push_back(scores);

  // By its order alone each query sees the first key.
  bool mayHideAll = !GraphCode::isAbsent(masks.mask) || !GraphCode::isAbsent(masks.lengths) ||
                    masks.before >= 0 || masks.after >= 0;
  Value isMasked;
  if (hasBias && mayHideAll && scores) {
    Value largest = code.reduce("graph.reduce_max", bias, GraphCode::rank(bias) - 1, true);
    isMasked = code.op("graph.equal", {largest, code.scalar(bias, kMasked)});
    // A softmax of what is infinite throughout has no derivative.
    scores = code.where(isMasked, code.scalar(scores, 0), scores);
  }
  Value weights = code.op("graph.softmax", {scores}, {code.integer("axis", 3)});
  if (isMasked && weights)
    weights = code.where(isMasked, code.scalar(weights, 0), weights);
  stages.push_back(weights);

  Value y = splitGroups(code, code.matmul(mergeGroups(code, weights, groups), presentValue), *q);
  if (y && GraphCode::rank(getQ()) == 3) {
    AffineExpr width = graph.shapes.simplify(q->dims[1] * v->dims[3]);
    y = code.reshape(code.transpose(y, {0, 2, 1, 3}), {q->dims[0], q->dims[2], width});
  }
  uint64_t mode = getQkMatmulOutputMode();
  if (mode >= stages.size())
    return failure();
  return finish(
      {code.cast(y, GraphCode::element(getY())),
       code.cast(presentKey, GraphCode::element(getPresentKey())),
       code.cast(presentValue, GraphCode::element(getPresentValue())),
       code.cast(splitGroups(code, stages[mode], *q), GraphCode::element(getQkMatmulOutput()))},
      results);
}

} // namespace tensmith::graph

// ONNX Runtime's attention operators as the graph's one: they differ in how heads are packed, in
// how masks are told, and in where past keys and values lie. See Contrib.h.
//
// Masked is "mask_filter_value more", as there, and not minus infinity: a row of which every key is
// masked has the weights that it would have without the mask.
#include "frontends/onnx/ContribAttention.h"
#include "frontends/onnx/IntegerProducts.h"

namespace tensmith::onnx_import {

Value columns(NodeImport &n, Value x, int64_t start, int64_t count) {
  if (!x)
    return x;
  auto dims = n.dims(x);
  Ints starts(dims.size(), 0);
  starts.back() = start;
  dims.back() = n.size(count);
  return n.slice(x, starts, dims);
}

Value apart(NodeImport &n, Value x, int64_t heads) {
  if (!x)
    return x;
  auto dims = n.dims(x);
  AffineExpr size = n.graph.shapes.simplify(dims[2].floorDiv(heads));
  return n.reshape(x, {dims[0], dims[1], n.size(heads), size});
}

Value headsFirst(NodeImport &n, Value x) { return n.transpose(x, {0, 2, 1, 3}); }

Value total(NodeImport &n, ArrayRef<Value> parts) {
  Value sum;
  for (Value part : parts)
    if (part)
      sum = sum ? n.add(sum, n.cast(part, n.element(sum))) : part;
  return sum;
}

mlir::Operation *attend(NodeImport &n, const Query &query, int64_t shownStage) {
  if (!query.q || !query.k || !query.v)
    return nullptr;
  auto maybe = [&](Value v) { return v ? v : n.none(); };
  SmallVector<NamedAttribute> attributes{
      n.boolean("is_causal", query.isCausal), n.integer("q_num_heads", query.heads),
      n.integer("kv_num_heads", query.keyHeads), n.real("softcap", n.floatAttr("softcap")),
      n.integer("qk_matmul_output_mode", shownStage)};
  if (double scale = n.floatAttr("scale"))
    attributes.push_back(n.real("scale", scale));
  Value bias = query.bias;
  return n.graph.create("graph.attention",
                        {query.q, query.k, query.v, maybe(bias), maybe(query.pastKey),
                         maybe(query.pastValue), n.none()},
                        attributes);
}

namespace {

/// One of the places along a dimension of known size, which goes away.
Value at(NodeImport &n, Value x, int64_t dim, int64_t place) {
  if (!x)
    return x;
  auto dims = n.dims(x);
  Ints starts(dims.size(), 0);
  starts[size_t(dim)] = place;
  dims[size_t(dim)] = n.size(1);
  Value part = n.slice(x, starts, dims);
  dims.erase(dims.begin() + dim);
  return n.reshape(part, dims);
}

/// Where a mask of one dimension says how long each key sequence is: [batch] ends, or those and
/// then starts, or (3 batch + 2) ends and what only packing needs.
struct Lengths {
  Value ends, starts;
};

Lengths lengthsOf(NodeImport &n, Value mask, AffineExpr batch) {
  AffineExpr count = n.dims(mask)[0];
  Lengths lengths{mask, {}};
  auto &shapes = n.graph.shapes;
  if (!shapes.equal(count, batch)) {
    lengths.ends = n.slice(mask, {0}, {batch});
    auto known = NodeImport::known(batch);
    bool isTwice = shapes.equal(count, shapes.simplify(batch * 2));
    if (isTwice && known)
      lengths.starts = n.slice(mask, {*known}, {batch});
    else if (isTwice)
      lengths.ends = {};
  }
  return lengths;
}

/// What the mask adds to the scores: 0 or `mask_filter_value`. [batch or 1, 1, queries or 1, keys];
/// null, with an error, where the mask's form is not known.
Value maskBias(NodeImport &n, Value mask, AffineExpr batch, AffineExpr queries, AffineExpr keys) {
  Type type = n.builder.getF32Type();
  double filter = n.floatAttr("mask_filter_value", -10000);
  auto bias = [&](Value isSeen) {
    return isSeen ? n.where(isSeen, n.graph.scalar(type, 0), n.graph.scalar(type, filter)) : isSeen;
  };
  if (!n.isRanked(mask)) {
    (void)n.error("the mask has no known rank");
    return {};
  }
  AffineExpr one = n.size(1);
  if (n.rank(mask) == 1) {
    Lengths lengths = lengthsOf(n, mask, batch);
    if (!lengths.ends) {
      (void)n.error("a mask of ends and starts needs a known batch size");
      return {};
    }
    auto perImage = [&](Value v) {
      return n.reshape(n.cast(v, n.builder.getI64Type()), {batch, one, one, one});
    };
    Value key = n.iota({one, one, one, keys}, 3);
    Value isSeen = n("graph.less", {key, perImage(lengths.ends)});
    if (lengths.starts)
      isSeen =
          n("graph.and", {isSeen, n("graph.greater_or_equal", {key, perImage(lengths.starts)})});
    return bias(isSeen);
  }
  auto dims = n.dims(mask);
  if (n.rank(mask) == 2)
    mask = n.reshape(mask, {dims[0], one, one, dims[1]});
  else if (n.rank(mask) == 3)
    mask = n.reshape(mask, {dims[0], one, dims[1], dims[2]});
  else if (n.rank(mask) == 4) // of all positions, of which the last queries are asked
    mask = n.slice(mask, {0, 0, 0, 0}, {dims[0], dims[1], queries, keys});
  else
    (void)n.error("the mask has more than 4 dimensions");
  return mask ? bias(n("graph.greater", {mask, n.scalar(mask, 0)})) : mask;
}

// ---- Attention and QAttention: one product makes queries, keys and values

struct SelfAttention {
  Value joined; // [batch, length, sizes[0] + sizes[1] + sizes[2]]
  Ints sizes;
  Value mask, past, bias;
};

LogicalResult attendToItself(NodeImport &n, const SelfAttention &self) {
  int64_t heads = n.intAttr("num_heads");
  if (!self.joined)
    return failure();
  if (n.intAttr("do_rotary") || n.intAttr("past_present_share_buffer"))
    return n.error("do_rotary and past_present_share_buffer are not supported");
  int64_t q = self.sizes[0], k = self.sizes[1], v = self.sizes[2];
  if (heads < 1 || q < 1 || q != k || v < 1 || q % heads || v % heads)
    return n.error("its num_heads does not divide the hidden sizes, or those of q and k differ");
  auto dims = n.dims(self.joined);
  Query query;
  query.q = columns(n, self.joined, 0, q);
  query.k = columns(n, self.joined, q, k);
  query.v = columns(n, self.joined, q + k, v);
  query.heads = query.keyHeads = heads;
  query.isCausal = n.intAttr("unidirectional") != 0;
  AffineExpr keys = dims[1];
  if (self.past) {
    if (!n.isRanked(self.past) || n.rank(self.past) != 5 ||
        NodeImport::known(n.dims(self.past)[0]) != 2)
      return n.error("the past is not of the shape [2, batch, heads, length, size]");
    query.pastKey = at(n, self.past, 0, 0);
    query.pastValue = at(n, self.past, 0, 1);
    keys = n.graph.shapes.simplify(keys + n.dims(self.past)[3]);
  }
  Value mask;
  if (self.mask && !(mask = maskBias(n, self.mask, dims[0], dims[1], keys)))
    return failure();
  query.bias = total(n, {mask, self.bias});
  auto *op = attend(n, query);
  if (!op)
    return failure();
  SmallVector<Value> results{op->getResult(0)};
  if (n.wants(1)) {
    SmallVector<Value> both;
    for (unsigned i : {1u, 2u}) {
      auto shape = n.dims(op->getResult(i));
      shape.insert(shape.begin(), n.size(1));
      both.push_back(n.reshape(op->getResult(i), shape));
    }
    results.push_back(n.concat(both, 0));
  }
  return n.give(results);
}

/// The widths of queries, keys and values, as the node says or as thirds of the weights'.
FailureOr<Ints> hiddenSizes(NodeImport &n, Value weights) {
  if (!n.isRanked(weights) || n.rank(weights) != 2)
    return n.error("the weights have not rank 2");
  auto width = NodeImport::known(n.dims(weights)[1]);
  Ints sizes = n.intsAttr("qkv_hidden_sizes");
  if (sizes.empty() && width)
    sizes.assign(3, *width / 3);
  if (!width || sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != *width)
    return n.error("the widths of queries, keys and values are not known, or don't add up to the "
                   "weights' columns");
  return sizes;
}

/// Operands: x, weights, bias, mask, past, attention bias, past length.
LogicalResult attention(NodeImport &n) {
  if (failed(needOperands(n, 2, 2)) || n.rank(n.input(0)) != 3)
    return n.error("operand 0 has not rank 3");
  auto sizes = hiddenSizes(n, n.input(1));
  if (failed(sizes))
    return failure();
  Value joined = n.matmul(n.input(0), n.input(1));
  if (n.has(2))
    joined = n.add(joined, n.input(2));
  return attendToItself(n, {joined, *sizes, n.input(3), n.input(4), n.input(5)});
}

/// Operands: x, weights, bias, their scales, mask, zero points, past.
LogicalResult qAttention(NodeImport &n) {
  if (failed(needOperands(n, 5, 2)) || n.rank(n.input(0)) != 3)
    return n.error("operand 0 has not rank 3, or an operand is missing");
  auto sizes = hiddenSizes(n, n.input(1));
  if (failed(sizes))
    return failure();
  Value product = n.matmul(shifted(n, n.input(0), n.input(6)), shifted(n, n.input(1), n.input(7)));
  Value scale = n.mul(widened(n, n.input(3)), widened(n, n.input(4)));
  Value joined = n.add(n.mul(n.cast(product, n.builder.getF32Type()), scale), n.input(2));
  return attendToItself(n, {joined, *sizes, n.input(5), n.input(8), {}});
}

// ---- MultiHeadAttention

/// Queries, keys and values all as [batch, heads, length, size] where one of them is.
Query inOneForm(NodeImport &n, Query query) {
  bool areApart = false;
  for (Value *part : {&query.q, &query.k, &query.v})
    areApart |= *part && n.rank(*part) == 4;
  for (Value *part : {&query.q, &query.k, &query.v})
    if (areApart && *part && n.rank(*part) == 3)
      *part = headsFirst(n, apart(n, *part, query.heads));
  return query;
}

/// Queries, keys and values wherever the operands hold them, a projection's bias added.
FailureOr<Query> separateHeads(NodeImport &n, int64_t heads) {
  Query query;
  query.heads = query.keyHeads = heads;
  if (n.rank(n.input(0)) == 5) { // [batch, length, heads, 3, size]
    Value packed[3];
    for (int64_t part = 0; part < 3; ++part)
      packed[part] = headsFirst(n, at(n, n.input(0), 3, part));
    query.q = packed[0], query.k = packed[1], query.v = packed[2];
  } else {
    if (!n.has(1) || !n.isRanked(n.input(1)))
      return n.error("has no keys, or keys of unknown rank");
    query.q = n.input(0);
    if (n.rank(n.input(1)) == 5) { // [batch, length, heads, 2, size]
      query.k = headsFirst(n, at(n, n.input(1), 3, 0));
      query.v = headsFirst(n, at(n, n.input(1), 3, 1));
    } else {
      query.k = n.input(1), query.v = n.input(2);
    }
  }
  if (!query.q || !query.k || !query.v || !n.isRanked(query.v))
    return n.error("has no queries, keys or values, or of unknown rank");
  if (!n.has(3))
    return inOneForm(n, query);
  Value bias = n.input(3);
  auto width = NodeImport::known(n.dims(query.q).back());
  auto all = n.isRanked(bias) && n.rank(bias) == 1 ? NodeImport::known(n.dims(bias)[0])
                                                   : std::optional<int64_t>();
  if (!width || !all || n.rank(query.q) != 3 || *all < 2 * *width)
    return n.error("the bias is of no known size, or the queries have not rank 3");
  query.q = n.add(query.q, columns(n, bias, 0, *width));
  if (n.rank(query.k) == 3)
    query.k = n.add(query.k, columns(n, bias, *width, *width));
  if (n.rank(query.v) == 3)
    query.v = n.add(query.v, columns(n, bias, 2 * *width, *all - 2 * *width));
  return inOneForm(n, query);
}

/// Operands: q, k, v, bias, key padding mask, attention bias, past key and value, past length,
/// cache indirection.
LogicalResult multiHeadAttention(NodeImport &n) {
  int64_t heads = n.intAttr("num_heads");
  if (failed(needOperands(n, 1, 1)) || heads < 1)
    return n.error("has no queries, or num_heads is not positive");
  if (n.has(8) || n.has(9))
    return n.error("a shared buffer of past and present is not supported");
  auto query = separateHeads(n, heads);
  if (failed(query))
    return failure();
  query->pastKey = n.input(6);
  query->pastValue = n.input(7);
  query->isCausal = n.intAttr("unidirectional") != 0;
  AffineExpr batch = n.dims(query->q)[0], queries = n.dims(query->q)[n.rank(query->q) == 3 ? 1 : 2],
             keys = n.dims(query->k)[n.rank(query->k) == 3 ? 1 : 2];
  if (query->pastKey && n.isRanked(query->pastKey) && n.rank(query->pastKey) == 4)
    keys = n.graph.shapes.simplify(keys + n.dims(query->pastKey)[2]);
  Value mask;
  if (n.has(4) && !(mask = maskBias(n, n.input(4), batch, queries, keys)))
    return failure();
  query->bias = total(n, {mask, n.input(5)});
  auto *op = attend(n, *query);
  if (!op)
    return failure();
  Value y = op->getResult(0);
  if (n.rank(y) == 4) { // packed operands give what others do
    auto dims = n.dims(y);
    y = n.reshape(headsFirst(n, y), {dims[0], dims[2], n.graph.shapes.simplify(dims[1] * dims[3])});
  }
  return n.give({y, op->getResult(1), op->getResult(2), op->getResult(3)});
}

constexpr Operator kOperators[] = {
    {"Attention", attention, kContrib},
    {"QAttention", qAttention, kContrib},
    {"MultiHeadAttention", multiHeadAttention, kContrib},
    {"GroupQueryAttention", groupQueryAttention, kContrib},
    {"RotaryEmbedding", contribRotaryEmbedding, kContrib},
};

} // namespace

std::span<const Operator> contribAttentionOperators() { return kOperators; }

} // namespace tensmith::onnx_import

// Sequence operators that hand a state from call to call: causal convolution and linear attention.
//
// LinearAttention (arXiv 2412.06464 for its gated delta rule) keeps for each head a matrix S of
// keys by values. At each position S decays by exp(decay), the value is corrected by what S already
// holds for the key, the outer product of key and value is added, and the query reads S.
#include "frontends/onnx/Loops.h"

#include <cmath>

namespace tensmith::onnx_import {
namespace {

/// The last `count` along dimension 2, of which there may be an unknown number.
Value lastOf(NodeImport &n, Value x, AffineExpr count) {
  if (!x)
    return x;
  auto dims = n.dims(x);
  auto total = NodeImport::known(dims[2]), number = NodeImport::known(count);
  dims[2] = count;
  if (total && number)
    return *total < *number ? Value() : n.slice(x, {0, 0, *total - *number}, dims);
  auto turned = [&](Value value) { return n("graph.reverse", {value}, n.integers("axes", {2})); };
  return turned(n.slice(turned(x), {0, 0, 0}, dims));
}

/// Each channel of x convolved by its own row of weights [channels, 1, k]. A convolution's number
/// of groups is an attribute: an open number of channels sums products with each window's elements,
/// which are gathered, instead.
Value convolvedChannels(NodeImport &n, Value x, Value weights, Value bias) {
  auto channels = NodeImport::known(n.dims(weights)[0]);
  if (channels)
    return n("graph.conv", {x, weights, bias ? bias : n.none()},
             {n.integers("strides", {1}), n.integers("pads", {0, 0}), n.integers("dilations", {1}),
              n.integer("group", *channels)});
  Value wide = n.widen(x), taps = n.widen(weights);
  if (!wide || !taps)
    return {};
  AffineExpr width = n.dims(weights)[2];
  AffineExpr count = n.graph.shapes.simplify(n.dims(x)[2] - width + 1);
  Value places = n.add(n.iota({count, n.size(1)}, 0), n.iota({n.size(1), width}, 1));
  Value windows = n("graph.gather", {wide, places}, n.integer("axis", 2));
  Value y = n.reduce("graph.reduce_sum", n.mul(windows, taps), {3}, false);
  if (bias)
    y = n.add(y, n.alongDimension(n.widen(bias), 1, 3));
  return n.cast(y, n.element(x));
}

/// Operands: x [batch, channels, length], weights [channels, 1, k], bias, the k - 1 columns before
/// x.
LogicalResult causalConvWithState(NodeImport &n) {
  if (failed(n.needRank(0)) || failed(n.needRank(1)))
    return failure();
  Value x = n.input(0), weights = n.input(1);
  if (n.rank(x) != 3 || n.rank(weights) != 3)
    return n.error("operands 0 and 1 have ranks " + llvm::Twine(n.rank(x)) + " and " +
                   llvm::Twine(n.rank(weights)) + ", not 3");
  AffineExpr width = n.dims(weights)[2];
  if (NodeImport::known(n.dims(weights)[0]) == 0 || NodeImport::known(width) == 0)
    return n.error("the weights are empty");
  std::string activation = n.stringAttr("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return n.error("activation '" + activation + "' is not none, silu or swish");
  auto before = n.dims(x);
  before[2] = n.graph.shapes.simplify(width - 1);
  Value past = n.has(3) ? n.input(3) : n.filled(n.element(x), before, 0);
  Value padded = n.concat({past, x}, 2);
  Value y = convolvedChannels(n, padded, weights, n.input(2));
  if (activation != "none")
    y = n.mul(y, n.unary("graph.sigmoid", y));
  return n.give({y, lastOf(n, padded, before[2])});
}

/// What a step of linear attention reads, each with the positions along dimension 1.
struct LinearOperands {
  Value q;     // [batch, length, key heads, query heads of each, key size]
  Value k, v;  // [batch, length, key heads, key size or value size]
  Value decay; // [batch, length, key heads, key size or 1]; null without gating
  Value beta;  // [batch, length, key heads or 1, 1]; null without correction
  Value scale;
  NodeImport::Dims state; // [batch, key heads, key size, value size]
};

Value at(NodeImport &n, Value x, Value position) {
  return x ? n("graph.gather", {x, position}, n.integer("axis", 1)) : x;
}

Value withUnit(NodeImport &n, Value x, int64_t dim) {
  if (!x)
    return x;
  auto dims = n.dims(x);
  dims.insert(dims.begin() + dim, n.size(1));
  return n.reshape(x, dims);
}

/// One position: the new state, and what the queries read.
std::pair<Value, Value> linearStep(NodeImport &n, const LinearOperands &o, Value state,
                                   Value position) {
  Value key = at(n, o.k, position), value = withUnit(n, at(n, o.v, position), 2);
  if (o.decay)
    state = n.mul(state, withUnit(n, n.unary("graph.exp", at(n, o.decay, position)), 3));
  if (o.beta) {
    Value held = n.matmul(withUnit(n, key, 2), state);
    value = n.mul(withUnit(n, at(n, o.beta, position), 3), n.sub(value, held));
  }
  // What is open has other names in each operand.
  state = n.broadcast(n.add(state, n.mul(withUnit(n, key, 3), value)), o.state);
  return {state, n.mul(n.matmul(at(n, o.q, position), state), o.scale)};
}

Value headsApart(NodeImport &n, Value x, ArrayRef<AffineExpr> inner) {
  x = n.widen(x);
  if (!x)
    return x;
  auto dims = n.dims(x);
  dims.pop_back();
  dims.append(inner.begin(), inner.end());
  return n.reshape(x, dims);
}

LogicalResult checkLinear(NodeImport &n, bool isGated, bool isCorrected) {
  for (size_t i = 0; i < 3; ++i)
    if (failed(n.needRank(i)))
      return failure();
    else if (n.rank(n.input(i)) != 3)
      return n.error("operand " + llvm::Twine(i) + " has rank " + llvm::Twine(n.rank(n.input(i))) +
                     ", not 3");
  for (size_t i : {4, 5})
    if (n.has(i) != (i == 4 ? isGated : isCorrected))
      return n.error("the update rule and operand " + llvm::Twine(i) + " don't go together");
    else if (n.has(i) && (failed(n.needRank(i)) || n.rank(n.input(i)) != 3))
      return n.error("operand " + llvm::Twine(i) + " has not rank 3");
  return success();
}

/// Operands: query, key and value [batch, length, heads * size], the state before, decay, beta.
LogicalResult linearAttention(NodeImport &n) {
  std::string rule = n.stringAttr("update_rule", "gated_delta");
  bool isGated = rule == "gated" || rule == "gated_delta";
  bool isCorrected = rule == "delta" || rule == "gated_delta";
  if (!isGated && !isCorrected && rule != "linear")
    return n.error("update_rule '" + rule + "' is not linear, gated, delta or gated_delta");
  if (failed(checkLinear(n, isGated, isCorrected)))
    return failure();
  int64_t queryHeads = n.intAttr("q_num_heads"), heads = n.intAttr("kv_num_heads");
  AffineExpr width = n.dims(n.input(0))[2], valueWidth = n.dims(n.input(2))[2];
  if (heads < 1 || queryHeads < 1 || queryHeads % heads ||
      NodeImport::known(width).value_or(0) % queryHeads ||
      NodeImport::known(valueWidth).value_or(0) % heads)
    return n.error("q_num_heads " + llvm::Twine(queryHeads) + " and kv_num_heads " +
                   llvm::Twine(heads) + " don't divide the operands' last dimensions");
  auto size = [&](int64_t value) { return n.size(value); };
  auto part = [&](AffineExpr whole, int64_t count) {
    return n.graph.shapes.simplify(whole.floorDiv(count));
  };
  AffineExpr keySize = part(width, queryHeads), valueSize = part(valueWidth, heads);
  LinearOperands o;
  o.q = headsApart(n, n.input(0), {size(heads), size(queryHeads / heads), keySize});
  o.k = headsApart(n, n.input(1), {size(heads), part(n.dims(n.input(1))[2], heads)});
  o.v = headsApart(n, n.input(2), {size(heads), valueSize});
  if (isGated)
    o.decay = headsApart(n, n.input(4), {size(heads), part(n.dims(n.input(4))[2], heads)});
  if (isCorrected)
    o.beta = headsApart(n, n.input(5), {n.dims(n.input(5))[2], size(1)});
  if (!o.q || !o.k || !o.v)
    return failure();
  double scale = n.floatAttr("scale");
  o.scale = scale == 0 ? n.inverseRoot(o.q, n.sizeOf(o.q, 4)) : n.scalar(o.q, scale);

  auto dims = n.dims(o.q);
  o.state = {dims[0], size(heads), keySize, valueSize};
  o.k = n.broadcast(o.k, {dims[0], dims[1], size(heads), keySize});
  o.v = n.broadcast(o.v, {dims[0], dims[1], size(heads), valueSize});
  Value state =
      n.has(3) ? n.broadcast(n.widen(n.input(3)), o.state) : n.filled(n.element(o.q), o.state, 0);
  if (failed(buildLoop(n, n.sizeOf(o.q, 1), n.none(), {n.cast(state, n.element(o.q))}, 1,
                       [&](mlir::ValueRange arguments) -> FailureOr<SmallVector<Value>> {
                         auto [next, read] = linearStep(n, o, arguments[2], arguments[0]);
                         if (!next || !read)
                           return failure();
                         return SmallVector<Value>{n.graph.scalar(n.builder.getI1Type(), 1), next,
                                                   read};
                       })))
    return failure();
  Value y = n.transpose(n.results[1], {1, 0, 2, 3, 4});
  y = n.reshape(y, {dims[0], dims[1], n.graph.shapes.simplify(valueSize * queryHeads)});
  Value like = n.has(3) ? n.input(3) : n.input(0);
  return n.give({n.cast(y, n.element(n.input(0))), n.cast(n.results[0], n.element(like))});
}

constexpr Operator kOperators[] = {{"CausalConvWithState", causalConvWithState},
                                   {"LinearAttention", linearAttention}};

} // namespace

std::span<const Operator> stateOperators() { return kOperators; }

} // namespace tensmith::onnx_import

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
Value lastOf(NodeImport &n, Value x, int64_t count) {
  if (!x)
    return x;
  auto dims = n.dims(x);
  auto total = NodeImport::known(dims[2]);
  dims[2] = n.size(count);
  if (total)
    return *total < count ? Value() : n.slice(x, {0, 0, *total - count}, dims);
  auto turned = [&](Value value) { return n("graph.reverse", {value}, n.integers("axes", {2})); };
  return turned(n.slice(turned(x), {0, 0, 0}, dims));
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
  auto channels = NodeImport::known(n.dims(weights)[0]),
       width = NodeImport::known(n.dims(weights)[2]);
  if (!channels || !width || *width < 1)
    return n.error("the weights' shape is not known, or empty");
  std::string activation = n.stringAttr("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return n.error("activation '" + activation + "' is not none, silu or swish");
  auto before = n.dims(x);
  before[2] = n.size(*width - 1);
  Value past = n.has(3) ? n.input(3) : n.filled(n.element(x), before, 0);
  Value padded = n.concat({past, x}, 2);
  Value y = n("graph.conv", {padded, weights, n.maybe(2)},
              {n.integers("strides", {1}), n.integers("pads", {0, 0}), n.integers("dilations", {1}),
               n.integer("group", *channels)});
  if (activation != "none")
    y = n.mul(y, n.unary("graph.sigmoid", y));
  return n.give({y, lastOf(n, padded, *width - 1)});
}

/// What a step of linear attention reads, each with the positions along dimension 1.
struct LinearOperands {
  Value q;     // [batch, length, key heads, query heads of each, key size]
  Value k, v;  // [batch, length, key heads, key size or value size]
  Value decay; // [batch, length, key heads, key size or 1]; null without gating
  Value beta;  // [batch, length, key heads or 1, 1]; null without correction
  double scale;
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

/// One position: the new state [batch, key heads, key size, value size], and what the queries read.
std::pair<Value, Value> linearStep(NodeImport &n, const LinearOperands &o, Value state,
                                   Value position) {
  Value key = at(n, o.k, position), value = withUnit(n, at(n, o.v, position), 2);
  if (o.decay)
    state = n.mul(state, withUnit(n, n.unary("graph.exp", at(n, o.decay, position)), 3));
  if (o.beta) {
    Value held = n.matmul(withUnit(n, key, 2), state);
    value = n.mul(withUnit(n, at(n, o.beta, position), 3), n.sub(value, held));
  }
  state = n.add(state, n.mul(withUnit(n, key, 3), value));
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
  auto width = NodeImport::known(n.dims(n.input(0))[2]),
       valueWidth = NodeImport::known(n.dims(n.input(2))[2]);
  if (heads < 1 || queryHeads < 1 || queryHeads % heads || !width || *width % queryHeads ||
      !valueWidth || *valueWidth % heads)
    return n.error("q_num_heads " + llvm::Twine(queryHeads) + " and kv_num_heads " +
                   llvm::Twine(heads) + " don't divide the operands' last dimensions");
  auto size = [&](int64_t value) { return n.size(value); };
  int64_t keySize = *width / queryHeads, valueSize = *valueWidth / heads;
  LinearOperands o;
  o.q = headsApart(n, n.input(0), {size(heads), size(queryHeads / heads), size(keySize)});
  o.k = headsApart(n, n.input(1), {size(heads), size(keySize)});
  o.v = headsApart(n, n.input(2), {size(heads), size(valueSize)});
  if (isGated) {
    bool isOfHeads = NodeImport::known(n.dims(n.input(4))[2]) == heads;
    o.decay = headsApart(n, n.input(4), {size(heads), size(isOfHeads ? 1 : keySize)});
  }
  if (isCorrected)
    o.beta = headsApart(n, n.input(5), {n.dims(n.input(5))[2], size(1)});
  o.scale = n.floatAttr("scale");
  if (o.scale == 0)
    o.scale = 1 / std::sqrt(double(keySize));
  if (!o.q || !o.k || !o.v)
    return failure();

  auto dims = n.dims(o.q);
  NodeImport::Dims stateDims{dims[0], size(heads), size(keySize), size(valueSize)};
  Value state = n.has(3) ? n.widen(n.input(3)) : n.filled(n.element(o.q), stateDims, 0);
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
  y = n.reshape(y, {dims[0], dims[1], size(queryHeads * valueSize)});
  Value like = n.has(3) ? n.input(3) : n.input(0);
  return n.give({n.cast(y, n.element(n.input(0))), n.cast(n.results[0], n.element(like))});
}

constexpr Operator kOperators[] = {{"CausalConvWithState", causalConvWithState},
                                   {"LinearAttention", linearAttention}};

} // namespace

std::span<const Operator> stateOperators() { return kOperators; }

} // namespace tensmith::onnx_import

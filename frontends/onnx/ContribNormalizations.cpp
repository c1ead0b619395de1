// Normalisations fused with what comes before them: residual sums and embeddings; see Contrib.h.
#include "frontends/onnx/Contrib.h"

namespace tensmith::onnx_import {
namespace {

/// The normalised x, and its mean and inverse deviation where those are statistics of it; `bias`
/// may be null.
SmallVector<Value, 3> normalized(NodeImport &n, Value x, Value scale, Value bias, int64_t axis) {
  NamedAttribute epsilon = n.real("epsilon", n.floatAttr("epsilon", 1e-5));
  if (!x || !scale)
    return {Value()};
  auto *op = n.graph.create("graph.layer_norm", {x, scale, bias ? bias : n.none()},
                            {n.integer("axis", axis), epsilon});
  return op ? SmallVector<Value, 3>(op->getResults()) : SmallVector<Value, 3>{Value()};
}

/// x / sqrt(mean(x^2) + epsilon) * scale: in opsets of the standard's domain, where ONNX Runtime
/// has it, and in its own.
LogicalResult simplifiedLayerNorm(NodeImport &n) {
  if (failed(needOperands(n, 2, 1)))
    return failure();
  auto axis = n.axis(n.intAttr("axis", -1), n.rank(n.input(0)));
  if (failed(axis))
    return failure();
  if (n.wants(1))
    return n.error("its second result, for training, is not supported");
  return n.give({n("graph.rms_norm", {n.input(0), n.input(1)},
                   {n.integer("axis", *axis), n.real("epsilon", n.floatAttr("epsilon", 1e-5))})});
}

/// input + skip + bias; a half is added up in f32 and rounded once.
Value residual(NodeImport &n, Value bias) {
  Value sum = n.add(n.widen(n.input(0)), n.widen(n.input(1)));
  if (bias)
    sum = n.add(sum, n.widen(bias));
  return n.cast(sum, n.element(n.input(0)));
}

LogicalResult skipLayerNorm(NodeImport &n) {
  if (failed(needOperands(n, 3, 1)) || n.rank(n.input(0)) < 1)
    return n.error("has not the operands input, skip and gamma");
  Value sum = residual(n, n.input(4));
  auto results = normalized(n, sum, n.input(2), n.input(3), n.rank(n.input(0)) - 1);
  return n.give({results[0], results.size() > 1 ? results[1] : Value(),
                 results.size() > 2 ? results[2] : Value(), sum});
}

LogicalResult skipSimplifiedLayerNorm(NodeImport &n) {
  if (failed(needOperands(n, 3, 1)) || n.rank(n.input(0)) < 1)
    return n.error("has not the operands input, skip and gamma");
  if (n.wants(1) || n.wants(2))
    return n.error("its statistics, for training, are not supported");
  Value sum = residual(n, n.input(3));
  Value y = sum ? n("graph.rms_norm", {sum, n.input(2)},
                    {n.integer("axis", n.rank(n.input(0)) - 1),
                     n.real("epsilon", n.floatAttr("epsilon", 1e-5))})
                : sum;
  return n.give({y, y, y, sum});
}

/// Operands: word and segment numbers, tables of words, positions and segments, gamma, beta, mask,
/// position numbers.
LogicalResult embedLayerNorm(NodeImport &n) {
  for (size_t i : {0, 2, 3, 5, 6})
    if (!n.has(i))
      return n.error("operand " + llvm::Twine(i) + " is missing");
  if (failed(n.needRank(0)) || n.rank(n.input(0)) != 2)
    return n.error("operand 0 has not rank 2");
  auto rows = [&](Value table, Value numbers) {
    return n("graph.gather", {table, numbers}, n.integer("axis", 0));
  };
  auto dims = n.dims(n.input(0));
  Value positions = n.has(8) ? n.input(8) : n.iota({n.size(1), dims[1]}, 1);
  Value sum = n.add(rows(n.input(2), n.input(0)), rows(n.input(3), positions));
  if (n.has(1) != n.has(4))
    return n.error("has segment numbers without a table of them, or the other way");
  if (n.has(1))
    sum = n.add(sum, rows(n.input(4), n.input(1)));
  Type i32 = n.builder.getI32Type();
  Value counts;
  if (n.has(7)) {
    Value mask = n.input(7), isOne = n("graph.equal", {mask, n.scalar(mask, 1)});
    counts = n.reduce("graph.reduce_sum", n.cast(isOne, i32), {1}, false);
  } else {
    counts = n.filled(i32, {dims[0]}, 0);
  }
  Value y = normalized(n, sum, n.input(5), n.input(6), 2)[0];
  return n.give({y, counts, sum});
}

constexpr Operator kOperators[] = {
    {"SimplifiedLayerNormalization", simplifiedLayerNorm},
    {"SimplifiedLayerNormalization", simplifiedLayerNorm, kContrib},
    {"SkipLayerNormalization", skipLayerNorm, kContrib},
    {"SkipSimplifiedLayerNormalization", skipSimplifiedLayerNorm, kContrib},
    {"EmbedLayerNormalization", embedLayerNorm, kContrib},
};

} // namespace

std::span<const Operator> contribNormalizationOperators() { return kOperators; }

} // namespace tensmith::onnx_import

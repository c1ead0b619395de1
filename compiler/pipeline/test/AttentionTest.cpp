// Attention's gradient as one kernel: stacks of any sizes, on both sides of tiles, vectors and
// blocks of rows, with what models have between the products.
#include "compiler/pipeline/test/TemplateCase.h"
#include "compiler/targets/cpu/templates/AttentionGradient.h"

using namespace mlir;

namespace tensmith::pipeline {
namespace {

int64_t drawLength(TemplateCase &c) {
  return c.among({2, 3, 5, 6, 7, 11, 12, 13, 16, 17, 31, 48, 65, 97, 100, 130, 200});
}

struct Heads {
  std::vector<Dim> stack;
  Dim queries;
  int64_t keys, size, valueSize;

  /// Sizes of one head are drawn up to `most`.
  Heads(TemplateCase &c, int64_t most)
      : queries(drawLength(c)), keys(drawLength(c)), size(c.between(1, most)),
        valueSize(c.chance(50) ? size : c.between(1, most)) {
    for (int64_t leading = c.between(1, 2); leading > 0; --leading)
      stack.push_back(c.between(1, 3));
  }

  Dims dims(Dim rows, Dim columns) const {
    Dims all = stack;
    all.insert(all.end(), {rows, columns});
    return all;
  }
};

/// The scores with what is done to them before the softmax.
Value masked(TemplateCase &c, Value scores, const Heads &heads) {
  scores = c.op("mul", {scores, c.scalar(DataType::F32, 0.125)});
  Dims mask = c.chance(50) ? heads.dims(heads.queries, heads.keys) : Dims{heads.keys};
  if (c.chance(60))
    scores = c.op("add", {scores, c.input(DataType::F32, mask, Fill::Real)});
  return scores;
}

/// y = dropout(softmax(q k^T)) v and its gradients, behind one another.
Value gradients(TemplateCase &c, const Heads &heads) {
  auto input = [&](Dim rows, int64_t columns) {
    return c.input(DataType::F32, heads.dims(rows, columns), Fill::Real);
  };
  auto product = [&](Value a, Value b) { return c.op("matmul", {a, b}); };
  Value q = input(heads.queries, heads.size), k = input(heads.keys, heads.size),
        v = input(heads.keys, heads.valueSize);
  int64_t rank = c.rank(q);
  Value p =
      c.op("softmax", masked(c, product(q, c.transposeLast(k)), heads), c.i64("axis", rank - 1));
  bool drops = c.chance(50);
  Value kept = drops ? input(heads.queries, heads.keys) : Value();
  auto drop = [&](Value x) { return drops ? c.op("mul", {x, kept}) : x; };
  Value dropped = drop(p), y = product(dropped, v);
  Value dy = c.op("add", {y, input(heads.queries, heads.valueSize)});
  Value g = drop(product(dy, c.transposeLast(v))), gp = c.op("mul", {g, p});
  Value sum = c.op("reduce_sum", gp, {c.i64s("axes", {rank - 1}), c.flag("keepdims", true)});
  Value d = c.op("sub", {gp, c.op("mul", {p, sum})});
  Value dk = c.chance(50) ? product(c.transposeLast(d), q)
                          : c.transposeLast(product(c.transposeLast(q), d));
  SmallVector<Value> flat;
  for (Value x : {y, product(d, k), dk, product(c.transposeLast(dropped), dy)}) {
    AffineExpr count = c.shapes.product(c.shapes.dims(x.getType()));
    flat.push_back(c.graph.reshape(x, {c.shapes.simplify(count)}));
  }
  return c.op("concat", flat, c.i64("axis", 0));
}

// Fails if a block's rows, a rest of the keys, the sums over blocks or what is element-wise between
// are taken wrongly, or the gradient is no kernel of its own. Heads are so small that making scores
// again is worth it on any machine.
TEST(AttentionGradient, OfKnownSizes) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    TemplateCase c(700 + seed);
    Heads heads(c, 8);
    ASSERT_NO_FATAL_FAILURE(
        c.check(gradients(c, heads), kernel::kAttentionGradient.name.data(), 2e-5));
  }
}

// The same of as many heads as the run says, which may be any number and so are always worth it,
// with sizes on both sides of a panel's columns.
TEST(AttentionGradient, OfManyHeads) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    TemplateCase c(740 + seed);
    Heads heads(c, 70);
    heads.stack.front() = "batch";
    ASSERT_NO_FATAL_FAILURE(c.check(gradients(c, heads), kernel::kAttentionGradient.name.data(),
                                    2e-5, {{{"batch", 1}}, {{"batch", 4}}}));
  }
}

// As many queries as the run says: none, of which the gradients of keys and values are zeros, too.
TEST(AttentionGradient, OfManyQueries) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    TemplateCase c(760 + seed);
    Heads heads(c, 20);
    heads.queries = "queries";
    ASSERT_NO_FATAL_FAILURE(c.check(gradients(c, heads), kernel::kAttentionGradient.name.data(),
                                    2e-5, {{{"queries", 0}}, {{"queries", 1}}, {{"queries", 77}}}));
  }
}

} // namespace
} // namespace tensmith::pipeline

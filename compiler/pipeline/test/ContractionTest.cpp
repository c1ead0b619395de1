// The contraction template as matrix products: every type, rests of rows, columns and depth, stacks
// that broadcast, operands the other way round, and what is applied to the register tile.
#include "compiler/pipeline/test/TemplateCase.h"

using namespace mlir;

namespace tensmith::pipeline {
namespace {

// Both sides of tiles of 6 rows, vectors of 4 to 16 lanes and panels of 16 to 64 columns.
int64_t drawSize(TemplateCase &c) {
  return c.among({1, 2, 3, 5, 6, 7, 8, 15, 16, 17, 31, 33, 64, 65, 100});
}

Value product(TemplateCase &c, Value a, Value b) {
  bool isSmall = !isFloat(c.type(a)) && byteSize(c.type(a)) == 1;
  return c.op("matmul", {a, b}, c.flag("accumulate_i32", isSmall));
}

/// An operand of the product, as it is or as the transposition of one that lies the other way.
Value operand(TemplateCase &c, DataType type, Shape shape, bool isConstant) {
  bool turned = c.chance(35);
  if (turned)
    std::swap(shape[shape.size() - 2], shape.back());
  Value value = isConstant ? c.constant(type, shape) : c.input(type, dimsOf(shape));
  return turned ? c.transposeLast(value) : value;
}

/// What models have behind a product, all of it exact.
Value epilogue(TemplateCase &c, Value x) {
  DataType type = c.type(x);
  Shape shape = c.shape(x);
  int64_t columns = shape.back(), rows = shape[shape.size() - 2];
  if (c.chance(60))
    x = c.op("add", {x, c.constant(type, {columns})});
  if (c.chance(15))
    x = c.op("mul", {c.constant(type, {rows, 1}), x});
  if (c.chance(20))
    x = c.op("sub", {x, c.input(type, {Dim(columns)})});
  if (c.chance(35))
    x = c.op("max", {x, c.scalar(type, 0)});
  if (c.chance(35))
    x = c.op("add", {c.input(type, dimsOf(shape)), x});
  if (c.chance(15))
    x = c.op("mul", {x, c.scalar(type, 2)});
  return x;
}

struct TypeCase {
  DataType type;
  int count;
};

class MatMul : public testing::TestWithParam<TypeCase> {};

// Fails if a tile of fewer rows, a cut-off panel, a rest of the depth, an epilogue's offsets or a
// type's conversion is wrong.
TEST_P(MatMul, ByWeights) {
  for (int i = 0; i < GetParam().count; ++i) {
    unsigned seed = 1000 * unsigned(GetParam().type) + unsigned(i);
    TemplateCase c(seed);
    DataType type = GetParam().type;
    int64_t m = drawSize(c), k = drawSize(c), n = drawSize(c);
    Shape shape{m, k};
    for (int64_t leading = c.among({0, 0, 1, 2}); leading > 0; --leading)
      shape.insert(shape.begin(), c.between(1, 4));
    Value a = operand(c, type, shape, false), b = operand(c, type, {k, n}, true);
    ASSERT_NO_FATAL_FAILURE(c.check(epilogue(c, product(c, a, b)), "contraction"));
  }
}

// Fails if a stack's offset is taken from the wrong operand, or the packing of what the run
// computes differs from that of weights.
TEST_P(MatMul, OfStacks) {
  for (int i = 0; i < GetParam().count; ++i) {
    unsigned seed = 1000 * unsigned(GetParam().type) + 500 + unsigned(i);
    TemplateCase c(seed);
    DataType type = GetParam().type;
    int64_t m = drawSize(c), k = drawSize(c), n = drawSize(c);
    Shape a{m, k}, b{k, n};
    int64_t leading = c.between(1, 3);
    for (int64_t dim = 0; dim < leading; ++dim) {
      int64_t size = c.between(1, 4), which = c.between(0, 5);
      a.insert(a.begin(), which == 0 ? 1 : size);
      b.insert(b.begin(), which == 1 ? 1 : size);
    }
    if (c.chance(15))
      a.erase(a.begin(), a.end() - 2);
    else if (c.chance(15))
      b.erase(b.begin(), b.end() - 2);
    Value x = operand(c, type, a, false), y = operand(c, type, b, c.chance(20));
    ASSERT_NO_FATAL_FAILURE(c.check(epilogue(c, product(c, x, y)), ""));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, MatMul,
                         testing::Values(TypeCase{DataType::F32, 24}, TypeCase{DataType::F64, 8},
                                         TypeCase{DataType::F16, 8}, TypeCase{DataType::BF16, 8},
                                         TypeCase{DataType::I8, 8}, TypeCase{DataType::U8, 8},
                                         TypeCase{DataType::I32, 5}),
                         [](const auto &info) { return std::string(name(info.param.type)); });

// Fails if rows that the run only knows are cut wrongly, at any of the sizes.
TEST(MatMulOfSymbols, Rows) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    TemplateCase c(seed);
    int64_t k = drawSize(c), n = drawSize(c);
    Dims dims = c.chance(50) ? Dims{"batch", "rows", k} : Dims{"rows", k};
    Value x = c.input(DataType::F32, dims);
    Value y = product(c, x, operand(c, DataType::F32, {k, n}, true));
    dims.back() = n;
    y = c.op("add", {y, c.constant(DataType::F32, {n})});
    y = c.op("add", {y, c.input(DataType::F32, dims)});
    std::vector<Sizes> runs;
    for (int64_t rows : {1, 2, 5, 6, 7, 13, 64, 100})
      runs.push_back({{"rows", rows}, {"batch", 1 + rows % 3}});
    ASSERT_NO_FATAL_FAILURE(c.check(y, "contraction", 0, runs));
  }
}

// The products of attention: columns, then depth, that only the run knows.
TEST(MatMulOfSymbols, ColumnsAndDepth) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    TemplateCase c(100 + seed);
    int64_t heads = c.between(1, 3), width = drawSize(c);
    Value q = c.input(DataType::F32, {"batch", heads, "queries", width});
    Value k = c.input(DataType::F32, {"batch", heads, "keys", width});
    Value v = c.input(DataType::F32, {"batch", heads, "keys", drawSize(c)});
    Value scores = product(c, q, c.transposeLast(k));
    scores = c.op("max", {scores, c.scalar(DataType::F32, 0)});
    std::vector<Sizes> runs;
    for (int64_t keys : {1, 7, 16, 17, 33, 100})
      runs.push_back({{"keys", keys}, {"queries", 1 + keys * 5 % 11}, {"batch", 1 + keys % 2}});
    ASSERT_NO_FATAL_FAILURE(c.check(product(c, scores, v), "contraction", 0, runs));
  }
}

// Fails if rows that are only moved on their way (heads of attention, rows of a table) are read at
// the wrong places, in pieces of any length.
TEST(MatMulOfMoved, Rows) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    TemplateCase c(400 + seed);
    int64_t heads = c.between(1, 4), rows = drawSize(c), depth = drawSize(c), n = drawSize(c);
    Value x = c.input(DataType::F32, {"batch", heads, rows, depth});
    Value turned = c.op("transpose", x, c.i64s("permutation", {0, 2, 1, 3}));
    Value merged =
        c.graph.reshape(turned, {c.shapes.symbol(c.builder.getStringAttr("batch")),
                                 c.shapes.constant(rows), c.shapes.constant(heads * depth)});
    Value y = product(c, merged, c.constant(DataType::F32, {heads * depth, n}));
    ASSERT_NO_FATAL_FAILURE(c.check(y, "contraction", 0, {{{"batch", 1}}, {{"batch", 3}}}));
  }
}

TEST(MatMulOfMoved, RowsOfATable) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    TemplateCase c(420 + seed);
    int64_t entries = c.between(1, 9), depth = drawSize(c), n = drawSize(c);
    Value ids = c.input(DataType::I64, {"count"}, Fill::Index, entries);
    Value rows =
        c.op("gather", {c.constant(DataType::F32, {entries, depth}), ids}, c.i64("axis", 0));
    Value y = product(c, rows, c.constant(DataType::F32, {depth, n}));
    ASSERT_NO_FATAL_FAILURE(c.check(y, "", 0, {{{"count", 1}}, {{"count", 20}}}));
  }
}

// Fails if an operand of one column is taken for one that is broadcast, as the root's vectors
// aren't, or if the one lane that a mask leaves of a bf16 is converted by a function of its own.
TEST(MatMulEpilogues, OfOneLane) {
  for (int64_t columns : {1, 17, 33})
    for (DataType type : {DataType::F32, DataType::F16, DataType::BF16, DataType::I32}) {
      TemplateCase c(300 + unsigned(columns));
      Value y = product(c, c.input(type, {7, 5}), c.constant(type, {5, columns}));
      y = c.op("add", {y, c.constant(type, {columns})});
      y = c.op("add", {c.input(type, {7, columns}), c.op("mul", {y, c.input(type, {7, 1})})});
      ASSERT_NO_FATAL_FAILURE(c.check(y, "contraction"));
    }
}

// Activations that are no whole numbers, on reals: the rounding alone may differ.
TEST(MatMulEpilogues, Activations) {
  unsigned seed = 200;
  for (const char *activation : {"tanh", "sigmoid", "erf", "exp"})
    for (int i = 0; i < 2; ++i) {
      TemplateCase c(seed++);
      int64_t m = drawSize(c), k = drawSize(c), n = drawSize(c);
      Value x = c.input(DataType::F32, {m, k}, Fill::Real);
      Value y = product(c, x, c.constant(DataType::F32, {k, n}, Fill::Real));
      y = c.op("mul", {y, c.scalar(DataType::F32, 0.03125)});
      y = c.op(activation, {c.op("add", {y, c.constant(DataType::F32, {n}, Fill::Real)})});
      ASSERT_NO_FATAL_FAILURE(c.check(y, "contraction", 1e-5));
    }
}

} // namespace
} // namespace tensmith::pipeline

// Softmax, its logarithm and the normalisations: the row template over the last dimension of what
// is no wider than f32, a chain of loops elsewhere, at lengths on both sides of what a vector
// holds.
#include "compiler/pipeline/test/TemplateCase.h"

using namespace mlir;

namespace tensmith::pipeline {
namespace {

int64_t drawLength(TemplateCase &c) {
  return c.chance(30) ? c.among({1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65}) : c.between(1, 130);
}

Shape drawShape(TemplateCase &c) {
  Shape shape{drawLength(c)};
  for (int64_t leading = c.between(0, 3); leading > 0; --leading)
    shape.insert(shape.begin(), c.between(1, 7));
  return shape;
}

/// The tolerance of a chain of a few operators that are rounded apart.
double toleranceOf(DataType type) { return 4 * roundingOf(type); }

class Rows : public testing::TestWithParam<DataType> {
protected:
  unsigned seed(int number) const { return 50000 + 100 * unsigned(GetParam()) + unsigned(number); }
  int count() const { return GetParam() == DataType::F32 ? 20 : 6; }
};

// Fails if the masked end of a row counts, a row of -inf alone gives anything but what the
// definition does, or the buffered row is read stale.
TEST_P(Rows, Softmax) {
  for (int i = 0; i < count(); ++i) {
    TemplateCase c(seed(i));
    Shape shape = drawShape(c);
    int64_t rank = int64_t(shape.size()), axis = c.chance(70) ? rank - 1 : c.between(0, rank - 1);
    Value x = c.input(GetParam(), dimsOf(shape), c.chance(50) ? Fill::Masked : Fill::Real);
    if (c.chance(30))
      x = c.op("mul", {x, c.scalar(GetParam(), 0.5)});
    if (c.chance(30))
      x = c.op("add", {x, c.input(GetParam(), {shape.back()}, Fill::Masked)});
    Value y = c.op(c.chance(65) ? "softmax" : "log_softmax", x, c.i64("axis", axis));
    bool own = axis == rank - 1 && GetParam() != DataType::F64;
    if (c.chance(30))
      y = c.op("mul", {y, c.constant(GetParam(), {shape.back()})});
    ASSERT_NO_FATAL_FAILURE(c.check(y, own ? "rows" : "", toleranceOf(GetParam())));
  }
}

// Fails if the mean is taken over masked lanes, or scale and bias are read at the wrong column.
TEST_P(Rows, Normalisation) {
  for (int i = 0; i < count(); ++i) {
    TemplateCase c(seed(50 + i));
    Shape shape = drawShape(c);
    int64_t rank = int64_t(shape.size()), axis = c.chance(75) ? rank - 1 : c.between(0, rank - 1);
    Shape tail(shape.begin() + axis, shape.end());
    Value x = c.input(GetParam(), dimsOf(shape), Fill::Real);
    if (c.chance(40))
      x = c.op("add", {c.input(GetParam(), dimsOf(shape), Fill::Real), x});
    Value scale = c.constant(GetParam(), tail, Fill::Real);
    Value y;
    // Without much under the root, what rounding leaves of a constant row would be all there is.
    NamedAttribute epsilon = c.graph.named("epsilon", c.builder.getF64FloatAttr(0.25));
    bool own = c.chance(70);
    if (own) {
      Value bias = c.chance(80) ? c.constant(GetParam(), tail, Fill::Real) : c.none();
      y = c.op("layer_norm", {x, scale, bias}, {c.i64("axis", axis), epsilon});
    } else {
      y = c.op("rms_norm", {x, scale}, {c.i64("axis", axis), epsilon});
    }
    own &= axis == rank - 1 && GetParam() != DataType::F64;
    if (c.chance(30))
      y = c.op("max", {y, c.scalar(GetParam(), 0)});
    ASSERT_NO_FATAL_FAILURE(c.check(y, own ? "rows" : "", toleranceOf(GetParam())));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Rows,
                         testing::Values(DataType::F32, DataType::F64, DataType::F16,
                                         DataType::BF16),
                         [](const auto &info) { return std::string(name(info.param)); });

// Every length once, where only the run knows it: the rest beyond the last vector is each time
// another.
TEST(RowsOfSymbols, EveryLength) {
  for (llvm::StringRef root : {"softmax", "log_softmax"}) {
    TemplateCase c(60000);
    Value x = c.input(DataType::F32, {"rows", "columns"}, Fill::Masked);
    Value y = c.op(root, c.op("mul", {x, c.scalar(DataType::F32, 0.5)}), c.i64("axis", 1));
    std::vector<Sizes> runs;
    for (int64_t columns = 1; columns <= 130; ++columns)
      runs.push_back({{"rows", 1 + columns % 5}, {"columns", columns}});
    ASSERT_NO_FATAL_FAILURE(c.check(y, "rows", toleranceOf(DataType::F32), runs));
  }
}

TEST(RowsOfSymbols, NormalisedRows) {
  for (unsigned seed = 60100; seed < 60104; ++seed) {
    TemplateCase c(seed);
    int64_t columns = drawLength(c);
    Value x = c.input(DataType::F32, {"batch", "rows", columns}, Fill::Real);
    Value scale = c.constant(DataType::F32, {columns}, Fill::Real),
          bias = c.constant(DataType::F32, {columns}, Fill::Real);
    NamedAttribute epsilon = c.graph.named("epsilon", c.builder.getF64FloatAttr(0.25));
    Value y = c.op("layer_norm", {x, scale, bias}, {c.i64("axis", 2), epsilon});
    std::vector<Sizes> runs;
    for (int64_t rows : {1, 2, 7, 33})
      runs.push_back({{"rows", rows}, {"batch", 1 + rows % 3}});
    ASSERT_NO_FATAL_FAILURE(c.check(y, "rows", toleranceOf(DataType::F32), runs));
  }
}

} // namespace
} // namespace tensmith::pipeline

// Kernels that move elements: concatenation, slices, permutations, gathers and borders, alone and
// with arithmetic on either side. Every element is compared for equality.
#include "compiler/pipeline/test/TemplateCase.h"

#include <algorithm>

using namespace mlir;

namespace tensmith::pipeline {
namespace {

Shape drawShape(TemplateCase &c, int64_t least, int64_t most) {
  Shape shape;
  for (int64_t rank = c.between(least, most); rank > 0; --rank)
    shape.push_back(c.among({1, 2, 3, 5, 7, 8, 9, 16, 17}));
  if (c.chance(30))
    shape.back() = c.among({31, 33, 64, 65, 100});
  return shape;
}

/// Arithmetic that is exact in every type, or none: what a kernel fuses with the movement.
Value perhapsFused(TemplateCase &c, Value x) {
  if (!x || c.type(x) == DataType::Bool || c.chance(50))
    return x;
  return c.chance(50) ? c.op("add", {x, c.scalar(c.type(x), 1)}) : c.op("mul", {x, x});
}

class Movement : public testing::TestWithParam<DataType> {
protected:
  unsigned seed(int number) const { return 70000 + 1000 * unsigned(GetParam()) + unsigned(number); }
  int count() const { return GetParam() == DataType::F32 ? 8 : 3; }
  Value source(TemplateCase &c, const Shape &shape) {
    return perhapsFused(c, c.input(GetParam(), dimsOf(shape)));
  }
  void check(TemplateCase &c, Value y) { c.check(perhapsFused(c, y), ""); }
};

TEST_P(Movement, Concat) {
  for (int i = 0; i < 2 * count(); ++i) {
    TemplateCase c(seed(i));
    Shape shape = drawShape(c, 1, 4);
    int64_t axis = c.between(0, int64_t(shape.size()) - 1);
    SmallVector<Value> inputs;
    for (int64_t n = c.between(1, 5); n > 0; --n) {
      shape[size_t(axis)] = c.among({1, 2, 3, 5, 8, 16, 17});
      inputs.push_back(c.chance(15) ? c.constant(GetParam(), shape) : source(c, shape));
    }
    ASSERT_NO_FATAL_FAILURE(check(c, c.op("concat", inputs, c.i64("axis", axis))));
  }
}

TEST_P(Movement, Slice) {
  for (int i = 0; i < count(); ++i) {
    TemplateCase c(seed(100 + i));
    Shape shape = drawShape(c, 1, 4);
    SmallVector<int64_t> starts, steps;
    SmallVector<AffineExpr> sizes;
    for (int64_t size : shape) {
      int64_t step = c.among({1, 1, 1, 2, 3, -1, -2}), start = c.between(0, size - 1);
      int64_t most = step > 0 ? (size - 1 - start) / step : start / -step;
      starts.push_back(start);
      steps.push_back(step);
      sizes.push_back(c.shapes.constant(c.between(1, most + 1)));
    }
    ASSERT_NO_FATAL_FAILURE(check(c, c.graph.slice(source(c, shape), starts, steps, sizes)));
  }
}

TEST_P(Movement, Transpose) {
  for (int i = 0; i < count(); ++i) {
    TemplateCase c(seed(200 + i));
    Shape shape = drawShape(c, 2, 5);
    auto order = llvm::to_vector(llvm::seq<int64_t>(0, int64_t(shape.size())));
    for (size_t at = order.size(); at > 1; --at)
      std::swap(order[at - 1], order[size_t(c.between(0, int64_t(at) - 1))]);
    ASSERT_NO_FATAL_FAILURE(
        check(c, c.op("transpose", source(c, shape), c.i64s("permutation", order))));
  }
}

TEST_P(Movement, Gather) {
  for (int i = 0; i < count(); ++i) {
    TemplateCase c(seed(300 + i));
    Shape shape = drawShape(c, 1, 3);
    int64_t axis = c.between(0, int64_t(shape.size()) - 1);
    DataType indexType = c.chance(50) ? DataType::I64 : DataType::I32;
    bool byElement = c.chance(40);
    Shape indices = byElement ? shape : drawShape(c, 0, 2);
    if (byElement)
      indices[size_t(axis)] = c.between(1, 9);
    Value at = c.input(indexType, dimsOf(indices), Fill::Index, shape[size_t(axis)]);
    ASSERT_NO_FATAL_FAILURE(check(c, c.op(byElement ? "gather_elements" : "gather",
                                          {source(c, shape), at}, c.i64("axis", axis))));
  }
}

TEST_P(Movement, Pad) {
  for (int i = 0; i < count(); ++i) {
    TemplateCase c(seed(400 + i));
    Shape shape = drawShape(c, 1, 4);
    const char *mode = std::vector{"constant", "reflect", "edge", "wrap"}[size_t(c.between(0, 3))];
    SmallVector<int64_t> low, high;
    for (int64_t size : shape) {
      bool reflects = mode == llvm::StringRef("reflect");
      int64_t most = reflects ? std::min<int64_t>(size - 1, 4) : std::min<int64_t>(size, 4);
      low.push_back(c.between(0, most));
      high.push_back(c.between(0, most));
    }
    Value x = source(c, shape);
    Value value =
        mode == llvm::StringRef("constant") && c.chance(60) ? c.scalar(GetParam(), 1) : c.none();
    ASSERT_NO_FATAL_FAILURE(
        check(c, c.op("pad", {x, value},
                      {c.i64s("low", low), c.i64s("high", high), c.text("mode", mode)})));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Movement,
                         testing::Values(DataType::F32, DataType::F64, DataType::BF16, DataType::I8,
                                         DataType::I64, DataType::Bool),
                         [](const auto &info) { return std::string(name(info.param)); });

// What lies one after the other depends on sizes that only the run knows.
TEST(MovementOfSymbols, Concat) {
  for (int64_t axis : {0, 1, 2}) {
    TemplateCase c(90000 + unsigned(axis));
    Dims first{"k", "n", 5}, second{"k", "n", 5};
    second[size_t(axis)] = "m";
    Value a = c.input(DataType::F32, first), b = c.input(DataType::F32, second);
    Value joined = c.op("concat", {a, b}, c.i64("axis", axis));
    Value turned = c.op("transpose", joined, c.i64s("permutation", {2, 0, 1}));
    std::vector<Sizes> runs;
    for (int64_t n : {1, 3, 8, 17, 33})
      runs.push_back({{"k", 1 + n % 4}, {"n", n}, {"m", 40 - n}});
    ASSERT_NO_FATAL_FAILURE(c.check(perhapsFused(c, turned), "", 0, runs));
  }
}

} // namespace
} // namespace tensmith::pipeline

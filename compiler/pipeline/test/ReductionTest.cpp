// Reductions over each set of axes, with and without the reduced dimensions kept, and what a kernel
// fuses before and after them. Whole numbers make them exact in any order.
#include "compiler/pipeline/test/TemplateCase.h"

using namespace mlir;

namespace tensmith::pipeline {
namespace {

Shape drawShape(TemplateCase &c, int64_t rank) {
  Shape shape;
  for (; rank > 0; --rank)
    shape.push_back(c.among({1, 2, 3, 5, 7, 8, 9, 17}));
  if (c.chance(40))
    shape[size_t(c.between(0, int64_t(shape.size()) - 1))] = c.among({31, 33, 64, 100, 130});
  return shape;
}

SmallVector<int64_t> axesOf(unsigned set) {
  SmallVector<int64_t> axes;
  for (int64_t axis = 0; set >> axis; ++axis)
    if (set >> axis & 1)
      axes.push_back(axis);
  return axes;
}

struct ReduceCase {
  const char *name;
  DataType type;
};

class Reduction : public testing::TestWithParam<ReduceCase> {};

// Fails if an axis is taken for another, the start of a reduction is not its neutral element, or
// the rest of a vector counts.
TEST_P(Reduction, OverEachSetOfAxes) {
  auto [name, type] = GetParam();
  bool isProduct = name == llvm::StringRef("reduce_prod");
  for (int64_t rank : {1, 2, 3})
    for (unsigned set = 1; set < 1u << rank; ++set) {
      TemplateCase c(100000 + 1000 * unsigned(type) + 100 * unsigned(name[9]) +
                     10 * unsigned(rank) + set);
      Shape shape = drawShape(c, rank);
      Value x = c.input(type, dimsOf(shape), isProduct ? Fill::Signs : Fill::Whole);
      if (!isProduct && c.chance(40))
        x = c.op("mul", {x, c.input(type, {shape.back()})});
      Value y = c.op(name, x, {c.i64s("axes", axesOf(set)), c.flag("keepdims", c.chance(50))});
      if (c.chance(40))
        y = c.op("add", {y, c.scalar(type, 1)});
      ASSERT_NO_FATAL_FAILURE(c.check(y, ""));
    }
}

INSTANTIATE_TEST_SUITE_P(OperatorsAndTypes, Reduction,
                         testing::Values(ReduceCase{"reduce_sum", DataType::F32},
                                         ReduceCase{"reduce_max", DataType::F32},
                                         ReduceCase{"reduce_min", DataType::F32},
                                         ReduceCase{"reduce_prod", DataType::F32},
                                         ReduceCase{"reduce_sum", DataType::F64},
                                         ReduceCase{"reduce_sum", DataType::I32},
                                         ReduceCase{"reduce_max", DataType::I8},
                                         ReduceCase{"reduce_min", DataType::U8}),
                         [](const auto &info) {
                           return std::string(info.param.name + 7) + "_" +
                                  std::string(name(info.param.type));
                         });

// Fails if of equal elements another than the first (or last) is named.
TEST(ArgReduction, OfEquals) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    TemplateCase c(120000 + seed);
    Shape shape = drawShape(c, c.between(1, 4));
    Value x = c.input(seed % 3 ? DataType::F32 : DataType::I32, dimsOf(shape));
    Value y = c.op(c.chance(50) ? "arg_max" : "arg_min", x,
                   {c.i64("axis", c.between(0, int64_t(shape.size()) - 1)),
                    c.flag("keepdims", c.chance(50)), c.flag("last", c.chance(50))});
    ASSERT_NO_FATAL_FAILURE(c.check(y, ""));
  }
}

TEST(ReductionOfSymbols, EveryLength) {
  for (const char *name : {"reduce_sum", "reduce_max"})
    for (unsigned set : {1u, 2u, 3u}) {
      TemplateCase c(130000 + set);
      Value x = c.input(DataType::F32, {"rows", "columns"});
      Value y = c.op(name, x, {c.i64s("axes", axesOf(set)), c.flag("keepdims", set == 2)});
      std::vector<Sizes> runs;
      for (int64_t n : {1, 2, 7, 8, 9, 17, 64, 130})
        runs.push_back({{"rows", n}, {"columns", 1 + n * 7 % 40}});
      ASSERT_NO_FATAL_FAILURE(c.check(y, "", 0, runs));
    }
}

} // namespace
} // namespace tensmith::pipeline

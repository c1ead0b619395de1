// Reading and writing at indices, choosing elements, reductions and creation by the reference
// evaluator, against the examples of the ONNX specification and NumPy's values.
#include "reference/test/Expectations.h"

namespace tensmith::reference {
namespace {

constexpr StatusCode kInvalid = StatusCode::InvalidArgument;

HostTensor indices(Shape shape, const Integers &values) {
  return integers(DataType::I64, std::move(shape), values);
}
HostTensor data(Shape shape, const Integers &values) {
  return integers(DataType::I32, std::move(shape), values);
}
void expectData(const std::vector<HostTensor> &results, const Shape &shape,
                const Integers &values) {
  expectIntegers(results, 0, DataType::I32, shape, values);
}
AttributeList axis(int64_t value) { return {{"axis", value}}; }

TEST(GatherReference, SlicesAlongAnAxis) {
  HostTensor x = data({3, 2}, {1, 2, 3, 4, 5, 6});
  expectData(evaluated("gather", {x, indices({2}, {-1, 0})}, axis(0)), {2, 2}, {5, 6, 1, 2});
  expectData(evaluated("gather", {x, indices({1, 2}, {1, 1})}, axis(1)), {3, 1, 2},
             {2, 2, 4, 4, 6, 6});
  HostTensor words = HostTensor::ofStrings({2}, {"a", "b"});
  expectStrings(evaluated("gather", {words, indices({}, {1})}, axis(0)), 0, {}, {"b"});
  expectFailure("gather", {x, indices({2}, {0, 3})}, axis(0), kInvalid,
                "holds 3, outside of the dimension: [-3, 3), at position 1");
  expectFailure("gather", {x, floats({1}, {0})}, axis(0), kInvalid, "must be integers");
}

TEST(GatherReference, ElementsAndTuples) {
  HostTensor x = data({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  expectData(evaluated("gather_elements", {x, indices({2, 3}, {1, 2, 0, 2, 0, 0})}, axis(0)),
             {2, 3}, {4, 8, 3, 7, 2, 3});
  HostTensor cube = data({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  expectData(evaluated("gather_nd", {cube, indices({2, 1, 2}, {0, 1, 1, 0})}, {}), {2, 1, 2},
             {2, 3, 4, 5});
  expectData(evaluated("gather_nd", {cube, indices({2, 1}, {1, 0})}, {{"batch_dims", int64_t(1)}}),
             {2, 2}, {2, 3, 4, 5});
  expectFailure("gather_nd", {cube, indices({1, 2}, {0, -3})}, {}, kInvalid,
                "holds -3, outside of the dimension: [-2, 2), at position 1");
}

TEST(GatherReference, OneHot) {
  HostTensor values = data({2}, {5, 9}), depth = indices({}, {3});
  expectData(evaluated("one_hot", {indices({2}, {-1, 7}), depth, values}, {}), {2, 3},
             {5, 5, 9, 5, 5, 5});
  expectData(evaluated("one_hot", {indices({2}, {0, 2}), depth, values}, axis(0)), {3, 2},
             {9, 5, 5, 5, 5, 9});
}

TEST(ScatterReference, Elements) {
  HostTensor x = data({1, 5}, {1, 2, 3, 4, 5}), updates = data({1, 2}, {11, 21});
  expectData(evaluated("scatter_elements", {x, indices({1, 2}, {1, -2}), updates}, axis(1)), {1, 5},
             {1, 11, 3, 21, 5});
  auto combined = [&](const char *how) {
    return evaluated("scatter_elements", {x, indices({1, 2}, {1, 1}), updates},
                     {{"axis", int64_t(1)}, {"reduction", std::string(how)}});
  };
  expectData(combined("add"), {1, 5}, {1, 34, 3, 4, 5});
  expectData(combined("mul"), {1, 5}, {1, 462, 3, 4, 5});
  expectData(combined("max"), {1, 5}, {1, 21, 3, 4, 5});
  expectData(combined("min"), {1, 5}, {1, 2, 3, 4, 5});
  expectFailure("scatter_elements", {x, indices({1, 2}, {1, 5}), updates}, axis(1), kInvalid,
                "holds 5, outside of the dimension: [-5, 5), at position 1");
}

TEST(ScatterReference, SlicesAndCaches) {
  HostTensor x = data({3, 2}, {0, 0, 0, 0, 0, 0});
  auto results =
      evaluated("scatter_nd", {x, indices({2, 1}, {2, 0}), data({2, 2}, {1, 2, 3, 4})}, {});
  expectData(results, {3, 2}, {3, 4, 0, 0, 1, 2});
  expectData({x}, {3, 2}, {0, 0, 0, 0, 0, 0}); // the operand is as it was
  HostTensor words = HostTensor::ofStrings({2}, {"a", "b"});
  expectStrings(
      evaluated("scatter_nd", {words, indices({1, 1}, {0}), HostTensor::ofStrings({1}, {"z"})}, {}),
      0, {2}, {"z", "b"});
  HostTensor past = data({2, 3, 1}, {0, 0, 0, 0, 0, 0}), update = data({2, 2, 1}, {1, 2, 3, 4});
  AttributeList circular{{"axis", int64_t(1)}, {"mode", std::string("circular")}};
  expectData(evaluated("tensor_scatter", {past, update, indices({2}, {0, 2})}, circular), {2, 3, 1},
             {1, 2, 0, 4, 0, 3});
  expectFailure("tensor_scatter", {past, update, indices({2}, {0, 2})}, axis(1), kInvalid,
                "'write_indices' holds 2");
}

TEST(SelectionReference, NonZeroAndCompress) {
  expectIntegers(evaluated("nonzero", {floats({2, 2}, {1, 0, NAN, -1})}, {}), 0, DataType::I64,
                 {2, 3}, {0, 1, 1, 0, 0, 1});
  HostTensor x = data({3, 2}, {1, 2, 3, 4, 5, 6}), mask = integers(DataType::Bool, {2}, {0, 1});
  expectData(evaluated("compress", {x, mask}, axis(0)), {1, 2}, {3, 4});
  expectData(evaluated("compress", {x, mask}, axis(-1)), {3, 1}, {2, 4, 6});
  expectData(evaluated("compress", {x, integers(DataType::Bool, {5}, {0, 1, 0, 0, 1})}, {}), {2},
             {2, 5});
  expectFailure("compress", {x, integers(DataType::Bool, {3}, {0, 0, 1})}, axis(1), kInvalid,
                "is true at 2, but there are 2 slices");
}

TEST(SelectionReference, TopK) {
  HostTensor x = data({2, 4}, {3, 7, 7, 1, 5, 5, 5, 9});
  auto results = evaluated("topk", {x, indices({1}, {2})}, axis(-1));
  expectData(results, {2, 2}, {7, 7, 9, 5});
  expectIntegers(results, 1, DataType::I64, {2, 2}, {1, 2, 3, 0});
  results =
      evaluated("topk", {x, indices({1}, {1})}, {{"axis", int64_t(0)}, {"largest", int64_t(0)}});
  expectData(results, {1, 4}, {3, 5, 5, 1});
  expectIntegers(results, 1, DataType::I64, {1, 4}, {0, 1, 1, 0});
  expectFailure("topk", {x, indices({1}, {5})}, axis(1), kInvalid, "'k' is 5");
}

TEST(SelectionReference, Unique) {
  auto results = evaluated("unique", {data({6}, {2, 1, 1, 3, 4, 3})}, {});
  expectData(results, {4}, {1, 2, 3, 4});
  expectIntegers(results, 1, DataType::I64, {4}, {1, 0, 3, 4});
  expectIntegers(results, 2, DataType::I64, {6}, {1, 0, 0, 2, 3, 2});
  expectIntegers(results, 3, DataType::I64, {4}, {2, 1, 2, 1});
  results = evaluated("unique", {data({6}, {2, 1, 1, 3, 4, 3})}, {{"sorted", int64_t(0)}});
  expectData(results, {4}, {2, 1, 3, 4});
  expectIntegers(results, 2, DataType::I64, {6}, {0, 1, 1, 2, 3, 2});
  results = evaluated("unique", {data({3, 3}, {1, 0, 0, 1, 0, 0, 2, 3, 4})}, axis(0));
  expectData(results, {2, 3}, {1, 0, 0, 2, 3, 4});
  results = evaluated("unique", {HostTensor::ofStrings({3}, {"b", "a", "b"})}, {});
  expectStrings(results, 0, {2}, {"a", "b"});
}

TEST(SelectionReference, NonMaxSuppression) {
  HostTensor boxes = floats({1, 6, 4}, {0, 0,  1, 1,  0, 0.1f,  1, 1.1f,  0, -0.1f, 1, 0.9f,
                                        0, 10, 1, 11, 0, 10.1f, 1, 11.1f, 0, 100,   1, 101});
  HostTensor scores = floats({1, 1, 6}, {0.9f, 0.75f, 0.6f, 0.95f, 0.5f, 0.3f});
  HostTensor most = indices({1}, {3}), overlap = floats({1}, {0.5f});
  expectIntegers(evaluated("non_max_suppression", {boxes, scores, most, overlap}, {}), 0,
                 DataType::I64, {3, 3}, {0, 0, 3, 0, 0, 0, 0, 0, 5});
  expectIntegers(
      evaluated("non_max_suppression", {boxes, scores, most, overlap, floats({1}, {0.4f})}, {}), 0,
      DataType::I64, {2, 3}, {0, 0, 3, 0, 0, 0});
}

TEST(ReductionReference, OverAxes) {
  HostTensor x = data({2, 3}, {1, 2, 3, 4, 5, 6});
  AttributeList rows{{"axes", Integers{0}}},
      all{{"axes", Integers{0, 1}}, {"keepdims", int64_t(1)}};
  expectData(evaluated("reduce_sum", {x}, rows), {3}, {5, 7, 9});
  expectData(evaluated("reduce_prod", {x}, all), {1, 1}, {720});
  expectData(evaluated("reduce_max", {x}, {{"axes", Integers{1}}}), {2}, {3, 6});
  expectData(evaluated("reduce_min", {x}, {{"axes", Integers{}}}), {2, 3}, {1, 2, 3, 4, 5, 6});
  expectFailure("reduce_sum", {x}, {{"axes", Integers{2}}}, kInvalid, "'axes' is 2");
}

TEST(ReductionReference, OfNothing) {
  AttributeList over{{"axes", Integers{0}}};
  HostTensor x = floats({0, 2}, {});
  expectNear(evaluated("reduce_sum", {x}, over), 0, {2}, {0, 0});
  expectNear(evaluated("reduce_prod", {x}, over), 0, {2}, {1, 1});
  expectNear(evaluated("reduce_max", {x}, over), 0, {2}, {-HUGE_VAL, -HUGE_VAL});
  HostTensor bytes(DataType::I8, {0}), naturals(DataType::U16, {0}), wide(DataType::I64, {0});
  expectIntegers(evaluated("reduce_max", {bytes}, over), 0, DataType::I8, {}, {-128});
  expectIntegers(evaluated("reduce_min", {naturals}, over), 0, DataType::U16, {}, {65535});
  expectIntegers(evaluated("reduce_max", {wide}, over), 0, DataType::I64, {}, {INT64_MIN});
}

TEST(ReductionReference, RoundsOnce) {
  // In F16, 2048 + 1 + 1 would stay 2048.
  HostTensor x(DataType::F16, {3});
  for (int64_t i = 0; i < 3; ++i)
    x.setDouble(i, i == 0 ? 2048 : 1);
  expectNear(evaluated("reduce_sum", {x}, {{"axes", Integers{0}}}), 0, {}, {2050});
}

TEST(ReductionReference, PositionsOfExtremes) {
  HostTensor x = floats({2, 3}, {2, 5, 5, 1, NAN, NAN});
  expectIntegers(evaluated("arg_max", {x}, axis(1)), 0, DataType::I64, {2}, {1, 1});
  expectIntegers(evaluated("arg_max", {x}, {{"axis", int64_t(1)}, {"last", int64_t(1)}}), 0,
                 DataType::I64, {2}, {2, 2});
  expectIntegers(evaluated("arg_min", {x}, {{"axis", int64_t(0)}, {"keepdims", int64_t(1)}}), 0,
                 DataType::I64, {1, 3}, {1, 1, 1});
  expectFailure("arg_max", {floats({0}, {})}, axis(0), kInvalid, "is empty");
}

TEST(ReductionReference, RunningSums) {
  HostTensor x = data({2, 3}, {1, 2, 3, 4, 5, 6});
  expectData(evaluated("cumsum", {x}, axis(1)), {2, 3}, {1, 3, 6, 4, 9, 15});
  expectData(evaluated("cumsum", {x}, {{"axis", int64_t(1)}, {"exclusive", int64_t(1)}}), {2, 3},
             {0, 1, 3, 0, 4, 9});
  expectData(evaluated("cumsum", {x},
                       {{"axis", int64_t(1)}, {"exclusive", int64_t(1)}, {"reverse", int64_t(1)}}),
             {2, 3}, {5, 3, 0, 11, 6, 0});
  expectData(evaluated("cumprod", {x}, axis(0)), {2, 3}, {1, 2, 3, 4, 10, 18});
}

TEST(CreationReference, RangesAndPositions) {
  expectData(evaluated("range", {data({}, {10}), data({}, {4}), data({}, {-2})}, {}), {3},
             {10, 8, 6});
  expectNear(evaluated("range", {floats({}, {1}), floats({}, {2}), floats({}, {0.3f})}, {}), 0, {4},
             {1, 1.3, 1.6, 1.9});
  expectFailure("range", {data({}, {0}), data({}, {4}), data({}, {0})}, {}, kInvalid, "'delta'");
  expectFailure("range", {floats({}, {0}), floats({}, {INFINITY}), floats({}, {1})}, {}, kInvalid,
                "'delta'");
  expectData(evaluated("iota", {}, axis(1), {{DataType::I32, Shape{2, 3}}}), {2, 3},
             {0, 1, 2, 0, 1, 2});
}

TEST(CreationReference, RandomNumbersFollowTheirSeed) {
  ResultTypes type{{DataType::F32, Shape{1000}}};
  AttributeList seven{{"seed", int64_t(7)}, {"low", -1.0}, {"high", 3.0}};
  auto a = evaluated("random_uniform", {}, seven, type),
       b = evaluated("random_uniform", {}, seven, type);
  EXPECT_EQ(std::memcmp(a[0].data(), b[0].data(), size_t(a[0].bytes())), 0);
  auto c = evaluated("random_uniform", {}, {{"seed", int64_t(8)}}, type);
  EXPECT_NE(std::memcmp(a[0].data(), c[0].data(), size_t(a[0].bytes())), 0);
  double sum = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    ASSERT_GE(a[0].getDouble(i), -1);
    ASSERT_LT(a[0].getDouble(i), 3);
    sum += a[0].getDouble(i);
  }
  EXPECT_NEAR(sum / 1000, 1, 0.15);
}

TEST(CreationReference, DrawsAndDrops) {
  HostTensor sure = floats({3}, {0, 1, 1});
  AttributeList to{
      {"to", int64_t(DataType::I32)}, {"seed", int64_t(1)}, {"sample_size", int64_t(4)}};
  expectData(evaluated("bernoulli", {sure}, to), {3}, {0, 1, 1});
  expectData(evaluated("multinomial", {floats({2, 2}, {-1000, 0, 0, -1000})}, to), {2, 4},
             {1, 1, 1, 1, 0, 0, 0, 0});
  HostTensor x = positive({1000}, 3), half = floats({}, {0.5}),
             yes = integers(DataType::Bool, {}, {1});
  auto kept = evaluated("dropout", {x, half}, {{"seed", int64_t(1)}});
  EXPECT_EQ(kept[0].data(), x.data());
  auto dropped = evaluated("dropout", {x, half, yes}, {{"seed", int64_t(1)}});
  int64_t count = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    count += dropped[1].getInt(i);
    EXPECT_EQ(dropped[0].getDouble(i), dropped[1].getInt(i) ? 2 * x.getDouble(i) : 0);
  }
  EXPECT_NEAR(double(count), 500, 80);
}

TEST(Reference, UnknownOperatorsAreNamed) {
  EXPECT_EQ(find("frobnicate"), nullptr);
  expectFailure("frobnicate", {}, {}, StatusCode::Unsupported, "'frobnicate'");
}

} // namespace
} // namespace tensmith::reference

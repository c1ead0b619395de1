// Movement operators by the reference evaluator, against NumPy's values. A case breaks where an
// axis, a stride or a clamped bound is wrong; each is also tried on strings or complex numbers,
// which only move.
#include "reference/test/Expectations.h"

namespace tensmith::reference {
namespace {

constexpr StatusCode kInvalid = StatusCode::InvalidArgument;

/// 0, 1, 2, ... of 32-bit integers.
HostTensor counted(Shape shape) {
  HostTensor tensor(DataType::I32, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.setInt(i, i);
  return tensor;
}

HostTensor list(const Integers &values) {
  return integers(DataType::I64, {int64_t(values.size())}, values);
}

ResultTypes typed(Shape shape) { return {{DataType::I32, std::move(shape)}}; }

void expectMoved(const std::vector<HostTensor> &results, const Shape &shape,
                 const Integers &values) {
  expectIntegers(results, 0, DataType::I32, shape, values);
}

TEST(MovementReference, ReshapeSharesMemory) {
  HostTensor x = counted({2, 3});
  auto results = evaluated("reshape", {x}, {}, typed({3, 2}));
  expectMoved(results, {3, 2}, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(results[0].data(), x.data());
  expectFailure("reshape", {x}, {}, kInvalid, "has not as many", typed({4}));
  expectFailure("reshape", {x}, {}, kInvalid, "no known shape");
}

TEST(MovementReference, Transposes) {
  expectMoved(evaluated("transpose", {counted({2, 3})}, {{"permutation", Integers{1, 0}}}), {3, 2},
              {0, 3, 1, 4, 2, 5});
  expectMoved(evaluated("transpose", {counted({2, 2, 2})}, {{"permutation", Integers{2, 0, 1}}}),
              {2, 2, 2}, {0, 2, 4, 6, 1, 3, 5, 7});
  HostTensor words = HostTensor::ofStrings({2, 2}, {"a", "b", "c", "d"});
  expectStrings(evaluated("transpose", {words}, {{"permutation", Integers{1, 0}}}), 0, {2, 2},
                {"a", "c", "b", "d"});
  for (const Integers &wrong : {Integers{0, 0}, Integers{0}, Integers{0, 2}})
    expectFailure("transpose", {words}, {{"permutation", wrong}}, kInvalid, "'permutation'");
}

TEST(MovementReference, TransposesByTilesAsByElements) {
  Shape shape{3, 37, 2, 70};
  for (DataType type : {DataType::I8, DataType::I16, DataType::I32, DataType::I64, DataType::C128})
    for (const Integers &permutation :
         {Integers{3, 1, 2, 0}, Integers{0, 3, 2, 1}, Integers{1, 3, 0, 2}, Integers{2, 3, 1, 0}}) {
      HostTensor x(type, shape);
      for (int64_t i = 0; i < x.size(); ++i)
        x.setDouble(i, double(i % 127));
      auto results = evaluated("transpose", {x}, {{"permutation", permutation}});
      Integers strides{37 * 2 * 70, 2 * 70, 70, 1};
      int64_t next = 0, wrong = 0;
      ASSERT_EQ(results.size(), 1u);
      const Shape &y = results[0].shape();
      for (Integers at(4, 0); at[0] < y[0]; ++at[0])
        for (at[1] = 0; at[1] < y[1]; ++at[1])
          for (at[2] = 0; at[2] < y[2]; ++at[2])
            for (at[3] = 0; at[3] < y[3]; ++at[3]) {
              int64_t from = 0;
              for (size_t k = 0; k < 4; ++k)
                from += at[k] * strides[size_t(permutation[k])];
              wrong += results[0].getDouble(next++) != double(from % 127);
            }
      EXPECT_EQ(wrong, 0) << name(type);
    }
}

TEST(MovementReference, Broadcasts) {
  expectMoved(evaluated("broadcast", {counted({2, 1})}, {}, typed({2, 2, 3})), {2, 2, 3},
              {0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1});
  expectMoved(evaluated("dynamic_broadcast", {counted({3, 1}), list({2, 1, 2})}, {}), {2, 3, 2},
              {0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2});
  expectMoved(evaluated("dynamic_broadcast", {counted({2, 2}), list({1})}, {}), {2, 2},
              {0, 1, 2, 3});
  expectFailure("broadcast", {counted({2})}, {}, kInvalid, "can't be broadcast", typed({3}));
}

TEST(MovementReference, Slices) {
  AttributeList down{{"starts", Integers{1, 2}}, {"steps", Integers{1, -2}}};
  expectMoved(evaluated("slice", {counted({3, 3})}, down, typed({2, 2})), {2, 2}, {5, 3, 8, 6});
  expectFailure("slice", {counted({3, 3})}, down, kInvalid, "left by the slice", typed({3, 2}));
  expectFailure("slice", {counted({3, 3})}, down, kInvalid, "left by the slice", typed({2, 3}));
}

TEST(MovementReference, SlicesAsOnnxClamps) {
  HostTensor x = counted({10});
  auto sliced = [&](int64_t start, int64_t end, int64_t step) {
    return evaluated("dynamic_slice", {x, list({start}), list({end}), list({0}), list({step})}, {});
  };
  expectMoved(sliced(7, INT64_MAX, 1), {3}, {7, 8, 9});
  expectMoved(sliced(-3, -1, 1), {2}, {7, 8});
  expectMoved(sliced(INT64_MAX, INT64_MIN, -4), {3}, {9, 5, 1});
  expectMoved(sliced(8, 2, INT64_MIN), {1}, {8});
  expectMoved(sliced(5, 5, 1), {0}, {});
  expectMoved(sliced(20, 30, 1), {0}, {});
  expectFailure("dynamic_slice", {x, list({0}), list({1}), list({0}), list({0})}, {}, kInvalid,
                "'steps' has a 0");
  expectFailure("dynamic_slice", {x, list({0}), list({1}), list({1})}, {}, kInvalid, "'axes'");
}

TEST(MovementReference, Concatenates) {
  auto results = evaluated("concat", {counted({2, 1}), counted({2, 0}), counted({2, 2})},
                           {{"axis", int64_t(1)}});
  expectMoved(results, {2, 3}, {0, 0, 1, 1, 2, 3});
  HostTensor word = HostTensor::ofStrings({1}, {"x"});
  expectStrings(evaluated("concat", {word, word}, {{"axis", int64_t(0)}}), 0, {2}, {"x", "x"});
  expectFailure("concat", {counted({2, 1}), counted({3, 1})}, {{"axis", int64_t(1)}}, kInvalid,
                "differ beside");
}

TEST(MovementReference, PadsInEveryMode) {
  auto pad = [](const std::string &mode, Integers low, Integers high) {
    return evaluated("pad", {counted({3}), integers(DataType::I32, {}, {9})},
                     {{"low", low}, {"high", high}, {"mode", mode}});
  };
  expectMoved(pad("constant", {2}, {1}), {6}, {9, 9, 0, 1, 2, 9});
  expectMoved(pad("constant", {-1}, {1}), {3}, {1, 2, 9});
  expectMoved(pad("constant", {-4}, {2}), {1}, {9});
  expectMoved(pad("edge", {2}, {1}), {6}, {0, 0, 0, 1, 2, 2});
  expectMoved(pad("reflect", {5}, {2}), {10}, {1, 0, 1, 2, 1, 0, 1, 2, 1, 0});
  expectMoved(pad("wrap", {4}, {1}), {8}, {2, 0, 1, 2, 0, 1, 2, 0});
  expectMoved(pad("edge", {-1}, {2}), {4}, {1, 2, 2, 2});
  expectFailure("pad", {counted({0})},
                {{"low", Integers{1}}, {"high", Integers{0}}, {"mode", std::string("edge")}},
                kInvalid, "empty dimension");
  expectFailure("pad", {counted({3})}, {{"low", Integers{-2}}, {"high", Integers{-2}}}, kInvalid,
                "can't be padded");
}

TEST(MovementReference, PadsTheAxesNamed) {
  HostTensor none, x = counted({2, 2});
  auto results = evaluated("dynamic_pad", {x, list({1, 0}), none, list({-1})}, {});
  expectMoved(results, {2, 3}, {0, 0, 1, 0, 2, 3});
  expectMoved(evaluated("dynamic_pad", {x, list({0, 1, 1, 0})}, {{"mode", std::string("reflect")}}),
              {3, 3}, {1, 0, 1, 3, 2, 3, 1, 0, 1});
}

TEST(MovementReference, Reverses) {
  expectMoved(evaluated("reverse", {counted({2, 3})}, {{"axes", Integers{1}}}), {2, 3},
              {2, 1, 0, 5, 4, 3});
  HostTensor x = counted({4, 2});
  AttributeList axes{{"batch_axis", int64_t(1)}, {"time_axis", int64_t(0)}};
  expectMoved(evaluated("reverse_sequence", {x, list({3, 2})}, axes), {4, 2},
              {4, 3, 2, 1, 0, 5, 6, 7});
  expectFailure("reverse_sequence", {x, list({3, 5})}, axes, kInvalid, "holds 5 at 1");
}

TEST(MovementReference, KeepsTriangles) {
  HostTensor x = counted({2, 3});
  expectMoved(evaluated("trilu", {x}, {}), {2, 3}, {0, 1, 2, 0, 4, 5});
  expectMoved(evaluated("trilu", {x, integers(DataType::I64, {}, {1})}, {}), {2, 3},
              {0, 1, 2, 0, 0, 5});
  expectMoved(evaluated("trilu", {x}, {{"upper", int64_t(0)}}), {2, 3}, {0, 0, 0, 3, 4, 0});
  expectMoved(evaluated("trilu", {x, list({INT64_MIN})}, {{"upper", int64_t(0)}}), {2, 3},
              {0, 0, 0, 0, 0, 0});
}

TEST(MovementReference, PacksPanels) {
  AttributeList width{{"width", int64_t(2)}};
  auto packed = evaluated("pack", {counted({2, 3})}, width);
  expectMoved(packed, {2, 2, 2}, {0, 1, 3, 4, 2, 0, 5, 0});
  expectMoved(evaluated("unpack", {packed[0]}, {{"columns", int64_t(3)}}), {2, 3},
              {0, 1, 2, 3, 4, 5});
  width.emplace_back("transposed", int64_t(1));
  expectMoved(evaluated("pack", {counted({3, 2})}, width), {2, 2, 2}, {0, 2, 1, 3, 4, 0, 5, 0});
}

TEST(MovementReference, PackedIsTransposedAndPacked) {
  HostTensor x = counted({2, 45, 33});
  auto turned = evaluated("transpose", {x}, {{"permutation", Integers{0, 2, 1}}});
  auto expected = evaluated("pack", {turned[0]}, {{"width", int64_t(16)}});
  auto packed = evaluated("pack", {x}, {{"width", int64_t(16)}, {"transposed", int64_t(1)}});
  ASSERT_EQ(packed[0].shape(), (Shape{2, 3, 33, 16}));
  EXPECT_EQ(std::memcmp(packed[0].data(), expected[0].data(), size_t(packed[0].bytes())), 0);
  auto unpacked = evaluated("unpack", {packed[0]}, {{"columns", int64_t(45)}});
  EXPECT_EQ(std::memcmp(unpacked[0].data(), turned[0].data(), size_t(x.bytes())), 0);
}

TEST(MovementReference, ReshapesToWhatRemains) {
  HostTensor x = counted({2, 6});
  expectMoved(evaluated("dynamic_reshape", {x, list({0, -1, 3})}, {}), {2, 2, 3},
              {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  HostTensor empty = counted({0, 4});
  auto results = evaluated("dynamic_reshape", {empty, list({3, 0})}, {{"allowzero", int64_t(1)}});
  expectMoved(results, {3, 0}, {});
  expectFailure("dynamic_reshape", {x, list({5, -1})}, {}, kInvalid, "asks for");
  expectFailure("dynamic_reshape", {x, list({-1, -1})}, {}, kInvalid, "more than one -1");
  expectFailure("dynamic_reshape", {x, list({-2, -6})}, {}, kInvalid, "asks for");
}

TEST(MovementReference, TilesAndCenters) {
  expectMoved(evaluated("dynamic_tile", {counted({2, 2}), list({2, 2})}, {}), {4, 4},
              {0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3});
  expectMoved(evaluated("center_crop_pad", {counted({5}), list({2})}, {}), {2}, {1, 2});
  expectMoved(evaluated("center_crop_pad", {counted({2}), list({5})}, {}), {5}, {0, 0, 1, 0, 0});
  expectFailure("dynamic_tile", {counted({2}), list({INT64_MAX})}, {}, kInvalid, "'repeats'");
}

TEST(MovementReference, TellsShapes) {
  HostTensor x = counted({2, 3, 4});
  expectIntegers(evaluated("shape", {x}, {}), 0, DataType::I64, {3}, {2, 3, 4});
  expectIntegers(evaluated("shape", {x}, {{"start", int64_t(-2)}, {"end", int64_t(-1)}}), 0,
                 DataType::I64, {1}, {3});
  expectIntegers(evaluated("shape", {x}, {{"start", int64_t(5)}}), 0, DataType::I64, {0}, {});
  expectIntegers(evaluated("size", {x}, {}), 0, DataType::I64, {}, {24});
}

} // namespace
} // namespace tensmith::reference

// Elementwise operators by the reference evaluator, against NumPy's values or those that the
// operators' records state. A case breaks where broadcasting, an integer's edge or a conversion is
// read differently.
#include "reference/test/Expectations.h"

namespace tensmith::reference {
namespace {

HostTensor bytes(const Integers &values) {
  return integers(DataType::I8, {int64_t(values.size())}, values);
}

void expectBytes(const std::string &name, const Integers &a, const Integers &b,
                 const Integers &expected, const AttributeList &list = {}) {
  auto results = evaluated(name, {bytes(a), bytes(b)}, list);
  expectIntegers(results, 0, DataType::I8, {int64_t(a.size())}, expected);
}

TEST(ElementwiseReference, IntegersWrap) {
  expectBytes("add", {127, -128}, {1, -1}, {-128, 127});
  expectBytes("sub", {-128, 5}, {1, 7}, {127, -2});
  expectBytes("mul", {100, -128}, {3, -1}, {44, -128});
  HostTensor most = integers(DataType::I64, {1}, {INT64_MAX});
  expectIntegers(evaluated("add", {most, most}, {}), 0, DataType::I64, {1}, {-2});
}

TEST(ElementwiseReference, IntegerDivisionNeverTraps) {
  expectBytes("div", {7, -7, -128, 5}, {2, 2, -1, 0}, {3, -3, -128, 0});
  HostTensor least = integers(DataType::I64, {1}, {INT64_MIN});
  HostTensor minusOne = integers(DataType::I64, {1}, {-1});
  expectIntegers(evaluated("div", {least, minusOne}, {}), 0, DataType::I64, {1}, {INT64_MIN});
  expectIntegers(evaluated("mod", {least, minusOne}, {}), 0, DataType::I64, {1}, {0});
  HostTensor large = integers(DataType::U64, {1}, {-1}), two = integers(DataType::U64, {1}, {2});
  expectIntegers(evaluated("div", {large, two}, {}), 0, DataType::U64, {1}, {INT64_MAX});
}

TEST(ElementwiseReference, RemaindersHaveTheirSigns) {
  expectBytes("mod", {7, -7, 7, -7, 5}, {3, 3, -3, -3, 0}, {1, 2, -2, -1, 0});
  expectBytes("mod", {7, -7, 7, -7, 5}, {3, 3, -3, -3, 0}, {1, -1, 1, -1, 0},
              {{"fmod", int64_t(1)}});
  HostTensor a = floats({2}, {-7.5, 7.5}), b = floats({2}, {2, -2});
  expectNear(evaluated("mod", {a, b}, {}), 0, {2}, {0.5, -0.5});
  expectNear(evaluated("mod", {a, b}, {{"fmod", int64_t(1)}}), 0, {2}, {-1.5, 1.5});
}

TEST(ElementwiseReference, PowersTakeAnExponentOfAnotherType) {
  expectBytes("pow", {3, -2, 2, -1, 0}, {4, 3, -1, -3, -1}, {81, -8, 0, -1, 0});
  auto results = evaluated("pow", {integers(DataType::I32, {2}, {4, 9}), floats({}, {0.5})}, {});
  expectIntegers(results, 0, DataType::I32, {2}, {2, 3});
  results = evaluated("pow", {floats({2}, {2, 0.5}), integers(DataType::I64, {}, {-2})}, {});
  expectNear(results, 0, {2}, {0.25, 4});
}

TEST(ElementwiseReference, BroadcastsAsNumPy) {
  auto results = evaluated("sub", {floats({2, 1}, {1, 2}), floats({3}, {10, 20, 30})}, {});
  expectNear(results, 0, {2, 3}, {-9, -19, -29, -8, -18, -28});
  results = evaluated("mul", {floats({2, 0, 1}, {}), floats({5}, {1, 2, 3, 4, 5})}, {});
  expectNear(results, 0, {2, 0, 5}, {});
  expectFailure("add", {floats({2}, {1, 2}), floats({3}, {1, 2, 3})}, {},
                StatusCode::InvalidArgument, "can't be broadcast");
  expectFailure("add", {floats({1}, {1}), bytes({1})}, {}, StatusCode::InvalidArgument,
                "of type i8");
}

TEST(ElementwiseReference, RunsLongerThanABufferAreWhole) {
  HostTensor a(DataType::I32, {3, 1500}), b = integers(DataType::I32, {3, 1}, {1, 2, 3});
  for (int64_t i = 0; i < a.size(); ++i)
    a.setInt(i, i);
  auto results = evaluated("add", {a, b}, {});
  ASSERT_EQ(results.size(), 1u);
  for (int64_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(results[0].getInt(i), i + i / 1500 + 1);
}

TEST(ElementwiseReference, ExtremesPassOnNan) {
  HostTensor a = floats({3}, {NAN, 1, 2}), b = floats({3}, {1, NAN, 3});
  for (const char *name : {"min", "max"}) {
    auto results = evaluated(name, {a, b}, {});
    EXPECT_TRUE(std::isnan(results[0].getDouble(0)) && std::isnan(results[0].getDouble(1)));
    EXPECT_EQ(results[0].getDouble(2), name == std::string("min") ? 2 : 3);
  }
  HostTensor large = integers(DataType::U64, {1}, {-1}), one = integers(DataType::U64, {1}, {1});
  expectIntegers(evaluated("max", {large, one}, {}), 0, DataType::U64, {1}, {-1});
}

TEST(ElementwiseReference, BitsAndShifts) {
  expectBytes("bitwise_and", {12, -1}, {10, 7}, {8, 7});
  expectBytes("bitwise_or", {12, -128}, {10, 1}, {14, -127});
  expectBytes("bitwise_xor", {12, -1}, {10, -1}, {6, 0});
  expectIntegers(evaluated("bitwise_not", {bytes({0, 5})}, {}), 0, DataType::I8, {2}, {-1, -6});
  HostTensor a = integers(DataType::U8, {4}, {1, 0x81, 255, 1}),
             by = integers(DataType::U8, {4}, {7, 1, 8, 200});
  expectIntegers(evaluated("bit_shift", {a, by}, {}), 0, DataType::U8, {4}, {128, 2, 0, 0});
  expectIntegers(evaluated("bit_shift", {a, by}, {{"left", int64_t(0)}}), 0, DataType::U8, {4},
                 {0, 64, 0, 0});
  HostTensor negative = bytes({-4, 5, -128, 7}), amount = bytes({-1, 8, 7, 1});
  expectIntegers(evaluated("bit_shift", {negative, amount}, {{"left", int64_t(0)}}), 0,
                 DataType::I8, {4}, {-1, 0, -1, 3});
  expectIntegers(evaluated("bit_shift", {negative, amount}, {}), 0, DataType::I8, {4},
                 {0, 0, 0, 14});
  expectFailure("bitwise_and", {floats({1}, {1}), floats({1}, {1})}, {}, StatusCode::Unsupported,
                "only integers");
}

TEST(ElementwiseReference, FunctionsRoundAndTest) {
  HostTensor x = floats({6}, {-2.5, -0.5, 0.5, 1.5, 2.5, -0.0});
  expectNear(evaluated("round", {x}, {}), 0, {6}, {-2, -0.0, 0, 2, 2, 0});
  expectNear(evaluated("ceil", {x}, {}), 0, {6}, {-2, 0, 1, 2, 3, 0});
  expectNear(evaluated("floor", {x}, {}), 0, {6}, {-3, -1, 0, 1, 2, 0});
  expectNear(evaluated("sign", {x}, {}), 0, {6}, {-1, -1, 1, 1, 1, 0});
  expectNear(evaluated("sigmoid", {floats({3}, {-100, 0, 100})}, {}), 0, {3}, {0, 0.5, 1});
  expectNear(evaluated("rsqrt", {floats({2}, {4, 0})}, {}), 0, {2}, {0.5, HUGE_VAL});
  expectIntegers(evaluated("abs", {bytes({-128, -3, 4})}, {}), 0, DataType::I8, {3}, {-128, 3, 4});
  expectIntegers(evaluated("neg", {bytes({-128, -3, 4})}, {}), 0, DataType::I8, {3}, {-128, 3, -4});
}

TEST(ElementwiseReference, InfinitiesByTheirSign) {
  HostTensor x = floats({4}, {INFINITY, -INFINITY, NAN, 1});
  expectIntegers(evaluated("isinf", {x}, {}), 0, DataType::Bool, {4}, {1, 1, 0, 0});
  expectIntegers(evaluated("isinf", {x}, {{"detect_negative", int64_t(0)}}), 0, DataType::Bool, {4},
                 {1, 0, 0, 0});
  expectIntegers(evaluated("isinf", {x}, {{"detect_positive", int64_t(0)}}), 0, DataType::Bool, {4},
                 {0, 1, 0, 0});
  expectIntegers(evaluated("isnan", {x}, {}), 0, DataType::Bool, {4}, {0, 0, 1, 0});
}

TEST(ElementwiseReference, ComparesAndChooses) {
  HostTensor a = floats({3}, {1, NAN, 3}), b = floats({3}, {2, NAN, 3});
  expectIntegers(evaluated("less", {a, b}, {}), 0, DataType::Bool, {3}, {1, 0, 0});
  expectIntegers(evaluated("equal", {a, b}, {}), 0, DataType::Bool, {3}, {0, 0, 1});
  expectIntegers(evaluated("greater_or_equal", {a, b}, {}), 0, DataType::Bool, {3}, {0, 0, 1});
  HostTensor words = HostTensor::ofStrings({2}, {"cat", "dog"});
  HostTensor dog = HostTensor::ofStrings({}, {"dog"});
  expectIntegers(evaluated("equal", {words, dog}, {}), 0, DataType::Bool, {2}, {0, 1});
  HostTensor yes = integers(DataType::Bool, {2, 1}, {1, 0});
  expectStrings(evaluated("where", {yes, words, dog}, {}), 0, {2, 2}, {"cat", "dog", "dog", "dog"});
  expectNear(evaluated("where", {yes, a, floats({}, {9})}, {}), 0, {2, 3}, {1, NAN, 3, 9, 9, 9});
}

TEST(CastReference, BetweenNumbers) {
  auto cast = [](const HostTensor &x, DataType to, AttributeList list = {}) {
    list.emplace_back("to", int64_t(to));
    return evaluated("cast", {x}, list);
  };
  HostTensor x = floats({5}, {-1.9, 1.9, 300, NAN, -1e30});
  expectIntegers(cast(x, DataType::I8), 0, DataType::I8, {5}, {-1, 1, 127, 0, -128});
  expectIntegers(cast(x, DataType::U8), 0, DataType::U8, {5}, {0, 1, 255, 0, 0});
  expectIntegers(cast(x, DataType::Bool), 0, DataType::Bool, {5}, {1, 1, 1, 1, 1});
  expectIntegers(cast(integers(DataType::I32, {2}, {200, -129}), DataType::I8), 0, DataType::I8,
                 {2}, {-56, 127});
  expectIntegers(cast(integers(DataType::I32, {3}, {7, 8, -9}), DataType::I4), 0, DataType::I4, {3},
                 {7, -8, 7});
  expectNear(cast(integers(DataType::U64, {1}, {-1}), DataType::F32), 0, {1}, {0x1p64});
  expectNear(cast(floats({2}, {1e6, -1e6}), DataType::F8E4M3FN), 0, {2}, {448, -448});
  auto wild = cast(floats({1}, {1e6}), DataType::F8E4M3FN, {{"saturate", int64_t(0)}});
  EXPECT_TRUE(std::isnan(wild[0].getDouble(0)));
  expectNear(cast(floats({2}, {1.1, 3}), DataType::F8E8M0), 0, {2}, {2, 4});
  expectNear(cast(floats({2}, {1.1, 3}), DataType::F8E8M0, {{"round_mode", std::string("down")}}),
             0, {2}, {1, 2});
}

TEST(CastReference, ToAndFromStrings) {
  HostTensor words = HostTensor::ofStrings({5}, {"3.14", " +1e-5", "-inf", "NaN", "+INF"});
  auto results = evaluated("cast", {words}, {{"to", int64_t(DataType::F32)}});
  expectNear(results, 0, {5}, {3.14, 1e-5, -HUGE_VAL, NAN, HUGE_VAL});
  results = evaluated("cast", {HostTensor::ofStrings({1}, {"9007199254740993"})},
                      {{"to", int64_t(DataType::I64)}});
  expectIntegers(results, 0, DataType::I64, {1}, {9007199254740993});
  expectStrings(
      evaluated("cast", {floats({3}, {0.1f, 2, INFINITY})}, {{"to", int64_t(DataType::String)}}), 0,
      {3}, {"0.1", "2", "INF"});
  expectFailure("cast", {HostTensor::ofStrings({2}, {"1", "Hello"})},
                {{"to", int64_t(DataType::F32)}}, StatusCode::InvalidArgument, "'Hello' at 1");
}

TEST(CastReference, BitsAreKept) {
  auto results = evaluated("bit_cast", {floats({1}, {1})}, {{"to", int64_t(DataType::I32)}});
  expectIntegers(results, 0, DataType::I32, {1}, {0x3F800000});
  results = evaluated("bit_cast", {integers(DataType::U4, {2}, {15, 7})},
                      {{"to", int64_t(DataType::I4)}});
  expectIntegers(results, 0, DataType::I4, {2}, {-1, 7});
  expectFailure("bit_cast", {floats({1}, {1})}, {{"to", int64_t(DataType::I64)}},
                StatusCode::InvalidArgument, "as wide as f32");
}

TEST(QuantizationReference, RoundsAndSaturates) {
  AttributeList to{{"axis", int64_t(1)}, {"to", int64_t(DataType::U8)}};
  HostTensor x = floats({6}, {0, 2, 3, 1000, -254, -1000});
  HostTensor zero = integers(DataType::U8, {}, {128});
  auto results = evaluated("quantize", {x, floats({}, {2}), zero}, to);
  expectIntegers(results, 0, DataType::U8, {6}, {128, 129, 130, 255, 1, 0});
  results = evaluated("dequantize", {results[0], floats({}, {2}), zero}, {{"axis", int64_t(1)}});
  expectNear(results, 0, {6}, {0, 2, 4, 254, -254, -256});
}

TEST(QuantizationReference, ScalesAlongAnAxisOrByBlocks) {
  HostTensor q = integers(DataType::I8, {2, 3}, {1, 2, 3, 4, 5, 6});
  AttributeList rows{{"axis", int64_t(0)}, {"to", int64_t(DataType::F32)}};
  AttributeList columns{{"axis", int64_t(-1)}, {"to", int64_t(DataType::F32)}};
  expectNear(evaluated("dequantize", {q, floats({2}, {1, 10})}, rows), 0, {2, 3},
             {1, 2, 3, 40, 50, 60});
  expectNear(evaluated("dequantize", {q, floats({3}, {1, 10, 100})}, columns), 0, {2, 3},
             {1, 20, 300, 4, 50, 600});
  columns.emplace_back("block_size", int64_t(2));
  expectNear(evaluated("dequantize", {q, floats({2, 2}, {1, 10, 100, 1000})}, columns), 0, {2, 3},
             {1, 2, 30, 400, 500, 6000});
  rows.emplace_back("block_size", int64_t(2));
  HostTensor scale = floats({1, 3}, {1, 10, 100}), zero = integers(DataType::I8, {1, 3}, {1, 1, 1});
  expectNear(evaluated("dequantize", {q, scale, zero}, rows), 0, {2, 3}, {0, 10, 200, 3, 40, 500});
  expectFailure("dequantize", {q, floats({2, 1}, {1, 1})}, rows, StatusCode::InvalidArgument,
                "'block_size'");
}

TEST(QuantizationReference, ToNarrowFloats) {
  HostTensor x = floats({3}, {1.06, 1e6, -3});
  auto to = [](DataType type, int64_t saturate) {
    return AttributeList{{"to", int64_t(type)}, {"saturate", saturate}};
  };
  expectNear(evaluated("quantize", {x, floats({}, {1})}, to(DataType::F8E4M3FN, 1)), 0, {3},
             {1, 448, -3});
  auto wild = evaluated("quantize", {x, floats({}, {1})}, to(DataType::F8E5M2, 0));
  EXPECT_EQ(wild[0].getDouble(1), HUGE_VAL);
  expectNear(evaluated("quantize", {x, floats({}, {1})}, to(DataType::F4E2M1, 1)), 0, {3},
             {1, 6, -3});
}

} // namespace
} // namespace tensmith::reference

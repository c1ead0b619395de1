// The conversions of narrow floats, over every code of every format. A case breaks where a bias, a
// special code or a rounding is off by one, also at the edges: subnormals, the largest value,
// halves.
#include "base/Float.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tensmith {
namespace {

constexpr DataType kFormats[] = {DataType::F16,        DataType::BF16,   DataType::F8E4M3FN,
                                 DataType::F8E4M3FNUZ, DataType::F8E5M2, DataType::F8E5M2FNUZ,
                                 DataType::F4E2M1};

class FloatFormats : public testing::TestWithParam<DataType> {
protected:
  const FloatFormat &format() const { return *floatFormat(GetParam()); }
  int codes() const { return 1 << info(GetParam()).bits; }
};

TEST_P(FloatFormats, EveryCodeSurvives) {
  for (int code = 0; code < codes(); ++code) {
    double value = decode(format(), uint16_t(code));
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(decode(format(), encode(format(), value, false)))) << code;
    else
      EXPECT_EQ(encode(format(), value, false), code);
  }
}

TEST_P(FloatFormats, PositiveCodesAscend) {
  for (int code = 0; code < format().maxFinite; ++code)
    EXPECT_LT(decode(format(), uint16_t(code)), decode(format(), uint16_t(code + 1))) << code;
}

TEST_P(FloatFormats, RoundsToNearestEven) {
  for (int code = 0; code < format().maxFinite; ++code) {
    double low = decode(format(), uint16_t(code)), high = decode(format(), uint16_t(code + 1));
    double middle = low + (high - low) / 2;
    uint16_t even = uint16_t(code + (code & 1));
    for (bool saturate : {false, true}) {
      EXPECT_EQ(encode(format(), middle, saturate), even) << code;
      EXPECT_EQ(encode(format(), std::nextafter(middle, 0), saturate), code);
      EXPECT_EQ(encode(format(), std::nextafter(middle, HUGE_VAL), saturate), code + 1);
    }
  }
}

TEST_P(FloatFormats, NegatesBySignAlone) {
  uint16_t sign = uint16_t(codes() / 2);
  for (int code = 1; code <= format().maxFinite; ++code)
    EXPECT_EQ(encode(format(), -decode(format(), uint16_t(code)), false), code | sign);
  EXPECT_EQ(encode(format(), -0.0, false), format().signedZero ? sign : 0);
}

TEST_P(FloatFormats, OverflowFollowsOnnxCast) {
  double largest = decode(format(), format().maxFinite);
  for (double value : {largest * 2, double(HUGE_VAL)}) {
    EXPECT_EQ(decode(format(), encode(format(), value, true)), largest);
    EXPECT_EQ(decode(format(), encode(format(), -value, true)), -largest);
    double wild = decode(format(), encode(format(), value, false));
    if (format().hasInfinity)
      EXPECT_EQ(wild, HUGE_VAL);
    else if (format().nan)
      EXPECT_TRUE(std::isnan(wild));
    else
      EXPECT_EQ(wild, largest);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FloatFormats, testing::ValuesIn(kFormats),
                         [](const auto &format) { return std::string(name(format.param)); });

TEST(Float, LargestAndSmallestAreThoseOfTheSpecifications) {
  struct Limits {
    DataType type;
    double largest, smallest;
  };
  for (Limits limits :
       {Limits{DataType::F16, 65504, 0x1p-24}, Limits{DataType::BF16, 0x1.FEp127, 0x1p-133},
        Limits{DataType::F8E4M3FN, 448, 0x1p-9}, Limits{DataType::F8E4M3FNUZ, 240, 0x1p-10},
        Limits{DataType::F8E5M2, 57344, 0x1p-16}, Limits{DataType::F8E5M2FNUZ, 57344, 0x1p-17},
        Limits{DataType::F4E2M1, 6, 0.5}}) {
    const FloatFormat &format = *floatFormat(limits.type);
    EXPECT_EQ(decode(format, format.maxFinite), limits.largest) << name(limits.type);
    EXPECT_EQ(decode(format, 1), limits.smallest) << name(limits.type);
  }
}

TEST(Float, RoundsADoubleOnce) {
  // Through F32 this would become a half, and that would go to even, downwards.
  double justAboveHalf = 1 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(encode(*floatFormat(DataType::F16), justAboveHalf, false), 0x3C01);
}

TEST(Float, RoundedToOddIntegersRoundOnce) {
  // 2^62 + half an ulp of BF16 + 1: rounded to double first, it would be a tie, and go to even.
  int64_t value = (int64_t(1) << 62) + (int64_t(1) << 54) + 1;
  const FloatFormat &format = *floatFormat(DataType::BF16);
  EXPECT_EQ(decode(format, encode(format, roundToOdd(value), false)), 0x1.02p62);
  EXPECT_EQ(decode(format, encode(format, roundToOdd(-value), false)), -0x1.02p62);
  for (int64_t exact : {int64_t(0), int64_t(1), int64_t(-1), int64_t(1) << 53, INT64_MIN})
    EXPECT_EQ(roundToOdd(exact), double(exact));
  EXPECT_EQ(roundToOdd(~uint64_t(0)), 0x1.FFFFFFFFFFFFFp63);
}

TEST(Float, PowersOfTwo) {
  for (int code = 0; code < 255; ++code)
    for (PowerRounding rounding :
         {PowerRounding::Up, PowerRounding::Down, PowerRounding::Nearest}) {
      double value = decodeF8E8M0(uint8_t(code));
      EXPECT_EQ(value, std::ldexp(1.0, code - 127));
      EXPECT_EQ(encodeF8E8M0(value, rounding, false), code);
    }
  EXPECT_TRUE(std::isnan(decodeF8E8M0(255)));
  EXPECT_EQ(encodeF8E8M0(1.1, PowerRounding::Up, true), 128);
  EXPECT_EQ(encodeF8E8M0(1.9, PowerRounding::Down, true), 127);
  EXPECT_EQ(encodeF8E8M0(1.4, PowerRounding::Nearest, true), 127);
  EXPECT_EQ(encodeF8E8M0(1.5, PowerRounding::Nearest, true), 128);
}

TEST(Float, PowersOfTwoOutOfRange) {
  EXPECT_EQ(encodeF8E8M0(0, PowerRounding::Up, true), 0);
  EXPECT_EQ(encodeF8E8M0(0, PowerRounding::Nearest, false), 255);
  EXPECT_EQ(encodeF8E8M0(HUGE_VAL, PowerRounding::Up, true), 254);
  EXPECT_EQ(encodeF8E8M0(HUGE_VAL, PowerRounding::Nearest, false), 255);
  EXPECT_EQ(encodeF8E8M0(NAN, PowerRounding::Up, true), 255);
}

TEST(Float, TruncationWrapsAndNeverTraps) {
  EXPECT_EQ(truncateToInteger(-1.9), uint64_t(-1));
  EXPECT_EQ(truncateToInteger(0x1p63), uint64_t(1) << 63);
  EXPECT_EQ(truncateToInteger(0x1p64 + 0x1p20), uint64_t(1) << 20);
  EXPECT_EQ(truncateToInteger(-0x1p64 - 0x1p20), -(uint64_t(1) << 20));
  for (double value : {double(NAN), double(HUGE_VAL), -double(HUGE_VAL)})
    EXPECT_EQ(truncateToInteger(value), 0u);
}

} // namespace
} // namespace tensmith

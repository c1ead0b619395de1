// Blocks that are written and read again: breaks where a code, a scale or its place is not what the
// reader takes it for, or a number errs by more than its format's step.
#include "base/BlockEncoding.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace tensmith {
namespace {

std::vector<float> decoded(const BlockFormat &format, const std::vector<std::byte> &block) {
  std::vector<float> numbers(format.elements);
  decodeBlock(format, block.data(), numbers.data());
  return numbers;
}

std::vector<float> again(const BlockFormat &format, const std::vector<float> &numbers) {
  std::vector<std::byte> block(format.bytes);
  encodeBlock(format, numbers.data(), block.data());
  return decoded(format, block);
}

TEST(BlockEncoding, ErrsByAStepAtMost) {
  std::mt19937 random(1);
  for (const char *name : {"q4_0", "q5_0", "q8_0"}) {
    const BlockFormat &format = *findBlockFormat(name);
    ASSERT_TRUE(canEncode(format)) << name;
    double levels = name[1] == '4' ? 8 : name[1] == '5' ? 16 : 127;
    for (int trial = 0; trial < 500; ++trial) {
      std::normal_distribution<float> draw(0, std::exp2(float(trial % 20) - 5));
      std::vector<float> numbers(format.elements);
      float most = 0;
      for (float &number : numbers)
        number = draw(random), most = std::max(most, std::fabs(number));
      std::vector<float> got = again(format, numbers);
      // Half a step, a whole one at the side that has a level less, and the scale's own rounding.
      double step = double(most) / levels * (name[1] == '8' ? 0.5 : 1) * 1.01 + 1e-6;
      for (size_t i = 0; i < numbers.size(); ++i)
        EXPECT_LE(std::fabs(numbers[i] - got[i]), step) << name << " " << i;
      EXPECT_EQ(again(format, got), got) << name;
    }
  }
}

TEST(BlockEncoding, OfZerosAndOfWhatIsNoNumber) {
  for (const BlockFormat &format : blockFormats()) {
    if (!canEncode(format))
      continue;
    std::vector<float> zeros(format.elements);
    for (float got : again(format, zeros))
      EXPECT_EQ(got, 0) << format.name;
    if (format.plain != DataType::Undefined)
      continue;
    std::vector<float> odd(format.elements, 1);
    odd[3] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(again(format, odd)[3], 0) << format.name;
    odd[3] = std::numeric_limits<float>::infinity();
    EXPECT_TRUE(std::isfinite(again(format, odd)[3])) << format.name;
  }
}

} // namespace
} // namespace tensmith

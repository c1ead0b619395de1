// Points of conditional choices, on radices drawn at random: numbers, counts and steps against an
// enumeration of all rows of digits.
#include "base/MixedRadix.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tensmith {
namespace {

MixedRadix drawn(std::mt19937 &random) {
  auto below = [&](int most) { return int32_t(random() % uint32_t(most)); };
  MixedRadix radix;
  int32_t length = 1 + below(5);
  for (int32_t place = 0; place < length; ++place) {
    MixedRadix::Digit digit{1 + below(4)};
    if (place > 0 && below(2)) {
      digit.guard = below(place);
      for (int32_t value = 0; value < radix[size_t(digit.guard)].values; ++value)
        if (below(2))
          digit.guardValues.push_back(value);
    }
    if (below(12) == 0)
      digit.values = 0;
    radix.add(std::move(digit));
  }
  return radix;
}

/// All rows of digits that keep the conditions, from their definition.
void enumerate(const MixedRadix &radix, Digits before, std::set<Digits> &all) {
  size_t place = before.size();
  if (place == radix.length()) {
    all.insert(before);
    return;
  }
  const MixedRadix::Digit &digit = radix[place];
  bool isThere = digit.values > 0 && digit.guard < 0;
  for (int32_t value : digit.guardValues)
    isThere |= digit.values > 0 && before[size_t(digit.guard)] == value;
  for (int32_t value = 0; value < (isThere ? digit.values : 1); ++value) {
    before.push_back(isThere ? value : kAbsent);
    enumerate(radix, before, all);
    before.pop_back();
  }
}

// Breaks if a condition is not kept, two numbers give one point, or steps leave the space or don't
// reach a point of it.
TEST(MixedRadix, IsTheEnumeration) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    MixedRadix radix = drawn(random);
    std::set<Digits> all, numbered, reached;
    enumerate(radix, {}, all);
    ASSERT_EQ(radix.size(), all.size());
    for (uint64_t number = 0; number < radix.size(); ++number)
      numbered.insert(radix.at(number));
    ASSERT_EQ(numbered, all);
    std::vector<Digits> left{radix.at(0)};
    while (!left.empty()) {
      Digits point = left.back();
      left.pop_back();
      ASSERT_TRUE(radix.contains(point));
      ASSERT_EQ(radix.completed(point), point);
      if (reached.insert(point).second)
        for (const Digits &next : radix.neighbours(point))
          left.push_back(next);
    }
    ASSERT_EQ(reached, all);
  }
}

// Breaks if what is no point is taken for one.
TEST(MixedRadix, ContainsPointsAlone) {
  std::mt19937 random(8);
  for (int round = 0; round < 300; ++round) {
    MixedRadix radix = drawn(random);
    std::set<Digits> all;
    enumerate(radix, {}, all);
    for (int i = 0; i < 50; ++i) {
      Digits digits(radix.length());
      for (int32_t &digit : digits)
        digit = int32_t(random() % 6) - 1;
      ASSERT_EQ(radix.contains(digits), all.contains(digits));
      ASSERT_TRUE(all.contains(radix.completed(radix.at(random() % radix.size()))));
    }
    ASSERT_FALSE(radix.contains(Digits(radix.length() + 1)));
  }
}

TEST(MixedRadix, CountsUpTo2To63) {
  MixedRadix radix;
  for (int place = 0; place < 4; ++place)
    radix.add({1 << 17});
  EXPECT_EQ(radix.size(), uint64_t(1) << 63);
}

} // namespace
} // namespace tensmith

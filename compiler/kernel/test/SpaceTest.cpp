// Spaces of choices: their points by number, and drawn.
#include "compiler/kernel/Space.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tensmith::kernel {
namespace {

constexpr Choice kTile{"tile", 1, 16}, kDepth{"depth", 16, kAny, 16}, kUnit{"unit", 0, 1};

/// Tiles and depths where the unit is off.
Space conditional() {
  Space space;
  space.add(kUnit, {0, 1});
  auto whereOff = [](Space::Dimension *dimension) {
    dimension->guard = &kUnit;
    dimension->guardValues = {0};
  };
  whereOff(space.addAll(kTile, 3));
  whereOff(space.addDoubling(kDepth, 70));
  return space;
}

Space::Random seeded(uint32_t seed) {
  return [engine = std::mt19937(seed)](uint64_t below) mutable {
    return std::uniform_int_distribution<uint64_t>(0, below - 1)(engine);
  };
}

// Breaks if a value is offered that the choice doesn't take, or the largest is left out.
TEST(Space, ValuesAreThoseThatTheChoiceTakes) {
  Space space;
  space.add(kTile, {4, 17, 0, 2, 4});
  EXPECT_EQ(space.dimensions().back().values, (llvm::SmallVector<int64_t, 8>{2, 4}));
  space.addDoubling(kDepth, 100);
  EXPECT_EQ(space.dimensions().back().values, (llvm::SmallVector<int64_t, 8>{16, 32, 64, 96}));
  space.addDoubling(kDepth, 5);
  EXPECT_EQ(space.dimensions().back().values, (llvm::SmallVector<int64_t, 8>{16}));
  EXPECT_EQ(space.add(kTile, {17, 18}), nullptr);
}

// Breaks if points of a conditional choice are counted where it doesn't exist, two numbers give one
// point, or a point is none of its space.
TEST(Space, EachNumberIsAPoint) {
  Space space = conditional();
  ASSERT_EQ(space.size(), 3u * 3 + 1); // depths 16, 32 and 64
  std::set<std::string> texts;
  for (uint64_t number = 0; number < space.size(); ++number) {
    Point point = space.at(number);
    EXPECT_TRUE(space.contains(point)) << point.text();
    EXPECT_EQ(point[kTile].has_value(), point[kUnit] == 0) << point.text();
    texts.insert(point.text());
  }
  EXPECT_EQ(texts.size(), space.size());
  EXPECT_TRUE(texts.count("\"unit\":1"));
  EXPECT_TRUE(texts.count("\"depth\":64,\"tile\":3,\"unit\":0"));
}

// Breaks if draws are not of all points.
TEST(Space, DrawsAreInside) {
  Space space = conditional();
  Space::Random random = seeded(5);
  std::set<std::string> drawn;
  for (int round = 0; round < 500; ++round) {
    Point point = space.random(random);
    ASSERT_TRUE(space.contains(point)) << point.text();
    drawn.insert(point.text());
  }
  EXPECT_EQ(drawn.size(), space.size());
}

// Breaks if a product of many sizes wraps around.
TEST(Space, LargeSpacesAreCountedUpTo2To63) {
  Space space;
  static const Choice kMany[] = {{"a", 0, kAny}, {"b", 0, kAny}, {"c", 0, kAny}, {"d", 0, kAny}};
  llvm::SmallVector<int64_t> values;
  for (int64_t value = 0; value < 1 << 17; ++value)
    values.push_back(value);
  for (const Choice &choice : kMany)
    space.add(choice, values);
  EXPECT_EQ(space.size(), uint64_t(1) << 63);
}

// Breaks if what one point says of a choice hides what it says of another.
TEST(Point, SaysWhatWasSet) {
  Point point;
  point.set(kTile, 4);
  point.set(kDepth, 32);
  Point other;
  other.set(kTile, 6);
  point.override(other);
  EXPECT_EQ(point[kTile], 6);
  EXPECT_EQ(point[kDepth], 32);
  EXPECT_EQ(point.of({&kDepth}).text(), "\"depth\":32");
  point.set(kDepth, std::nullopt);
  EXPECT_TRUE(point == other);
}

} // namespace
} // namespace tensmith::kernel

// Slices of open sizes against NumPy's rules, of all sizes, starts and ends that are small.
#include "compiler/graph/SlicedRange.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace tensmith::graph {
namespace {

class SlicedRangeOf : public testing::Test {
protected:
  SlicedRangeOf() : shapes(&context) {
    n = shapes.symbol(StringAttr::get(&context, "n"));
    m = shapes.symbol(StringAttr::get(&context, "m"));
  }
  AffineExpr number(int64_t value) { return shapes.constant(value); }
  /// Of n and m.
  int64_t at(AffineExpr size, int64_t n, int64_t m) {
    auto value =
        dyn_cast<AffineConstantExpr>(shapes.simplify(size.replaceSymbols({number(n), number(m)})));
    EXPECT_TRUE(value);
    return value ? value.getValue() : -1;
  }
  static int64_t expected(int64_t size, int64_t start, int64_t end, int64_t step = 1) {
    if (step < 0) {
      start =
          std::clamp<int64_t>(start < 0 ? start + size : start, 0, std::max<int64_t>(size, 1) - 1);
      end = std::clamp<int64_t>(end < 0 ? end + size : end, -1, size - 1);
      return size > 0 && start > end ? (start - end - 1) / -step + 1 : 0;
    }
    start = std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
    end = std::clamp<int64_t>(end < 0 ? end + size : end, 0, size);
    return end > start ? (end - start - 1) / step + 1 : 0;
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  ShapeContext shapes;
  AffineExpr n, m;
};

// Steps beyond any dimension, too, whose sums would overflow.
TEST_F(SlicedRangeOf, BetweenNumbers) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (int64_t step : {int64_t(1), int64_t(2), int64_t(3), int64_t(1) << 62, kMost})
    for (int64_t start = -4; start <= 4; ++start)
      for (int64_t end : {-4, -3, -2, -1, 0, 1, 2, 3, 4, std::numeric_limits<int32_t>::max()}) {
        auto range = slicedRange(shapes, n, number(start), number(end), step);
        ASSERT_TRUE(range) << start << ":" << end << ":" << step;
        for (int64_t size = 0; size < 8; ++size) {
          EXPECT_EQ(at(range->count, size, 0), expected(size, start, end, step))
              << start << ":" << end << ":" << step << " of " << size;
          if (at(range->count, size, 0))
            EXPECT_EQ(at(range->first, size, 0),
                      start < 0 ? std::max<int64_t>(size + start, 0) : start);
        }
      }
}

// Breaks when what is read backwards is clamped as what is read forwards.
TEST_F(SlicedRangeOf, Backwards) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  for (int64_t step : {int64_t(-1), int64_t(-2), int64_t(-3), kLeast})
    for (int64_t start : {-1, 0, 1, 2, 3, 4, std::numeric_limits<int32_t>::max()})
      for (int64_t end : {kLeast, int64_t(std::numeric_limits<int32_t>::min()), int64_t(-4),
                          int64_t(-2), int64_t(-1), int64_t(0), int64_t(1), int64_t(3)}) {
        auto range = slicedRange(shapes, n, number(start), number(end), step);
        ASSERT_TRUE(range) << start << ":" << end << ":" << step;
        for (int64_t size = 0; size < 8; ++size) {
          EXPECT_EQ(at(range->count, size, 0),
                    expected(size, start, end, std::max<int64_t>(step, -100)))
              << start << ":" << end << ":" << step << " of " << size;
          if (at(range->count, size, 0))
            EXPECT_EQ(at(range->first, size, 0),
                      start < 0 ? size + start : std::min<int64_t>(start, size - 1));
        }
      }
}

TEST_F(SlicedRangeOf, BetweenSizes) {
  struct {
    AffineExpr start, end;
  } cases[] = {{number(0), m}, {m, n},          {number(1), m},    {m, number(3)},
               {m, m + 2},     {m, number(-1)}, {n.floorDiv(2), n}};
  for (auto [start, end] : cases) {
    auto range = slicedRange(shapes, n, start, end, 1);
    ASSERT_TRUE(range);
    for (int64_t size = 0; size < 7; ++size)
      for (int64_t other = 0; other < 7; ++other)
        EXPECT_EQ(at(range->count, size, other),
                  expected(size, at(start, size, other), at(end, size, other)))
            << "of " << size << " and " << other;
  }
}

// Breaks when what is as long has sizes that can't be told to be.
TEST_F(SlicedRangeOf, SlicesThatAreAsLong) {
  auto end = number(std::numeric_limits<int32_t>::max());
  auto behind = slicedRange(shapes, n, number(1), end, 1),
       before = slicedRange(shapes, n, number(0), number(-1), 1);
  EXPECT_TRUE(shapes.equal(behind->count, before->count));
  EXPECT_TRUE(
      shapes.equal(slicedRange(shapes, n, number(0), n.floorDiv(2), 1)->count, n.floorDiv(2)));
}

// Breaks when a number that is negative is taken for a size, or a factor of it is lost.
TEST_F(SlicedRangeOf, TheSmallerOfNumbersThatMayBeNegative) {
  struct {
    AffineExpr a, b;
  } cases[] = {{n - 3, number(0)}, {3 - n, number(0)},           {n - m, m - n},
               {n * 2, m * 3 - 4}, {(n + 1).floorDiv(2), m - 1}, {n * m, number(5)},
               {n, n + 2},         {number(-3), number(2)}};
  for (auto [a, b] : cases) {
    auto smaller = smallerNumber(shapes, a, b);
    ASSERT_TRUE(smaller);
    for (int64_t i = 0; i < 7; ++i)
      for (int64_t j = 0; j < 7; ++j)
        EXPECT_EQ(at(*smaller, i, j), std::min(at(a, i, j), at(b, i, j))) << i << " and " << j;
  }
}

TEST_F(SlicedRangeOf, WhatOnlyTheRunTells) {
  EXPECT_FALSE(slicedRange(shapes, n, number(-2), number(0), -1)); // of one it is the first
  EXPECT_FALSE(slicedRange(shapes, n, number(0), m - 3, 1));       // may count from the end
  EXPECT_TRUE(slicedRange(shapes, number(9), number(7), number(0), -2));
}

} // namespace
} // namespace tensmith::graph

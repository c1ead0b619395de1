// Factorisations against all rows of numbers whose product is the size, and the published counts.
#include "base/Factorisations.h"

#include <gtest/gtest.h>

#include <set>

namespace tensmith {
namespace {

// Fails where one is left out, or comes twice.
TEST(Factorisations, AreAllRowsWithThatProduct) {
  for (int64_t size : {1, 2, 12, 13, 36, 60}) {
    std::set<Factors> all;
    for (int64_t a = 1; a <= size; ++a)
      for (int64_t b = 1; a * b <= size; ++b)
        if (size % (a * b) == 0)
          all.insert({a, b, size / a / b});
    auto listed = factorisations(size, 3);
    EXPECT_EQ(std::set<Factors>(listed.begin(), listed.end()), all);
    EXPECT_EQ(listed.size(), all.size());
    EXPECT_EQ(listed.front(), Factors({size, 1, 1}));
  }
}

// Fails where the spaces are not those of Zhang et al., 2019: m and n in four parts, k in two.
TEST(Factorisations, CountsOfProductsAreThePublishedOnes) {
  auto states = [](int64_t size) {
    return factorisations(size, 4).size() * factorisations(size, 2).size() *
           factorisations(size, 4).size();
  };
  EXPECT_EQ(states(512), 484'000u);
  EXPECT_EQ(states(1024), 899'756u);
  EXPECT_EQ(states(2048), 1'589'952u);
}

// Fails where two have one number, or a number of another size is taken.
TEST(Factorisations, NumbersTellThemApart) {
  std::set<int64_t> numbers;
  for (const Factors &each : factorisations(720, 4)) {
    EXPECT_EQ(factorsOf(numberOf(each), 720, 4), each);
    numbers.insert(numberOf(each));
  }
  EXPECT_EQ(numbers.size(), factorisations(720, 4).size());
  EXPECT_EQ(numberOf({8, 4, 2, 8}), 40000200008);
  for (int64_t number : {int64_t(0), int64_t(-1), int64_t(7), numberOf({8, 4, 2, 8}),
                         int64_t(1) << 60, INT64_MAX, INT64_MIN})
    EXPECT_FALSE(factorsOf(number, 720, 4)) << number;
}

// Fails where a move loses the size, or can't be taken back.
TEST(Factorisations, MovesKeepTheProductAndGoBothWays) {
  EXPECT_EQ(neighboursOf({2, 4, 2, 32}).size(), 12u);
  EXPECT_EQ(neighboursOf({13, 1}).size(), 1u);
  for (const Factors &each : factorisations(360, 3))
    for (const Factors &near : neighboursOf(each)) {
      EXPECT_EQ(near[0] * near[1] * near[2], 360);
      auto back = neighboursOf(near);
      EXPECT_NE(std::find(back.begin(), back.end(), each), back.end());
    }
}

} // namespace
} // namespace tensmith

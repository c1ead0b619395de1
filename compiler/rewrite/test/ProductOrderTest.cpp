// Orders of chains, against all orders that there are.
#include "compiler/rewrite/ProductOrder.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

std::string text(const ProductTree &tree) {
  if (!tree.isProduct())
    return "M" + std::to_string(tree.first + 1);
  return "(" + text(*tree.left) + " " + text(*tree.right) + ")";
}

class ProductOrders : public testing::Test {
protected:
  std::vector<FactorSizes> chain(ArrayRef<int64_t> sizes) {
    std::vector<FactorSizes> factors;
    for (size_t i = 0; i + 1 < sizes.size(); ++i)
      factors.push_back({shapes.constant(sizes[i]), shapes.constant(sizes[i + 1]), {}});
    return factors;
  }
  AffineExpr symbol(StringRef name) { return shapes.symbol(StringAttr::get(&context, name)); }

  MLIRContext context;
  graph::ShapeContext shapes{&context};
};

/// The least over all trees, each counted by itself from numbers.
struct Exhaustive {
  std::vector<int64_t> sizes;
  std::vector<int64_t> stacks; // of each factor, 1 or one number
  std::set<std::pair<unsigned, unsigned>> given;

  double least(unsigned first, unsigned last) const {
    if (first == last || given.count({first, last}))
      return 0;
    double best = std::numeric_limits<double>::infinity();
    for (unsigned split = first; split < last; ++split) {
      int64_t stack = 1;
      for (unsigned i = first; i <= last; ++i)
        stack = std::max(stack, stacks[i]);
      best = std::min(best, least(first, split) + least(split + 1, last) +
                                double(stack * sizes[first] * sizes[split + 1] * sizes[last + 1]));
    }
    return best;
  }
};

// Breaks if a part's best order is not looked up where it is a part of a longer one.
TEST_F(ProductOrders, OfTheTextbook) {
  auto orders = bestOrders(chain({30, 35, 15, 5, 10, 20, 25}), shapes,
                           [](unsigned, unsigned) { return false; });
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(text(*orders[0].tree), "((M1 (M2 M3)) ((M4 M5) M6))");
  EXPECT_EQ(orders[0].count.at(SizeValues()), 15125);
}

// Breaks if an order is missed, a given part counts, or stacks that broadcast are counted wrongly.
TEST_F(ProductOrders, IsTheBestOfAll) {
  std::mt19937 random(7);
  auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  for (int round = 0; round < 500; ++round) {
    Exhaustive all;
    size_t count = 2 + size_t(below(7));
    int64_t stack = 1 + below(4);
    for (size_t i = 0; i <= count; ++i)
      all.sizes.push_back(below(4) == 0 ? 1 : 1 + below(60));
    auto factors = chain(all.sizes);
    for (FactorSizes &factor : factors) {
      all.stacks.push_back(below(3) == 0 ? stack : 1);
      if (all.stacks.back() > 1 || below(2))
        factor.stack = {shapes.constant(all.stacks.back())};
    }
    for (int64_t n = below(3); n > 0; --n)
      if (unsigned first = unsigned(below(int64_t(count) - 1)); count > 2)
        all.given.insert({first, std::min(unsigned(count) - 2, first + 1 + unsigned(below(2)))});
    std::erase_if(all.given, [](auto part) { return part.first == part.second; });
    auto orders = bestOrders(factors, shapes, [&](unsigned first, unsigned last) {
      return all.given.count({first, last}) > 0;
    });
    ASSERT_EQ(orders.size(), 1u);
    EXPECT_EQ(orders[0].count.at(SizeValues()), all.least(0, unsigned(count) - 1))
        << "round " << round << ": " << text(*orders[0].tree);
  }
}

// Breaks if an order is dropped that is the best for some sizes.
TEST_F(ProductOrders, OfOpenSizesHasTheBestForEach) {
  std::mt19937 random(11);
  AffineExpr n = symbol("n"), m = symbol("m");
  for (int round = 0; round < 100; ++round) {
    size_t count = 3 + random() % 3;
    std::vector<AffineExpr> sizes;
    for (size_t i = 0; i <= count; ++i)
      sizes.push_back(random() % 2   ? shapes.constant(int64_t(1 + random() % 40))
                      : random() % 2 ? n
                                     : m);
    std::vector<FactorSizes> factors;
    for (size_t i = 0; i < count; ++i)
      factors.push_back({sizes[i], sizes[i + 1], {}});
    auto orders = bestOrders(factors, shapes, [](unsigned, unsigned) { return false; });
    for (int64_t atN : {1, 8, 64, 512})
      for (int64_t atM : {1, 8, 64, 512}) {
        Exhaustive all;
        for (AffineExpr size : sizes) {
          auto constant = graph::constantOf(size);
          all.sizes.push_back(constant ? *constant : size == n ? atN : atM);
        }
        all.stacks.assign(count, 1);
        SizeValues values;
        values[n] = double(atN);
        values[m] = double(atM);
        double best = std::numeric_limits<double>::infinity();
        for (const ProductOrder &order : orders)
          best = std::min(best, order.count.at(values));
        EXPECT_EQ(best, all.least(0, unsigned(count) - 1)) << "round " << round;
      }
  }
}

// Breaks if a count is taken for less that is more for some sizes, or equal ones are told apart.
TEST_F(ProductOrders, CountsAreComparedForAllSizes) {
  AffineExpr n = symbol("n"), m = symbol("m"), two = shapes.constant(2);
  auto of = [](std::initializer_list<std::vector<AffineExpr>> terms) {
    OperationCount sum;
    for (const auto &term : terms)
      sum += OperationCount::ofProduct(term);
    return sum;
  };
  EXPECT_TRUE(of({{n}, {m}}).isAtMost(of({{two, n, m}})));
  EXPECT_FALSE(of({{n}, {m}}).isAtMost(of({{n, m}}))); // n = 1: 1 + m > m
  EXPECT_TRUE(of({{n, m}}).isAtMost(of({{m, n}})));
  EXPECT_FALSE(of({{n, n}}).isAtMost(of({{n, m}})));
}

} // namespace
} // namespace tensmith::rewrite

// The normal form of sizes: what layers and reshapes make of them in different ways is one
// expression, and equals what the expression says for numbers.
#include "compiler/graph/Shape.h"

#include <gtest/gtest.h>

#include <random>

using namespace mlir;

namespace tensmith::graph {
namespace {

int64_t floorDivided(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/// What an expression is for these values of the symbols; divisors must not be zero.
int64_t valueOf(AffineExpr expression, ArrayRef<int64_t> symbols) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expression))
    return constant.getValue();
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expression))
    return symbols[symbol.getPosition()];
  auto binary = cast<AffineBinaryOpExpr>(expression);
  int64_t a = valueOf(binary.getLHS(), symbols), b = valueOf(binary.getRHS(), symbols);
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    return a + b;
  case AffineExprKind::Mul:
    return a * b;
  case AffineExprKind::FloorDiv:
    return floorDivided(a, b);
  case AffineExprKind::CeilDiv:
    return -floorDivided(-a, b);
  default:
    return a - b * floorDivided(a, b);
  }
}

class Shape : public testing::Test {
protected:
  Shape()
      : context(MLIRContext::Threading::DISABLED), shapes(&context),
        h(shapes.symbol(StringAttr::get(&context, "h"))),
        w(shapes.symbol(StringAttr::get(&context, "w"))),
        n(shapes.symbol(StringAttr::get(&context, "n"))) {}

  MLIRContext context;
  ShapeContext shapes;
  AffineExpr h, w, n;
};

// Breaks when a quotient keeps what its divisor divides.
TEST_F(Shape, QuotientsOfSums) {
  EXPECT_TRUE(shapes.equal((h * 2 + 1).floorDiv(2), h));
  EXPECT_TRUE(shapes.equal((h - 1).floorDiv(2) + 1, (h + 1).floorDiv(2)));
  EXPECT_TRUE(shapes.equal((h + 1).floorDiv(2), h.ceilDiv(2)));
  EXPECT_TRUE(shapes.equal((h * 2 + w * 4 + 3).floorDiv(4), w + (h + 1).floorDiv(2)));
  EXPECT_TRUE(shapes.equal((h * 6).floorDiv(4), (h * 3).floorDiv(2)));
  EXPECT_FALSE(shapes.equal((h * 3).floorDiv(2), h));
}

// Breaks when quotients of quotients stay two.
TEST_F(Shape, QuotientsOfQuotients) {
  EXPECT_TRUE(shapes.equal(h.floorDiv(2).floorDiv(2), h.floorDiv(4)));
  AffineExpr half = (h - 1).floorDiv(2) + 1;
  EXPECT_TRUE(shapes.equal((half - 1).floorDiv(2) + 1, (h + 3).floorDiv(4)));
  EXPECT_TRUE(shapes.equal((h.floorDiv(3) * 2 + 2).floorDiv(2), h.floorDiv(3) + 1));
}

// Breaks when what both sides of a quotient have in common does not go.
TEST_F(Shape, QuotientsBySizes) {
  EXPECT_TRUE(shapes.equal((n * h * 3).floorDiv(h * 2), (n * 3).floorDiv(2)));
  AffineExpr rows = h.floorDiv(4) + 1;
  EXPECT_TRUE(
      shapes.equal((n * rows * 96).floorDiv(shapes.simplify(n * rows)), shapes.constant(96)));
  EXPECT_TRUE(shapes.equal(shapes.simplify((h + 1) * (w + 2)).floorDiv(w + 2), h + 1));
  EXPECT_TRUE(shapes.equal((n * h + w).floorDiv(h), n + w.floorDiv(h)));
  EXPECT_FALSE(shapes.equal((h + w).floorDiv(w + 1), h));
}

// Breaks when a remainder is none of what it is of.
TEST_F(Shape, Remainders) {
  EXPECT_TRUE(shapes.equal((h * 4 + 3) % 4, shapes.constant(3)));
  EXPECT_TRUE(shapes.equal(h % 4 + h.floorDiv(4) * 4, h));
  EXPECT_TRUE(shapes.equal((n * h) % h, shapes.constant(0)));
}

// Breaks when what sizes broadcast to is taken for a size of another kind: of sizes whose successor
// is even (a transposed convolution's) too. Seed 510527.
TEST_F(Shape, PartsOfBroadcasts) {
  for (AffineExpr size : {h, h + 1, h * 2 - 1, h * 2, h * 4 - 1}) {
    auto both = shapes.broadcast(size, w);
    ASSERT_TRUE(both);
    auto parts = shapes.broadcastParts(*both);
    EXPECT_TRUE(llvm::is_contained(parts, size));
    EXPECT_EQ(shapes.broadcast(*both, w), both);
    EXPECT_EQ(shapes.broadcast(*both, size), both);
  }
}

// Breaks when simplification changes a value, of negative numerators too.
TEST_F(Shape, KeepsValues) {
  uint32_t state = 17;
  auto draw = [&](uint32_t below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
  };
  for (int round = 0; round < 3000; ++round) {
    SmallVector<AffineExpr> pool{h, w, n, shapes.constant(int64_t(draw(7)) - 3)};
    for (int step = 0; step < 6; ++step) {
      AffineExpr a = pool[draw(uint32_t(pool.size()))], b = pool[draw(uint32_t(pool.size()))];
      int64_t divisor = 1 + draw(6);
      AffineExpr made[] = {
          a + b, a * int64_t(draw(5)), a - b, a.floorDiv(divisor), a.ceilDiv(divisor), a % divisor,
          a * b};
      pool.push_back(made[draw(7)]);
    }
    AffineExpr simple = shapes.simplify(pool.back());
    EXPECT_EQ(shapes.simplify(simple), simple) << round;
    for (int64_t values = 0; values < 8; ++values) {
      int64_t at[] = {int64_t(draw(9)), int64_t(draw(9)), int64_t(draw(9))};
      ASSERT_EQ(valueOf(pool.back(), at), valueOf(simple, at)) << round;
    }
  }
}

// Breaks where products of sums are multiplied out, which has 2^40 terms; or where how they are
// grouped, or the order in which they stand, tells two of them apart.
TEST_F(Shape, ProductsOfManySums) {
  SmallVector<AffineExpr> factors;
  for (int i = 0; i < 40; ++i)
    factors.push_back(shapes.symbol(StringAttr::get(&context, "s" + Twine(i))) + (i + 1));
  AffineExpr product = factors.front(), other = factors.back(), half = factors[20];
  for (AffineExpr factor : ArrayRef(factors).drop_front())
    product = product * factor;
  for (AffineExpr factor : llvm::reverse(ArrayRef(factors).drop_back()))
    other = other * factor;
  AffineExpr form = shapes.simplify(product);
  EXPECT_EQ(shapes.simplify(form), form);
  EXPECT_EQ(shapes.simplify(other), form);
  EXPECT_EQ(shapes.product(factors), form);
  EXPECT_EQ(shapes.simplify(product - other), shapes.constant(0));
  // Factors go from both sides of a quotient.
  EXPECT_EQ(shapes.simplify(product.floorDiv(half) * half), form);
  EXPECT_EQ(shapes.simplify(product % half), shapes.constant(0));
}

// Breaks where a form beyond the limit has another value than the expression.
TEST_F(Shape, ProductsOfManySumsKeepValues) {
  SmallVector<AffineExpr> symbols{h, w, n};
  std::mt19937 random(1);
  for (int run = 0; run < 10; ++run) {
    AffineExpr product = h, sum = n;
    for (int i = 0; i < 12; ++i) {
      AffineExpr factor = symbols[random() % 3] + symbols[random() % 3] * 2 + int64_t(random() % 3);
      product = i % 4 == 3 ? (product + sum) * factor : product * factor;
      sum = sum + factor * int64_t(random() % 5);
    }
    AffineExpr form = shapes.simplify(product), quotient = product.floorDiv(sum + 1);
    for (SmallVector<int64_t> values : {SmallVector<int64_t>{0, 1, 2}, {1, 1, 1}, {2, 0, 1}}) {
      EXPECT_EQ(valueOf(form, values), valueOf(product, values));
      EXPECT_EQ(valueOf(shapes.simplify(quotient), values), valueOf(quotient, values));
    }
  }
}

} // namespace
} // namespace tensmith::graph

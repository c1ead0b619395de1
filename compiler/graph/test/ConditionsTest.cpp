// What SizeFacts proves of sizes, what it leaves to the run, and what it knows after a check.
#include "compiler/graph/BroadcastSizes.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/NormalForms.h"
#include "compiler/graph/Shape.h"
#include "compiler/graph/SizeCases.h"
#include "compiler/graph/SlicedRange.h"
#include "compiler/graph/test/KnownSizes.h"

#include <gtest/gtest.h>

#include <random>

using namespace mlir;

namespace tensmith::graph {
namespace {

using Relation = Condition::Relation;

class SizeFactsOf : public testing::Test {
protected:
  SizeFactsOf() : shapes(&context) {
    n = shapes.symbol(StringAttr::get(&context, "n"));
    m = shapes.symbol(StringAttr::get(&context, "m"));
  }
  AffineExpr number(int64_t value) { return shapes.constant(value); }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  ShapeContext shapes;
  AffineExpr n, m;
  SizeFacts facts;
};

TEST_F(SizeFactsOf, EqualForAllSizesForNoneOrForSome) {
  EXPECT_EQ(facts.decide(Relation::Equal, n + n, n * 2), true);
  EXPECT_EQ(facts.decide(Relation::Equal, n, n + 1), false);
  EXPECT_EQ(facts.decide(Relation::Equal, n, m), std::nullopt);
}

TEST_F(SizeFactsOf, NoSizeIsNegative) {
  EXPECT_EQ(facts.decide(Relation::AtMost, number(3), n * 2 + m + 3), true);
  EXPECT_EQ(facts.decide(Relation::AtMost, n + 1, n), false);
  EXPECT_EQ(facts.decide(Relation::AtMost, number(1), n), std::nullopt);
  // Windows of three with a step of two and padding: none of no pixels.
  EXPECT_EQ(facts.decide(Relation::AtMost, number(0), (n - 1).floorDiv(2) + 1), true);
  EXPECT_EQ(facts.decide(Relation::AtMost, number(1), (n - 1).floorDiv(2) + 1), std::nullopt);
}

// Breaks where the phases of a dilated window are not found to hold a layer behind strides.
TEST_F(SizeFactsOf, QuotientsOfQuotientsAreCompared) {
  AffineExpr quarter = (n + 3).floorDiv(4), third = (quarter + 2).floorDiv(3);
  EXPECT_EQ(shapes.simplify(third), (n + 11).floorDiv(12));
  EXPECT_EQ(facts.decide(Relation::AtMost, quarter, third * 3), true);
  EXPECT_EQ(facts.decide(Relation::AtMost, third * 3, quarter + 2), true);
  EXPECT_EQ(facts.decide(Relation::AtMost, quarter - 1, quarter.floorDiv(2) * 2), true);
  EXPECT_EQ(facts.decide(Relation::AtMost, third * 3, quarter + 1), std::nullopt);
  EXPECT_EQ(facts.decide(Relation::AtMost, quarter, quarter.floorDiv(2) * 2), std::nullopt);
}

// Breaks where the tiles of an image, whose size is a broadcast, are not found to be some.
TEST_F(SizeFactsOf, MoreThanASizeIsNotNegative) {
  AffineExpr size = *shapes.broadcast(n, m), tiles = shapes.simplify((size + 3).floorDiv(4));
  EXPECT_EQ(facts.decide(Relation::AtMost, number(0), tiles), std::nullopt);
  facts.assumeSize(size);
  EXPECT_EQ(facts.decide(Relation::AtMost, number(0), tiles), true);
  EXPECT_EQ(facts.decide(Relation::AtMost, number(1), tiles), std::nullopt);
}

// Breaks where a size that a check says is 3 may not be broadcast to 3.
TEST_F(SizeFactsOf, WhatIsEqualBroadcasts) {
  AffineExpr size = *shapes.broadcast(n, m);
  facts.assume({Relation::Equal, number(3), size, {}});
  for (auto [a, b] : {std::pair(size, number(3)), std::pair(number(3), size)}) {
    EXPECT_EQ(facts.decide(Relation::EqualOrOne, a, b), true);
    EXPECT_EQ(facts.decide(Relation::Broadcast, a, b), true);
  }
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, size, number(4)), std::nullopt);
}

TEST_F(SizeFactsOf, PartsAreNoMoreThanTheWhole) {
  EXPECT_EQ(facts.decide(Relation::AtMost, n.floorDiv(2), n), true);
  EXPECT_EQ(facts.decide(Relation::AtMost, n.floorDiv(2) + n.floorDiv(3), n), true);
  EXPECT_EQ(facts.decide(Relation::AtMost, n.floorDiv(4) * 4, n), true);
  EXPECT_EQ(facts.decide(Relation::AtMost, n.floorDiv(2) + n.floorDiv(2) + 1, n), std::nullopt);
  EXPECT_EQ(facts.decide(Relation::AtMost, (n + 3).floorDiv(4), n), std::nullopt);
}

// Breaks where the sizes of a pyramid of images nest: each level is twice as large as the one
// above, and has the sizes of one that was halved.
TEST_F(SizeFactsOf, AnEvenSizeIsNotOne) {
  EXPECT_EQ(facts.decide(Relation::Equal, n * 2, number(1)), false);
  EXPECT_EQ(facts.decide(Relation::Equal, n * 2 + m * 4, number(5)), false);
  EXPECT_EQ(facts.decide(Relation::Equal, n * 2, number(4)), std::nullopt);
  AffineExpr level = (n + 31).floorDiv(32);
  for (int64_t stride : {16, 8, 4, 2})
    level = *shapes.broadcast((n + (stride - 1)).floorDiv(stride), level * 2);
  EXPECT_TRUE(shapes.equal(level, (n + 31).floorDiv(32) * 16));
}

TEST_F(SizeFactsOf, ACheckSaysWhatFollowsFromIt) {
  facts.assume({Relation::AtMost, number(3), n + 2, ""});
  EXPECT_EQ(facts.decide(Relation::AtMost, number(1), (n - 1).floorDiv(2) + 1), true);
  facts.assumeSize(shapes.simplify((n - 1).floorDiv(2) + 1)); // more is known of it than that
  EXPECT_EQ(facts.decide(Relation::AtMost, number(1), (n - 1).floorDiv(2) + 1), true);
  facts.assume({Relation::Equal, m, n * 2, ""});
  EXPECT_EQ(facts.decide(Relation::Equal, m * 3, n * 6), true);
  EXPECT_EQ(facts.decide(Relation::AtMost, number(2), m), true);
}

TEST_F(SizeFactsOf, AnEquationOfOneSizeSolvesIt) {
  facts.assume({Relation::Equal, n * 2 + 3, number(7), ""});
  EXPECT_EQ(facts.normal(n), number(2));
  facts.assume({Relation::Equal, m + 3, number(1), ""}); // no size is that
  EXPECT_EQ(facts.normal(m), m);
  facts.assume({Relation::AtMost, number(0), m * 2 - 1, ""});
  EXPECT_EQ(facts.decide(Relation::AtMost, number(1), m), true);
}

// Breaks where heads of attention are split off a width that is a multiple of their number.
TEST_F(SizeFactsOf, AMultipleIsItsPartsTogether) {
  EXPECT_EQ(facts.decide(Relation::Equal, n * 3, n.floorDiv(2) * 6), std::nullopt);
  facts.assume({Relation::Equal, n, n.floorDiv(2) * 2, ""});
  EXPECT_EQ(facts.decide(Relation::Equal, n * 3, n.floorDiv(2) * 6), true);
  EXPECT_EQ(facts.decide(Relation::AtMost, n, n.floorDiv(2) * 2), true);
  EXPECT_EQ(facts.decide(Relation::Equal, n, n.floorDiv(4) * 4), std::nullopt);
  EXPECT_EQ(facts.normal(n), n); // types keep their sizes
}

// Breaks where the width of a head, which is half of a size, is checked to be that of a constant.
TEST_F(SizeFactsOf, AQuotientMayBeANumber) {
  AffineExpr half = n.floorDiv(2);
  facts.assume({Relation::EqualOrOne, m, half, ""});
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, m, number(16)), std::nullopt);
  facts.assume({Relation::Equal, number(16), half, ""});
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, m, number(16)), true);
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, m, half), true);
  EXPECT_EQ(facts.decide(Relation::Equal, half + 1, number(17)), true);
  EXPECT_EQ(facts.decide(Relation::Equal, half, number(15)), false);
  EXPECT_EQ(facts.decide(Relation::Equal, n, number(32)), std::nullopt);
  EXPECT_EQ(facts.normal(half), half); // types keep their sizes
}

// Attention of one channel a head: that the width is whole heads is still known.
TEST_F(SizeFactsOf, ASizeOfWholeHalvesWhoseHalfIsANumber) {
  AffineExpr half = n.floorDiv(2);
  facts.assume({Relation::Equal, n, half * 2, ""});
  facts.assume({Relation::Equal, number(1), half, ""});
  EXPECT_EQ(facts.decide(Relation::Equal, m * n, m * 2 * half), true);
  EXPECT_EQ(facts.decide(Relation::Equal, m * half, m), true);
}

// Breaks where operators are merged that broadcast one after the other.
TEST_F(SizeFactsOf, PartsOfABroadcastGoTogether) {
  AffineExpr k = shapes.symbol(StringAttr::get(&context, "k"));
  AffineExpr both = *shapes.broadcast(n, m);
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, n, both), std::nullopt);
  facts.assume({Relation::Broadcast, n, m, ""});
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, n, both), true);
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, m, both), true);
  AffineExpr all = *shapes.broadcast(both, k);
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, n, all), std::nullopt);
  EXPECT_EQ(facts.decide(Relation::Broadcast, n, k), std::nullopt);
  facts.assume({Relation::Broadcast, both, k, ""});
  for (AffineExpr part : {n, m, k, both})
    EXPECT_EQ(facts.decide(Relation::EqualOrOne, part, all), true);
  EXPECT_EQ(facts.decide(Relation::Broadcast, n, k), true);
  EXPECT_EQ(facts.decide(Relation::Equal, n, k), std::nullopt);
}

TEST_F(SizeFactsOf, WhatIsNotOneIsTheBroadcast) {
  facts.assume({Relation::Broadcast, n, number(7), ""});
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, n, number(7)), true);
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, n, m), std::nullopt);
}

TEST_F(SizeFactsOf, BroadcastsByEitherSize) {
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, number(1), n), true);
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, n, number(5)), std::nullopt);
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, n + 2, n + 3), false);
  EXPECT_EQ(facts.decide(Relation::Broadcast, n, m), std::nullopt);
  facts.assume({Relation::Broadcast, n, m, ""});
  EXPECT_EQ(facts.decide(Relation::Broadcast, m, n), true);
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, m, n), std::nullopt);
}

TEST_F(SizeFactsOf, WhatHoldsOnlyWhereSomethingIsReadSaysNothingElsewhere) {
  Condition within{Relation::AtMost, number(7), n, "", m};
  EXPECT_EQ(facts.decide(within), std::nullopt);
  facts.assume(within);
  EXPECT_EQ(facts.decide(within), true);
  EXPECT_EQ(facts.decide(Relation::AtMost, number(7), n), std::nullopt);
  EXPECT_EQ(facts.decide({Relation::AtMost, number(9), n, "", number(0)}), true);
}

/// The size of two that are broadcast together is right for all that may be.
TEST_F(SizeFactsOf, TheSizeOfABroadcastIsItsLargerOne) {
  AffineExpr both = *shapes.broadcast(n, m);
  for (auto [a, b, size] : {std::array<int64_t, 3>{1, 7, 7},
                            {7, 1, 7},
                            {4, 4, 4},
                            {1, 1, 1},
                            {0, 1, 0},
                            {1, 0, 0},
                            {0, 0, 0},
                            {2, 2, 2}})
    EXPECT_EQ(shapes.simplify(both.replaceSymbols({number(a), number(b)})), number(size))
        << a << " and " << b;
}

/// Breaks when a chain of operators nests the sizes of what it broadcasts: these grew with each
/// operator, twice as long, and a compilation did not end.
TEST_F(SizeFactsOf, BroadcastsOfBroadcastsAreOne) {
  std::vector<Condition> required;
  shapes.listen(&required);
  AffineExpr k = shapes.symbol(StringAttr::get(&context, "k"));
  AffineExpr both = *shapes.broadcast(n, m);
  EXPECT_EQ(*shapes.broadcast(m, n), both);
  ASSERT_EQ(required.size(), 2u);
  for (AffineExpr part : {n, m, both}) {
    EXPECT_EQ(*shapes.broadcast(both, part), both);
    EXPECT_EQ(*shapes.broadcast(part, both), both);
  }
  EXPECT_EQ(required.size(), 2u); // of what is there already
  AffineExpr three = *shapes.broadcast(both, k);
  EXPECT_EQ(*shapes.broadcast(n, *shapes.broadcast(k, m)), three);
  EXPECT_EQ(*shapes.broadcast(*shapes.broadcast(k, n), both), three);
  EXPECT_EQ(*shapes.broadcast(three, both), three);
  for (auto [a, b, c, size] : {std::array<int64_t, 4>{1, 1, 7, 7},
                               {1, 7, 1, 7},
                               {7, 1, 7, 7},
                               {0, 1, 1, 0},
                               {1, 1, 0, 0},
                               {1, 1, 1, 1}})
    EXPECT_EQ(shapes.simplify(three.replaceSymbols({number(a), number(b), number(c)})),
              number(size));
  // In a context of its own, where symbols come in another order.
  context.loadDialect<GraphDialect>();
  ShapeContext others(&context);
  AffineExpr otherK = others.symbol(StringAttr::get(&context, "k")),
             otherM = others.symbol(StringAttr::get(&context, "m")),
             otherN = others.symbol(StringAttr::get(&context, "n"));
  Type element = Float32Type::get(&context);
  EXPECT_EQ(
      others.tensorType(element, {*others.broadcast(otherK, *others.broadcast(otherM, otherN))}),
      shapes.tensorType(element, {three}));
  // Of very many it is a size of its own.
  AffineExpr size = three;
  for (char name : {'p', 'q'})
    size = *shapes.broadcast(size, shapes.symbol(StringAttr::get(&context, Twine(name))));
  EXPECT_TRUE(isa<AffineSymbolExpr>(size));
}

// Breaks where heads that share keys are not found to be as many as their groups have.
TEST_F(SizeFactsOf, AMultipleOfASizeIsItsPartsTogether) {
  AffineExpr k = shapes.symbol(StringAttr::get(&context, "k"));
  AffineExpr joined = m * (k * n.floorDiv(m)), heads = n * k;
  EXPECT_EQ(facts.decide(Relation::Equal, joined, heads), std::nullopt);
  facts.assume({Relation::Equal, n, n.floorDiv(m) * m, {}});
  EXPECT_EQ(facts.decide(Relation::Equal, joined, heads), true);
}

// Breaks if what a product with a quotient is says nothing of its multiples: heads of a query that
// are a number, and an open count of those of the keys.
TEST_F(SizeFactsOf, AProductThatIsANumber) {
  AffineExpr heads = m * number(2).floorDiv(m);
  EXPECT_EQ(facts.decide(Relation::Equal, number(6), heads * 3), std::nullopt);
  facts.assume({Relation::Equal, number(2), heads, {}});
  EXPECT_EQ(facts.decide(Relation::Equal, number(6), heads * 3), true);
  EXPECT_EQ(facts.decide(Relation::Equal, n * 6, n * heads * 3), true);
  EXPECT_EQ(facts.decide(Relation::Equal, number(9), heads * 3), std::nullopt);
}

// Breaks where a size that several broadcast to is known as a number, and its parts are forgotten.
TEST_F(SizeFactsOf, PartsOfABroadcastThatIsANumber) {
  AffineExpr both = *shapes.broadcast(n, m);
  facts.assume({Relation::Equal, both, number(8), {}});
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, n, number(8)), std::nullopt);
  facts = {};
  facts.assume({Relation::Broadcast, n, m, {}});
  facts.assume({Relation::Equal, both, number(8), {}});
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, n, number(8)), true);
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, m, number(8)), true);
  EXPECT_EQ(facts.decide(Relation::Equal, n, number(8)), std::nullopt);
}

// Breaks where what replaces a symbol of a broadcast brings a part that is there already.
TEST_F(SizeFactsOf, APartThatIsABroadcastItself) {
  AffineExpr k = shapes.symbol(StringAttr::get(&context, "k")), both = *shapes.broadcast(n, m);
  facts.assume({Relation::Broadcast, n, m, {}});
  facts.assume({Relation::Equal, k, both, {}});
  EXPECT_EQ(facts.normal(*shapes.broadcast(n, k)), facts.normal(both));
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, n, *shapes.broadcast(n, k)), true);
}

// Breaks where the order of a broadcast's parts is taken for granted, or is found to matter.
TEST_F(SizeFactsOf, BroadcastsInEitherOrder) {
  AffineExpr one = sizeOfBroadcast({n, m}), other = sizeOfBroadcast({m, n});
  EXPECT_EQ(facts.decide(Relation::Equal, one, other), std::nullopt);
  facts.assume({Relation::Broadcast, n, m, {}});
  EXPECT_EQ(facts.decide(Relation::Equal, one, other), true);
}

// Breaks where each symbol is replaced by a product of others without end: 2^30 factors.
TEST_F(SizeFactsOf, SizesThatAreProductsOfOneAnother) {
  SmallVector<AffineExpr> sizes{n};
  for (int i = 0; i < 30; ++i) {
    AffineExpr next = shapes.symbol(StringAttr::get(&context, "s" + Twine(i)));
    facts.assume({Relation::Equal, next, sizes.back() * sizes.back(), {}});
    sizes.push_back(next);
  }
  EXPECT_EQ(facts.decide(Relation::Equal, sizes[2], n * n * n * n), true);
  EXPECT_EQ(facts.decide(Relation::Equal, sizes[30], sizes[29] * m), std::nullopt);
}

// Breaks where the blocks of a quantised tensor, of which a constant says how many there are, are
// not found to reach to its end: ceildiv(n, 3) = 1.
TEST_F(SizeFactsOf, AQuotientThatIsANumberBoundsWhatItDivides) {
  facts.assume({Relation::Equal, number(1), shapes.simplify(n.ceilDiv(3)), {}});
  EXPECT_EQ(facts.decide(Relation::AtMost, n, number(3)), true);
  EXPECT_EQ(facts.decide(Relation::AtMost, number(1), n), true);
  EXPECT_EQ(facts.decide(Relation::AtMost, n, number(2)), std::nullopt);
  EXPECT_EQ(facts.decide(Relation::AtMost, number(4), n), false);
  EXPECT_EQ(facts.decide(Relation::Equal, n, number(4)), false);
  EXPECT_EQ(facts.normal(n), n); // types keep their sizes
}

TEST_F(SizeFactsOf, ABoundOfAQuotientIsOneOfWhatItDivides) {
  facts.assume({Relation::AtMost, (n + m).floorDiv(4), number(2), {}});
  EXPECT_EQ(facts.decide(Relation::AtMost, n, number(11)), true);
  EXPECT_EQ(facts.decide(Relation::AtMost, m, number(10)), std::nullopt);
  facts.assume({Relation::AtMost, number(3), (n - 1).floorDiv(2), {}});
  EXPECT_EQ(facts.decide(Relation::AtMost, number(7), n), true);
  EXPECT_EQ(facts.decide(Relation::AtMost, m, number(4)), true);
  // What is divided may be negative: -1 / 2 is -1, and not 0.
  facts = {};
  facts.assume({Relation::AtMost, (n - 5).floorDiv(3), number(-1), {}});
  EXPECT_EQ(facts.decide(Relation::AtMost, n, number(4)), true);
  EXPECT_EQ(facts.decide(Relation::AtMost, n, number(3)), std::nullopt);
}

TEST_F(SizeFactsOf, BoundsThatMeetAreANumber) {
  facts.assume({Relation::Equal, (n * 2).floorDiv(3), number(1), {}});
  EXPECT_EQ(facts.decide(Relation::Equal, n, number(2)), true);
}

// Nothing is said of numbers that no 64 bits hold.
TEST_F(SizeFactsOf, BoundsThatOverflow) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (int64_t bound : {kMost, kMost - 1, -kMost, kMost / 2})
    for (int64_t divisor : {kMost, int64_t(3)}) {
      SizeFacts each;
      each.assume({Relation::Equal, n.floorDiv(divisor), number(bound), {}});
      each.assume({Relation::AtMost, m.floorDiv(divisor) * -1, number(bound), {}});
      EXPECT_NE(each.decide(Relation::AtMost, m, number(5)), true);
      EXPECT_NE(each.decide(Relation::AtMost, number(5), m), false);
    }
}

/// Conditions over two sizes with quotients, drawn.
class DrawnConditions {
public:
  DrawnConditions(uint32_t seed, AffineExpr n, AffineExpr m) : random_(seed), n_(n), m_(m) {}

  int64_t between(int64_t low, int64_t high) {
    return low + int64_t(random_() % uint64_t(high - low + 1));
  }
  AffineExpr linear() { return n_ * between(-1, 2) + m_ * between(-1, 1) + between(-4, 4); }
  AffineExpr quotient() {
    AffineExpr inner = between(0, 3) ? linear() : linear().floorDiv(between(1, 3)) + between(-2, 2);
    int64_t divisor = between(1, 5);
    return between(0, 1) ? inner.floorDiv(divisor) : inner.ceilDiv(divisor);
  }
  AffineExpr expression() {
    return between(0, 2) ? quotient() * between(-2, 2) + between(-3, 3) : linear();
  }
  Condition condition() {
    AffineExpr b =
        between(0, 2) ? getAffineConstantExpr(between(-3, 6), n_.getContext()) : expression();
    AffineExpr a = expression();
    if (between(0, 1))
      std::swap(a, b);
    return {between(0, 1) ? Relation::Equal : Relation::AtMost, a, b, {}};
  }

private:
  std::mt19937 random_;
  AffineExpr n_, m_;
};

// Breaks where a bound is wrong by one or for a negative numerator: what is proved holds at all
// sizes at which what is known holds, and what is refuted at none.
TEST_F(SizeFactsOf, ProofsHoldAtAllSizes) {
  size_t proved = 0, refuted = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    DrawnConditions drawn(seed, n, m);
    SizeFacts own;
    std::vector<Condition> known, asked;
    for (int64_t i = drawn.between(1, 3); i > 0; --i)
      own.assume(known.emplace_back(drawn.condition()));
    for (int i = 0; i < 6; ++i)
      asked.push_back(drawn.condition());
    for (const Condition &each : asked) {
      auto decided = own.decide(each);
      proved += decided == true;
      refuted += decided == false;
      for (int64_t x = 0; x < 24 && decided; ++x)
        for (int64_t y = 0; y < 24; ++y)
          if (llvm::all_of(known, [&](auto &one) { return holdsAt(one, {x, y}) == true; }))
            ASSERT_EQ(*holdsAt(each, {x, y}), *decided) << seed << " at " << x << ", " << y;
    }
  }
  EXPECT_GT(proved, 500u);
  EXPECT_GT(refuted, 500u);
}

// Breaks where a proof does not ask whether a part of a broadcast is 1: a scale of one element or
// of as many as the axis has broadcasts to the axis, by itself and within a number of elements.
TEST_F(SizeFactsOf, ProofsByCasesSeeWhatABroadcastIs) {
  AffineExpr k = shapes.symbol(StringAttr::get(&context, "k")), size = *shapes.broadcast(n, m);
  Condition elements{Relation::Equal, shapes.simplify(size * k), shapes.simplify(n * k), {}};
  SizeCases cases;
  EXPECT_FALSE(cases.proves(elements));
  cases.assume({Relation::Broadcast, m, n, {}});
  EXPECT_FALSE(cases.proves(elements));
  cases.assume({Relation::EqualOrOne, m, n, {}});
  EXPECT_TRUE(cases.proves(elements));
  EXPECT_FALSE(cases.proves({Relation::Equal, size, m, {}}));
}

// Breaks where a size that something has says nothing of what pads it.
TEST_F(SizeFactsOf, WhatPadsASizeIsNotNegative) {
  AffineExpr windows = shapes.simplify((n - m).floorDiv(2) + 1);
  Condition padded{Relation::AtMost, number(0), windows + 2, {}};
  SizeCases cases;
  EXPECT_FALSE(cases.proves(padded));
  cases.assumeSize(windows);
  EXPECT_TRUE(cases.proves(padded));
}

// Breaks where what a sum of sizes is equal to is not known of another relation to that sum: a bias
// is 1 or as long as what is joined, which a scale says to be 115.
TEST_F(SizeFactsOf, SumsThatAreANumber) {
  AffineExpr k = shapes.symbol(StringAttr::get(&context, "k"));
  facts.assume({Relation::EqualOrOne, k, n + m, {}});
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, k, number(115)), std::nullopt);
  facts.assume({Relation::Equal, number(115), n + m, {}});
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, k, number(115)), true);
  EXPECT_EQ(facts.decide(Relation::Equal, n + m, number(115)), true);
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, k, number(114)), std::nullopt);
  EXPECT_EQ(facts.decide(Relation::EqualOrOne, k, n), std::nullopt);
}

// Breaks where a proof does not ask which of both the larger of two numbers is.
TEST_F(SizeFactsOf, ProofsByCasesSeeWhatTheLargerIs) {
  AffineExpr larger = shapes.simplify(n + number(256) - smallerSize(shapes, n, number(256)));
  EXPECT_EQ(holdsAt({Relation::Equal, larger, number(300), {}}, {300, 0}), true);
  EXPECT_TRUE(SizeCases::isAtMost(number(0), larger));
  EXPECT_TRUE(SizeCases::isAtMost(number(0), shapes.simplify(larger - 200)));
  EXPECT_FALSE(SizeCases::isAtMost(number(0), shapes.simplify(n - 200)));
}

// Breaks where a proof tries what is known of sizes that it isn't asked of: of a model's conditions
// each would be tried with each.
TEST_F(SizeFactsOf, WhatIsKnownOfOtherSizesIsNotTried) {
  context.loadDialect<GraphDialect>();
  AffineExpr k = shapes.symbol(StringAttr::get(&context, "k")),
             l = shapes.symbol(StringAttr::get(&context, "l"));
  facts.assume({Relation::AtMost, k, l, {}});
  EXPECT_EQ(facts.decide(Relation::AtMost, n, m), std::nullopt);
  EXPECT_EQ(facts.decide(Relation::AtMost, n, l), std::nullopt);
  auto isTried = [&](AffineExpr room) {
    bool isNew = false;
    NormalForms::of(&context)->whole(room - (l - k), [&](AffineExpr each) {
      isNew = true;
      return each;
    });
    return !isNew;
  };
  EXPECT_FALSE(isTried(shapes.simplify(m - n)));
  EXPECT_TRUE(isTried(shapes.simplify(l - n)));
}

// Breaks where a size that was brought to its normal form before is brought there once more.
TEST_F(SizeFactsOf, NormalFormsAreFoundOnce) {
  context.loadDialect<GraphDialect>();
  NormalForms *forms = NormalForms::of(&context);
  ASSERT_TRUE(forms);
  AffineExpr quotient = (n * 3 + m).floorDiv(7), size = quotient * m - 2;
  AffineExpr simple = shapes.simplify(size);
  auto isNew = [&](AffineExpr each) {
    ADD_FAILURE() << textOf(each);
    return each;
  };
  EXPECT_EQ(forms->whole(size, isNew), simple);
  Polynomial same =
      forms->quotient(quotient, [&](AffineExpr each) { return Polynomial::of(isNew(each) + 1); });
  EXPECT_EQ(same.expression(), quotient);
  EXPECT_EQ(&forms->text(quotient), &forms->text(quotient));
}

// Breaks where a case is forgotten or a fact narrowed too far: what is proved of broadcasts, and of
// the smaller and the larger of two sizes, holds at all sizes that go together.
TEST_F(SizeFactsOf, ProofsByCasesHoldAtAllSizes) {
  AffineExpr k = shapes.symbol(StringAttr::get(&context, "k"));
  std::mt19937 random(7);
  auto pick = [&](auto... each) {
    std::array all{each...};
    return all[random() % all.size()];
  };
  AffineExpr smaller = smallerSize(shapes, n, number(3)), larger = n + number(3) - smaller;
  auto size = [&] {
    AffineExpr one = pick(n, m, k, n.floorDiv(2), m - 1, number(1), number(3));
    if (random() % 24 == 0) // few, since each asks more
      return shapes.simplify(random() % 2 ? smaller : larger);
    AffineExpr other = pick(n, m, k, number(1));
    auto both = random() % 2 ? shapes.broadcast(one, other) : std::nullopt;
    return shapes.simplify(both ? *both : one);
  };
  auto condition = [&] {
    using enum Relation;
    return Condition{pick(Equal, AtMost, EqualOrOne, Broadcast, Broadcast), size(), size(), {}};
  };
  size_t proved = 0, byCases = 0;
  for (int round = 0; round < 1500; ++round) {
    SizeCases own;
    std::vector<Condition> known;
    for (size_t i = 0; i < 1 + random() % 3; ++i)
      own.assume(known.emplace_back(condition()));
    for (int i = 0; i < 6; ++i) {
      Condition asked = condition();
      if (!own.proves(asked))
        continue;
      ++proved;
      byCases += own.facts().decide(asked) != true;
      for (int64_t x = 0; x < 7; ++x)
        for (int64_t y = 1; y < 7; ++y)
          for (int64_t z = 0; z < 7; ++z)
            if (std::array<std::optional<int64_t>, 3> sizes{x, y, z};
                llvm::all_of(known, [&](auto &one) { return holdsAt(one, sizes) == true; }))
              ASSERT_TRUE(holdsAt(asked, sizes) == true)
                  << round << ": " << textOf(asked.a) << " and " << textOf(asked.b) << " at " << x
                  << ", " << y << ", " << z;
    }
  }
  EXPECT_GT(proved, 500u);
  EXPECT_GT(byCases, 20u);
}

// Breaks where a bound is weaker than it could be: of a quotient of one size, all is found.
TEST_F(SizeFactsOf, BoundsOfOneSizeAreTight) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    DrawnConditions drawn(seed, n, m);
    int64_t times = drawn.between(1, 3), divisor = drawn.between(1, 6);
    AffineExpr whole = (n * times + drawn.between(-5, 5)).floorDiv(divisor);
    Condition known{drawn.between(0, 1) ? Relation::Equal : Relation::AtMost,
                    whole,
                    number(drawn.between(0, 4)),
                    {}};
    SizeFacts own;
    own.assume(known);
    std::optional<int64_t> low, high;
    for (int64_t x = 0; x < 64; ++x)
      if (holdsAt(known, {x, 0}) == true) {
        low = low.value_or(x);
        high = x;
      }
    if (!low)
      continue;
    EXPECT_EQ(own.decide(Relation::AtMost, number(*low), n), true) << seed;
    EXPECT_NE(own.decide(Relation::AtMost, number(*low + 1), n), true) << seed;
    EXPECT_EQ(own.decide(Relation::AtMost, n, number(*high)), true) << seed;
    EXPECT_NE(own.decide(Relation::AtMost, n, number(*high - 1)), true) << seed;
  }
}

} // namespace
} // namespace tensmith::graph

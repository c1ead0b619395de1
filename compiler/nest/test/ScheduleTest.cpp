// That primitives keep what a nest computes, and refuse what would not.
#include "compiler/nest/test/Expectations.h"
#include "compiler/nest/test/Programs.h"
#include "compiler/nest/test/RandomSchedules.h"

namespace tensmith::nest::test {
namespace {

// Breaks if any construct of the walk computes something else than the statements say.
TEST(Schedule, ProgramsInTextualOrder) {
  for (const Program &each : programs())
    expectEqual(each.nest, "", each.sizes);
  expectEqual(lookup(), "", {{50, 17, 4, 3}}, 50);
  expectEqual(scatter(), "", {{10, 50}}, 10);
  expectEqual(blur(), "", {{5, 9}});
  expectEqual(padded(), "", {{1}, {2}, {3}, {40}});
}

constexpr char kRegisterTile[] = "tile i j by 6 64 -> i0 j0 i1 j1\n"
                                 "reorder i0 j0 k i1 j1\n"
                                 "unroll i1\n"
                                 "split j1 16 -> j2 j3\n"
                                 "unroll j2\n"
                                 "vectorize j3\n";

TEST(Schedule, RegisterTile) {
  expectEqual(product(), kRegisterTile, {{13, 21, 9}, {1, 1, 1}, {18, 128, 5}, {37, 150, 3}});
}

// Breaks if a primitive or the walk changes what is computed. `random-schedules` draws more.
TEST(Schedule, RandomLegalSequences) {
  std::mt19937_64 random(7);
  for (const Program &each : programs())
    for (int draw = 0; draw < 2; ++draw) {
      auto schedule = Schedule::of(each.nest);
      ASSERT_TRUE(schedule.ok());
      RandomSequence sequence = applyRandom(*schedule, random, 12);
      auto kernel = RunnableNest::of(*schedule);
      ASSERT_TRUE(kernel.ok()) << kernel.status().message() << sequence.text;
      for (const auto &sizes : each.sizes)
        ASSERT_EQ(difference(*kernel, each.nest, sizes, 3), "") << each.nest.name << "\n"
                                                                << sequence.text;
    }
}

// Breaks if a refusal does not name the dependence, or nothing is refused.
TEST(Schedule, RefusalsNameTheDependence) {
  EXPECT_NE(refusal(scan(), "parallel t").find("it carries the flow of 'H' within 'next'"),
            std::string::npos);
  EXPECT_NE(refusal(product(), "parallel k").find("the accumulation of 'C' within 'add'"),
            std::string::npos);
  std::string interchanged = refusal(stencilInTime(), "tile t x by 4 4 -> t0 x0 t1 x1");
  EXPECT_NE(interchanged.find("stands a sequence"), std::string::npos) << interchanged;
  std::string solve = refusal(triangularSolve(), "reorder j i");
  EXPECT_NE(solve.find("sequence"), std::string::npos) << solve;
}

/// A statement over two loops, whose points depend on others at these distances.
Nest shifted(std::vector<Constraint> more, Affine readI, Affine readJ, Affine writeI,
             Affine writeJ) {
  Nest nest;
  nest.parameters = {{"N", 8}};
  nest.tensors = {{"X", DataType::F32, {Affine("N") + 2, Affine("N") + 2}},
                  {"A", DataType::F32, {Affine("N") + 2, Affine("N") + 2}, Tensor::Role::Output}};
  auto box = within("i", 1, Affine("N") + 1), other = within("j", 1, Affine("N") + 1);
  Statement fill;
  fill.name = "fill";
  fill.iterators = {"i", "j"};
  fill.domain = within("i", 0, Affine("N") + 2);
  for (const Constraint &each : within("j", 0, Affine("N") + 2))
    fill.domain.push_back(each);
  fill.tensor = "A";
  fill.indices = {index("i"), index("j")};
  fill.value = load(nest.tensors[0], std::vector<Affine>{"i", "j"});
  Statement move = fill;
  move.name = "move";
  move.domain = box;
  move.domain.insert(move.domain.end(), other.begin(), other.end());
  move.domain.insert(move.domain.end(), more.begin(), more.end());
  move.indices = {index(writeI), index(writeJ)};
  move.value = apply(Operation::Add, {load(nest.tensors[1], std::vector<Affine>{readI, readJ}),
                                      load(nest.tensors[0], std::vector<Affine>{"i", "j"})});
  nest.statements = {fill, move};
  return nest;
}

// Of each kind of dependence a nest that only this one protects: the interchange is refused, and
// without the check of the kind it gives other results.
TEST(Schedule, EachKindOfDependenceIsNeeded) {
  Affine i = "i", j = "j";
  struct Case {
    const char *what;
    Nest nest;
    bool Unchecked::*kind;
  };
  Nest output = shifted({}, i, j, i + j - 1, 0);
  output.nest::Nest::tensors[1].extents[0] = 2 * Affine("N") + 2;
  output.statements[1].value =
      load(output.tensors[0], std::vector<Affine>{"i", "j"}); // reads nothing of what it writes
  output.statements[0].domain = within("i", 0, 2 * Affine("N") + 2);
  for (const Constraint &each : within("j", 0, Affine("N") + 2))
    output.statements[0].domain.push_back(each);
  output.statements[0].value = constant(DataType::F32, 0);
  std::vector<Case> cases{{"flow", shifted({}, i - 1, j + 1, i, j), &Unchecked::flow},
                          {"anti-dependence", shifted({}, i + 1, j - 1, i, j), &Unchecked::anti},
                          {"output dependence", output, &Unchecked::output}};
  for (Case &each : cases) {
    auto schedule = Schedule::of(each.nest);
    ASSERT_TRUE(schedule.ok()) << schedule.status().message();
    Status refused = schedule->apply("reorder j_move i_move");
    ASSERT_FALSE(refused.ok()) << each.what;
    EXPECT_NE(refused.message().find(each.what), std::string::npos) << refused.message();
    schedule->state().unchecked.*each.kind = true;
    Status accepted = schedule->apply("reorder j_move i_move");
    ASSERT_TRUE(accepted.ok()) << accepted.message();
    auto kernel = RunnableNest::of(*schedule);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    EXPECT_NE(difference(*kernel, each.nest, {9}, 5), "") << each.what;
  }
}

// Breaks if whatever a person may write is an abort or goes on for ever.
TEST(Schedule, BadInput) {
  auto schedule = Schedule::of(product());
  ASSERT_TRUE(schedule.ok());
  for (const char *text : {"split",
                           "split i",
                           "split i 0 -> a b",
                           "split i 6 -> j b",
                           "split x 6 -> a b",
                           "split i 99999999999999999999 -> a b",
                           "split i 6 -> a a",
                           "reorder i",
                           "reorder i i",
                           "tile i j by 6 -> a b",
                           "tile i j by 6 6 -> a b c c",
                           "fuse i k -> f",
                           "fuse j k -> f",
                           "unroll i",
                           "vectorize i 0",
                           "vectorize i 65",
                           "skew i by 1 j",
                           "parallel",
                           "frobnicate i",
                           "-> a b",
                           "vectorize k 4\nvectorize j 4"}) {
    Status status = schedule->copy().apply(text);
    EXPECT_FALSE(status.ok()) << text;
    EXPECT_NE(status.code(), StatusCode::Internal) << text << ": " << status.message();
  }
  EXPECT_FALSE(schedule->setTree("domain: nonsense").ok());
  EXPECT_FALSE(schedule->setTree("").ok());
}

// Breaks if a nest without points or bounds hangs, or reads what isn't there.
TEST(Schedule, BadNests) {
  Nest empty = product();
  empty.statements[1].domain.push_back({Affine(-1)});
  auto schedule = Schedule::of(empty);
  ASSERT_TRUE(schedule.ok());
  auto kernel = RunnableNest::of(*schedule);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  EXPECT_EQ(difference(*kernel, empty, {3, 3, 3}, 1), "");
  Nest unbounded = product();
  unbounded.statements[1].domain.pop_back();
  EXPECT_NE(Schedule::of(unbounded).status().message().find("outside of its extents"),
            std::string::npos);
  Nest outside = product();
  outside.statements[1].domain.push_back({Affine("N") - "M"});
  outside.tensors[0].extents = {"M", Affine("K") - 1};
  EXPECT_NE(Schedule::of(outside).status().message().find("'add' reads 'A' outside"),
            std::string::npos);
}

// Breaks if an order that is found rather than given is illegal, or its code wrong.
TEST(Schedule, FoundOrders) {
  for (const Program &each : programs())
    expectEqual(each.nest, "default 8", each.sizes);
  for (const Program &each : {Program{product(), {{13, 21, 9}, {1, 1, 1}}},
                              Program{scan(), {{19, 11}, {2, 1}}}, Program{softmax(), {{9, 21}}}})
    expectEqual(each.nest, "affine maximal", each.sizes);
}

// Breaks if a start or an end of a sum can't join the sum's tile.
TEST(Schedule, StatementsJoinTiles) {
  expectEqual(product(),
              "tile i j by 4 8 -> i0 j0 i1 j1\nfuse_at start j0\nreorder k i1 j1\n"
              "unroll i1\nvectorize j1\nparallel i0",
              {{13, 21, 9}, {1, 1, 1}});
  expectEqual(convolution(), "fuse_at start x\nfuse_at relu x\nparallel f", {{3, 5, 7, 19}});
  expectEqual(convolution(), "fuse_at relu s\nfuse_at start s", {{3, 5, 7, 19}});
  EXPECT_NE(refusal(triangularSolve(), "fuse_at scale r").find("have no place there"),
            std::string::npos);
}

// Breaks if time is not tiled with its skew, or tiled without it.
TEST(Schedule, AStencilIsSkewedAndTiled) {
  const std::vector<std::vector<int64_t>> sizes{{9, 23}, {4, 3}, {1, 40}};
  expectEqual(stencilInTime(), "affine maximal\ntile c0 c1 by 3 5 -> t0 x0 t1 x1", sizes);
  expectEqual(stencilInTime(), "affine coincident\ntile c1 c2 by 4 8 -> t0 x0 t1 x1", sizes);
}

// Breaks if the tree's text doesn't say what the tree is.
TEST(Schedule, TreesAreReadBack) {
  for (const Program &each : programs()) {
    std::mt19937_64 random(11);
    auto schedule = Schedule::of(each.nest);
    ASSERT_TRUE(schedule.ok());
    applyRandom(*schedule, random, 10);
    Schedule other = schedule->copy(), third = schedule->copy(); // with what the primitives added
    Status status = other.setTree(schedule->tree());
    ASSERT_TRUE(status.ok()) << status.message() << schedule->tree();
    // isl simplifies what it reads; from then on it stays.
    status = third.setTree(other.tree());
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(third.tree(), other.tree());
    EXPECT_EQ(other.outline(), schedule->outline());
  }
}

} // namespace
} // namespace tensmith::nest::test

// That copies, values computed where they are used and partial sums keep what a nest computes, and
// are refused where they would not.
#include "compiler/nest/test/Expectations.h"
#include "compiler/nest/test/Programs.h"

namespace tensmith::nest::test {
namespace {

/// U = I; T = 2 U; U = 0; O = T + U, along x.
Nest overwritten() {
  Nest nest;
  nest.name = "overwritten";
  nest.parameters = {{"N", 1}};
  nest.tensors = {{"I", DataType::F32, {"N"}},
                  {"O", DataType::F32, {"N"}, Tensor::Role::Output},
                  {"T", DataType::F32, {"N"}, Tensor::Role::Local},
                  {"U", DataType::F32, {"N"}, Tensor::Role::Local}};
  auto at = [&](const char *name) { return load(*nest.tensor(name), std::vector<Affine>{"x"}); };
  auto say = [&](const char *name, const char *tensor, Expr value) {
    Statement own;
    own.name = name;
    own.iterators = {"x"};
    own.domain = within("x", 0, "N");
    own.tensor = tensor;
    own.indices = {index("x")};
    own.value = std::move(value);
    nest.statements.push_back(std::move(own));
  };
  say("fill", "U", at("I"));
  say("twice", "T", apply(Operation::Multiply, {at("U"), constant(DataType::F32, 2)}));
  say("clear", "U", constant(DataType::F32, 0));
  say("sum", "O", apply(Operation::Add, {at("T"), at("U")}));
  return nest;
}

const std::vector<std::vector<int64_t>> kProducts{{13, 21, 9}, {1, 1, 1}, {18, 128, 5}};

// Breaks if a copy has the wrong elements, or its place is found otherwise than it was filled.
TEST(MovedValues, PackedOperands) {
  expectEqual(product(),
              "tile i j by 4 8 -> i0 j0 i1 j1\nreorder j0 i0 k i1 j1\n"
              "cache_read B at j0 -> P\nvectorize P1\ncache_read A at i0 order 1 0 -> Q\n"
              "unroll i1\nvectorize j1",
              kProducts);
  expectEqual(convolution(), "cache_read I at y order 2 0 1 -> P\ncache_read K -> Q",
              {{3, 5, 7, 19}, {1, 1, 1, 1}});
  expectEqual(triangularProduct(), "split i 4 -> i0 i1\ncache_read A at i0 -> P", {{9, 5, 9}});
  expectEqual(lookup(), "cache_read index at b -> P", {{50, 17, 4, 3}}, 50);
  expectEqual(padded(), "split x 8 -> x0 x1\ncache_read X at x0 -> P", {{1}, {8}, {40}});
}

// Breaks if a tile's part of the result is not begun with what it had, or not stored.
TEST(MovedValues, ResultsInCopies) {
  std::string tiles = "tile i j by 4 8 -> i0 j0 i1 j1\n";
  expectEqual(product(), tiles + "cache_write C at j0 order 1 0 -> W", kProducts);
  expectEqual(product(), tiles + "fuse_at start j0\ncache_write C at j0 -> W", kProducts);
  expectEqual(product(), "split k 4 -> k0 k1\nreorder k0 i j k1\ncache_write C at i -> W",
              kProducts);
  expectEqual(triangularSolve(), "cache_write X at i -> W", {{11, 18}, {1, 1}});
}

// Breaks if iterations that run at once share the memory of a copy.
TEST(MovedValues, EachThreadHasItsOwnCopy) {
  std::string text = "tile i j by 4 8 -> i0 j0 i1 j1\nreorder j0 i0 k i1 j1\n"
                     "cache_read B at j0 -> P\nparallel j0";
  expectEqual(product(), text, kProducts);
  expectEqual(blur(), "compute_at T y_blur\nparallel y_blur", {{5, 9}, {1, 1}});
  expectRefusal(product(),
                "split j 8 -> j0 j1\nsplit j0 2 -> j2 j3\nreorder j2 j3 i k j1\n"
                "cache_read B at j3 -> P\nvectorize j3",
                "'P' has memory for one iteration of 'j3', which is of vectors");
}

// Breaks if the memory of one iteration is used by several in turn.
TEST(MovedValues, InstancesDoNotInterleave) {
  std::string text = "split j 8 -> j0 j1\nreorder j0 i k j1\ncache_read B at j0 -> P\n";
  expectEqual(product(), text + "split j0 2 -> a b\nreorder b a", kProducts);
  expectRefusal(product(), text + "affine minimal", "several would use it by turns");
}

// Breaks if a copy is made before what it holds has been written.
TEST(MovedValues, StaleCopiesAreRefused) {
  expectRefusal(scan(), "cache_read H -> P",
                "it would break the flow of 'H' from 'first' to 'P_copy'");
  expectRefusal(triangularSolve(), "cache_read X -> P", "the flow of 'X'");
  expectRefusal(triangularSolve(), "cache_read X at i -> P", "to 'P_copy'");
}

// Breaks if a stage that is computed again reads what was changed in between.
TEST(MovedValues, StagesWhereTheyAreUsed) {
  for (const char *text : {"compute_at T y_blur", "compute_at T x_blur", "inline T",
                           "split y_blur 3 -> y0 y1\ncompute_at T y0\nvectorize x_twice 4"})
    expectEqual(blur(), text, {{5, 9}, {1, 1}, {8, 33}});
  expectEqual(softmax(), "inline e\nparallel i", {{9, 21}, {1, 1}});
  expectRefusal(overwritten(), "inline T",
                "it would break the anti-dependence of 'U' from 'sum' to 'clear'");
  expectRefusal(overwritten(), "compute_at T x_sum",
                "it would break the anti-dependence of 'U' from 'twice' to 'clear'");
  expectRefusal(attention(), "compute_at p d_mix", "outside of loop");
  expectRefusal(product(), "compute_at C i", "an operand of the kernel");
}

// Breaks if partial results are not begun, not joined, or joined twice.
TEST(MovedValues, PartialSums) {
  expectEqual(product(), "rfactor add k -> R\nreorder k i j\nparallel k", kProducts);
  expectEqual(product(), "split k 4 -> k0 k1\nrfactor add k1 -> R\nreorder k1 i j k0\nparallel k1",
              kProducts);
  expectEqual(pooling(), "rfactor most s -> R\nvectorize Rj1 4", {{3, 5, 18}, {1, 1, 1}});
  expectEqual(argmax(), "rfactor where j_where -> R", {{9, 21}, {1, 1}});
  expectRefusal(product(), "split k 4 -> k0 k1\nrfactor add k0 -> R",
                "no affine function of sizes");
  expectRefusal(triangularSolve(), "rfactor subtract j -> R", "around other statements");
}

// Breaks if whatever a person may write is an abort.
TEST(MovedValues, BadInput) {
  auto schedule = Schedule::of(product());
  ASSERT_TRUE(schedule.ok());
  for (const char *text : {"cache_read",
                           "cache_read B",
                           "cache_read B -> B",
                           "cache_read B -> add",
                           "cache_read D -> P",
                           "cache_read B at x -> P",
                           "cache_read B at j0 order -> P",
                           "cache_read B order 0 -> P",
                           "cache_read B order 0 0 -> P",
                           "cache_read B order 1 0 2 -> P",
                           "cache_read B order 9 0 -> P",
                           "cache_read C -> P",
                           "cache_read B at -> P",
                           "cache_write A -> P",
                           "cache_write -> P",
                           "cache_read B -> 1P",
                           "compute_at A i",
                           "compute_at X i",
                           "compute_at A x",
                           "inline A",
                           "inline",
                           "rfactor start i -> R",
                           "rfactor add x -> R",
                           "rfactor x k -> R",
                           "rfactor add k -> A",
                           "cache_read B -> P\ncache_read A -> P"}) {
    Status status = schedule->copy().apply(text);
    EXPECT_FALSE(status.ok()) << text;
    EXPECT_NE(status.code(), StatusCode::Internal) << text << ": " << status.message();
  }
}

} // namespace
} // namespace tensmith::nest::test

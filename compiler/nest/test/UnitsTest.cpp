// That units and memories of a target, copies in two halves and virtual threads keep what a nest
// computes, and are refused where they would not or where the target has no room.
#include "compiler/nest/test/Expectations.h"
#include "compiler/nest/test/Programs.h"

#include <algorithm>

namespace tensmith::nest::test {
namespace {

const std::vector<std::vector<int64_t>> kProducts{{13, 21, 9}, {1, 1, 1}, {18, 128, 5}};
const TargetUnits kUnits{.memories = {{"near", 4096}, {"far", 1 << 20}}, .vectorBytes = 32};

Result<Schedule> scheduled(const Nest &nest, const std::string &text) {
  auto schedule = Schedule::of(nest);
  if (!schedule)
    return schedule.status();
  schedule->setTarget(kUnits);
  if (Status status = schedule->apply(text); !status.ok())
    return status;
  return schedule;
}

void expectSame(const Nest &nest, const std::string &text,
                const std::vector<std::vector<int64_t>> &sizes) {
  auto schedule = scheduled(nest, text);
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  auto kernel = RunnableNest::of(*schedule);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  for (const auto &each : sizes)
    EXPECT_EQ(difference(*kernel, nest, each, 1), "") << text << *loopText(*schedule);
}

void expectRefused(const Nest &nest, const std::string &text, const std::string &part) {
  auto schedule = scheduled(nest, text);
  ASSERT_FALSE(schedule.ok()) << text;
  EXPECT_NE(schedule.status().message().find(part), std::string::npos)
      << schedule.status().message();
}

const std::string kTiles = "tile i j by 4 8 -> i0 j0 i1 j1\nreorder i0 j0 k i1 j1\n";
const std::string kCopy = kTiles + "cache_read B at j0 -> P\n";

// Breaks if a half is filled while it is read, or the first one not at all.
TEST(Units, CopiesInTwoHalves) {
  expectSame(product(), kCopy + "double_buffer P", kProducts);
  expectSame(product(), kCopy + "double_buffer P\nvectorize P1\nvectorize j1\nparallel i0",
             kProducts);
  expectSame(product(), kTiles + "cache_read B at j0 order 0/4 1 0%4 -> P\ndouble_buffer P",
             kProducts);
  expectSame(product(), kCopy + "double_buffer P\nsplit j0 2 -> a b", kProducts);
  expectSame(convolution(), "cache_read I at y -> P\ndouble_buffer P", {{3, 5, 7, 19}});
  expectSame(blur(), "compute_at T y_blur\ndouble_buffer T", {{5, 9}, {1, 1}, {8, 33}});
}

// Breaks if a third iteration would find its half in use, or an iteration reads what is not there.
TEST(Units, HalvesThatMingleAreRefused) {
  expectRefused(product(), kCopy + "double_buffer P\nparallel j0", "carries the flow of 'P'");
  expectRefused(product(), kCopy + "double_buffer P\nreorder j0 i0", "'P'");
  expectRefused(product(), kCopy + "double_buffer P\ndouble_buffer P", "has two halves already");
  expectRefused(product(), kCopy + "unroll i1\nparallel j0\ndouble_buffer P",
                "do not run one after the other");
  expectRefused(product(), "cache_read B -> P\ndouble_buffer P", "is no copy that each iteration");
  expectRefused(product(), "double_buffer B", "is no copy that each iteration");
  expectRefused(product(), "double_buffer X", "there is no tensor 'X'");
  // An iteration copies what the one before it has written.
  expectRefused(triangularSolve(),
                "cache_read L at i -> P\ncache_write X at i -> W\ndouble_buffer W",
                "it would break the");
}

/// The statements that fill P run `ahead` iterations of j0 earlier than they do, and behind what
/// reads P or in front of it. In words what that breaks, and the results of the loops all the same.
std::string refilled(int64_t ahead, bool isBehind, std::string *computed = nullptr) {
  Nest nest = product();
  auto schedule =
      scheduled(nest, kTiles + "reorder j0 i0\n" + "cache_read B at j0 -> P\n" + "double_buffer P");
  if (!schedule)
    return schedule.status().message();
  ScheduleState &state = schedule->state();
  Status status = guarded(state, "test", [&]() -> Status {
    Node &loop = *loopsTo(state.tree, "j0").back();
    isl::pw_aff &value = loop.values.at("P_copy");
    value = value.add_constant(long(-ahead));
    if (isBehind)
      std::rotate(loop.children[0].children.begin(), loop.children[0].children.begin() + 1,
                  loop.children[0].children.end());
    std::string broken = illegality(state, state.nest, state.tree);
    return broken.empty() ? Status() : invalidArgument(broken);
  });
  auto kernel = RunnableNest::of(*schedule);
  if (computed)
    *computed = kernel.ok() ? difference(*kernel, nest, {9, 40, 5}, 1) : kernel.status().message();
  return status.message();
}

// Breaks if halves may mingle: filled two iterations ahead, a half must not be overwritten before
// its last reader has run. Dependences don't say it, since instances are different elements.
TEST(Units, AHalfIsFilledBehindItsLastReader) {
  std::string computed;
  EXPECT_EQ(refilled(0, false, &computed), "");
  EXPECT_EQ(computed, "");
  EXPECT_EQ(refilled(0, true, &computed), "");
  EXPECT_EQ(computed, "");
  EXPECT_EQ(refilled(1, true, &computed), "");
  EXPECT_EQ(computed, "");
  EXPECT_NE(refilled(1, false, &computed).find("more would use it by turns"), std::string::npos);
  EXPECT_NE(computed, "");
  EXPECT_NE(refilled(2, true, &computed).find("more would use it by turns"), std::string::npos);
  EXPECT_NE(computed, "");
}

// Breaks if what does not fit is taken: the size, that of both halves, or of two copies together.
TEST(Units, MemoriesHaveTheirSizes) {
  Nest known = product();
  for (Parameter &each : known.parameters)
    each.least = each.most = 32;
  std::vector<std::vector<int64_t>> sizes{{32, 32, 32}};
  std::string near = kTiles + "cache_read B at j0 in near -> P\n"; // 32 rows of 8
  expectSame(known, near + "double_buffer P\ncache_read A at i0 in near -> Q", sizes);
  expectRefused(known, kTiles + "cache_read B in near -> P\ncache_read A at i0 in near -> Q",
                "with 'Q', of 512 bytes, 'near' would hold 4608 of its 4096");
  expectRefused(known, kTiles + "cache_read B at i0 in near -> P\ndouble_buffer P", "8192");
  expectSame(known, kTiles + "cache_read B at i0 in far -> P\ndouble_buffer P", sizes);
  expectRefused(product(), near, "the size of 'P' has no bound within 'near'");
  expectRefused(known, kTiles + "cache_write C at j0 in here -> W",
                "the target has no memory 'here'; it has near, far");
}

// Breaks if a thread leaves points out, or threads that depend on one another run by turns.
TEST(Units, VirtualThreads) {
  expectSame(product(), "virtual_threads i 4 -> s v", kProducts);
  expectSame(product(), "virtual_threads i 3 -> s v\nvectorize j 8", kProducts);
  expectSame(softmax(), "virtual_threads i 2 -> s v\nparallel s", {{9, 21}, {1, 1}});
  auto schedule = scheduled(product(), "fuse_at start i\nvirtual_threads i 2 -> s v");
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  EXPECT_NE(schedule->outline().find("k:\n      v_add: unrolled\n"), std::string::npos)
      << schedule->outline();
  expectRefused(scan(), "virtual_threads t 2 -> s v", "the flow of 'H' within 'next'");
  expectRefused(product(), "virtual_threads k 2 -> s v", "the accumulation of 'C'");
  expectRefused(product(), "virtual_threads i 1 -> s v", "from 2 to 16");
  expectRefused(product(), "virtual_threads x 2 -> s v", "there is no loop 'x'");
}

// Breaks if a loop is put on a unit that it doesn't fit.
TEST(Units, Bindings) {
  expectSame(product(), kTiles + "bind i0 threads\nbind j1 lanes", kProducts);
  expectRefused(product(), kTiles + "bind i0 threads\nbind j0 threads", "loop 'i0'");
  expectRefused(product(), "tile i j by 4 16 -> i0 j0 i1 j1\nbind j1 lanes", "split it by 8");
  expectRefused(product(), "bind k threads", "it carries the accumulation of 'C'");
  expectRefused(product(), "bind k engines", "there are threads and lanes");
}

std::string outlineOf(const Nest &nest, const std::string &fusion) {
  auto schedule = scheduled(nest, "affine " + fusion);
  EXPECT_TRUE(schedule.ok()) << schedule.status().message();
  return schedule.ok() ? schedule->outline() : "";
}

size_t loopsOutside(const Nest &nest, const std::string &fusion) {
  std::string text = outlineOf(nest, fusion);
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
    count += text[at] != ' ';
  return count;
}

// Breaks if statements that would lose a loop that carries nothing are put together, or others not.
TEST(Units, FusionKeepsCoincidentLoops) {
  // The window's rows would have to wait for one another in common loops, and a pass of a softmax
  // that is no sum would lose the loop along its rows.
  EXPECT_EQ(loopsOutside(blur(), "coincident"), 2u) << outlineOf(blur(), "coincident");
  EXPECT_EQ(loopsOutside(softmax(), "coincident"), 4u) << outlineOf(softmax(), "coincident");
  EXPECT_EQ(loopsOutside(product(), "coincident"), 1u);
  EXPECT_EQ(loopsOutside(softmax(), "minimal"), 6u);
  EXPECT_EQ(loopsOutside(blur(), "maximal"), 1u) << outlineOf(blur(), "maximal");
}

// Breaks if a window's stage is computed again where the strategy says that it is not, or
// the other way round, or where each iteration would compute all of a stage.
TEST(Units, FusionRecomputesAsItsStrategySays) {
  auto copies = [&](const std::string &fusion) { // of T, one for each row
    auto schedule = scheduled(blur(), "affine " + fusion);
    EXPECT_TRUE(schedule.ok()) << schedule.status().message();
    return schedule.ok() ? schedule->nest().tensor("T")->instances : size_t(-1);
  };
  EXPECT_EQ(copies("maximal"), 0u);
  EXPECT_EQ(copies("recomputed"), 1u);
  EXPECT_EQ(loopsOutside(blur(), "recomputed"), 1u) << outlineOf(blur(), "recomputed");
  EXPECT_EQ(loopsOutside(softmax(), "recomputed"), 1u) << outlineOf(softmax(), "recomputed");
  Nest all = blur(); // each row of results reads all rows of T
  all.parameters[0].least = 100;
  all.statements[1].value = load(*all.tensor("T"), std::vector<Affine>{Affine("H") - "y", "x"});
  EXPECT_EQ(loopsOutside(all, "recomputed"), 1u);
  for (auto [iterator, size] : {std::pair("k", "H"), std::pair("l", "W")}) {
    all.statements[1].iterators.push_back(iterator);
    for (const Constraint &each : within(iterator, 0, size))
      all.statements[1].domain.push_back(each);
  }
  all.statements[1].value = load(*all.tensor("T"), std::vector<Affine>{"k", "l"});
  all.statements[1].reduction = Reduction::Maximum;
  auto schedule = scheduled(all, "affine recomputed");
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  EXPECT_EQ(schedule->nest().tensor("T")->instances, 0u) << schedule->outline();
}

// Breaks if what a strategy finds computes something else.
TEST(Units, FusedStatementsComputeTheSame) {
  expectSame(blur(), "affine maximal", {{5, 9}, {1, 1}});
  expectSame(blur(), "affine recomputed\nparallel c2", {{5, 9}, {1, 1}});
  for (const Program &each : programs())
    for (const char *fusion : {"affine maximal", "affine coincident", "affine recomputed"})
      if (each.nest.name != "attention") // its test is softmax's
        expectSame(each.nest, fusion, each.sizes);
}

} // namespace
} // namespace tensmith::nest::test

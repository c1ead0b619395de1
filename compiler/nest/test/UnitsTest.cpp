// That units and memories of a target, copies in two halves and virtual threads keep what a nest
// computes, and are refused where they would not or where the target has no room.
#include "compiler/nest/test/Expectations.h"
#include "compiler/nest/test/Programs.h"

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

// Breaks if statements that would lose a loop that carries nothing are put together, or others not.
TEST(Units, FusionKeepsCoincidentLoops) {
  auto outline = [](const Nest &nest, const std::string &fusion) {
    auto schedule = scheduled(nest, "affine " + fusion);
    EXPECT_TRUE(schedule.ok()) << schedule.status().message();
    return schedule.ok() ? schedule->outline() : "";
  };
  auto loopsOutside = [](const std::string &text) {
    size_t count = 0;
    for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
      count += text[at] != ' ';
    return count;
  };
  // The window's rows would have to wait for one another in common loops, and a pass of a softmax
  // that is no sum would lose the loop along its rows.
  EXPECT_EQ(loopsOutside(outline(blur(), "coincident")), 2u) << outline(blur(), "coincident");
  EXPECT_EQ(loopsOutside(outline(softmax(), "coincident")), 4u) << outline(softmax(), "coincident");
  EXPECT_EQ(loopsOutside(outline(product(), "coincident")), 1u);
  EXPECT_EQ(loopsOutside(outline(softmax(), "minimal")), 6u);
  for (const Program &each : programs())
    if (each.nest.name != "attention") // its test is softmax's
      expectSame(each.nest, "affine coincident", each.sizes);
}

} // namespace
} // namespace tensmith::nest::test

// That primitives keep what a nest computes, and refuse what would not.
#include "compiler/nest/test/NestRunner.h"
#include "compiler/nest/test/Programs.h"

#include <gtest/gtest.h>

namespace tensmith::nest::test {
namespace {

/// Schedules, compiles and compares at all sizes.
void expectEqual(const Nest &nest, const std::string &text,
                 const std::vector<std::vector<int64_t>> &sizes, int64_t indexBound = 1) {
  auto schedule = Schedule::of(nest);
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  Status status = schedule->apply(text);
  ASSERT_TRUE(status.ok()) << status.message();
  auto kernel = RunnableNest::of(*schedule);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  for (const auto &each : sizes)
    EXPECT_EQ(difference(*kernel, nest, each, 1, indexBound), "") << nest.name << "\n"
                                                                  << *loopText(*schedule);
}

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

} // namespace
} // namespace tensmith::nest::test

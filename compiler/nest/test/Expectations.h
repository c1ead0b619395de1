// What tests of schedules expect: that a text keeps what a nest computes, or is refused.
#pragma once

#include "compiler/nest/ScheduleState.h"
#include "compiler/nest/test/NestRunner.h"

#include <gtest/gtest.h>

namespace tensmith::nest::test {

/// Schedules, compiles and compares at all sizes.
inline void expectEqual(const Nest &nest, const std::string &text,
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

/// What is said of a text that must be refused.
inline std::string refusal(const Nest &nest, const std::string &text) {
  auto schedule = Schedule::of(nest);
  EXPECT_TRUE(schedule.ok());
  Status status = schedule->apply(text);
  EXPECT_FALSE(status.ok()) << text;
  return status.message();
}

inline void expectRefusal(const Nest &nest, const std::string &text, const std::string &part) {
  std::string said = refusal(nest, text);
  EXPECT_NE(said.find(part), std::string::npos) << said;
}

} // namespace tensmith::nest::test

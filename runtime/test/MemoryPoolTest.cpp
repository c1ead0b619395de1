// Sessions that share arenas: one block for those that run one after another, right results at any
// sizes and from several threads.
#include "TestModule.h"

#include "runtime/Session.h"

#include <gtest/gtest.h>
#include <numeric>
#include <thread>

using namespace tensmith;
using namespace tensmith::runtime;
using namespace tensmith::runtime::test;

namespace {

/// Whether x + x + x and the sum of x + x are right.
bool runsRight(Session &session, int64_t size, float first) {
  std::vector<float> x(size_t(size), 0.0f);
  std::iota(x.begin(), x.end(), first);
  std::vector<TensorRef> inputs = {floats({size}, x)}, outputs(2);
  if (!session.run(inputs, outputs).ok())
    return false;
  float sum = 0;
  bool right = true;
  std::vector<float> y = floatsOf(outputs[0]);
  for (size_t i = 0; i < x.size(); ++i) {
    sum += 2 * x[i];
    right &= y[i] == 3 * x[i];
  }
  return right && floatsOf(outputs[1])[0] == sum;
}

std::vector<std::unique_ptr<Session>> sessionsOn(const std::shared_ptr<MemoryPool> &pool) {
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < 3; ++i)
    sessions.push_back(
        std::make_unique<Session>(load(addModule(0, {})), 1, Limits(), std::nullopt, pool));
  return sessions;
}

// Breaks if each session keeps an arena, or goes on at the addresses of a block that it had before.
TEST(MemoryPool, IsAsLargeAsTheLargestRun) {
  auto alone = std::make_shared<MemoryPool>(), shared = std::make_shared<MemoryPool>();
  EXPECT_TRUE(runsRight(*sessionsOn(alone)[0], 500, 0));
  auto sessions = sessionsOn(shared);
  for (int round = 0; round < 4; ++round)
    for (int64_t size : {10, 500, 3, 77}) {
      for (auto &session : sessions)
        EXPECT_TRUE(runsRight(*session, size, float(round)));
      if (size == 500 || round > 0) {
        EXPECT_EQ(shared->bytes(), alone->bytes());
      }
    }
}

// Breaks if two runs at the same time get one block.
TEST(MemoryPool, GivesARunAtTheSameTimeABlockOfItsOwn) {
  auto pool = std::make_shared<MemoryPool>();
  auto sessions = sessionsOn(pool);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i)
        wrong += !runsRight(*sessions[size_t(i + t) % sessions.size()], 50 + (i * 7 + t) % 90, 1);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

// Breaks if a block that outlives the session that made it grow is counted to that one's limit for
// ever, or if the limit of a session with a pool does not hold.
TEST(MemoryPool, ALimitHoldsForTheSessionThatGrowsIt) {
  auto pool = std::make_shared<MemoryPool>();
  Session small(load(addModule(0, {})), 1, {.memoryBytes = 1 << 14}, std::nullopt, pool);
  EXPECT_TRUE(runsRight(small, 100, 0));
  std::vector<TensorRef> inputs = {floats({1 << 14}, std::vector<float>(1 << 14, 1))}, outputs(2);
  EXPECT_EQ(small.run(inputs, outputs).code(), StatusCode::ResourceExhausted);
  Session large(load(addModule(0, {})), 1, Limits(), std::nullopt, pool);
  EXPECT_TRUE(runsRight(large, 1 << 10, 0));
  EXPECT_TRUE(runsRight(small, 100, 0));
}

} // namespace

// How many empty operations the engine does in a second of the process's CPU time, all threads
// together, so that other load is of no account: a measurement that bench/eager asks for, and no
// test.
#include "eager/Engine.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>

namespace tensmith::eager {
namespace {

double rate(EngineOptions options, Size size, int count) {
  Engine engine(options);
  std::vector<VariableRef> variables;
  for (int i = 0; i < 64; ++i)
    variables.push_back(std::make_shared<Variable>());
  std::clock_t start = std::clock();
  for (int i = 0; i < count; ++i) {
    Task task;
    task.reads = {variables[size_t(i * 7 % 64)]};
    task.writes = {variables[size_t(i % 64)]};
    task.size = size;
    engine.push(std::move(task));
  }
  engine.waitForAll();
  return count / (double(std::clock() - start) / CLOCKS_PER_SEC);
}

TEST(EngineRate, DISABLED_EmptyOperations) {
  constexpr int kCount = 1'000'000;
  std::printf("{\"small\": %.0f, \"large\": %.0f, \"naive\": %.0f}\n",
              rate({}, Size::Small, kCount), rate({}, Size::Large, kCount),
              rate({.naive = true}, Size::Large, kCount));
}

} // namespace
} // namespace tensmith::eager

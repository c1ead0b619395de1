// random-schedules [COUNT [SEED]]: so many random legal sequences of primitives on the tests'
// programs, each compiled and compared with the oracle; and as many illegal lines as come up, each
// with the dependence that it was refused for. Fails at the first difference.
#include "compiler/nest/test/RandomSchedules.h"
#include "compiler/nest/ScheduleState.h"
#include "compiler/nest/test/NestRunner.h"
#include "compiler/nest/test/Programs.h"

#include <sstream>

using namespace tensmith::nest;

int main(int count, char **words) {
  int draws = count > 1 ? atoi(words[1]) : 100;
  uint64_t seed = count > 2 ? strtoull(words[2], nullptr, 10) : 1;
  auto all = test::programs();
  int refused = 0, wrongWithout = 0, withoutCount = 0;
  std::map<std::string, int> uses; // of primitives
  for (int draw = 0; draw < draws; ++draw) {
    std::mt19937_64 random(seed + uint64_t(draw));
    const test::Program &program = all[size_t(draw) % all.size()];
    auto schedule = Schedule::of(program.nest);
    test::RandomSequence sequence = test::applyRandom(*schedule, random, 14);
    refused += sequence.refused;
    std::istringstream lines(sequence.text);
    for (std::string line; std::getline(lines, line);)
      ++uses[line.substr(0, line.find(' '))];
    if (count > 3) // each of them, before it is run
      printf("%d %s\n%s%s", draw, program.nest.name.c_str(), sequence.text.c_str(),
             loopText(*schedule)->c_str()),
          fflush(stdout);
    auto kernel = test::RunnableNest::of(*schedule);
    std::string problem = kernel.ok() ? "" : kernel.status().message();
    for (const auto &sizes : program.sizes)
      if (problem.empty())
        problem = test::difference(*kernel, program.nest, sizes, seed + uint64_t(draw));
    if (!problem.empty()) {
      printf("seed %llu, %s: %s\n%s", (unsigned long long)(seed + uint64_t(draw)),
             program.nest.name.c_str(), problem.c_str(), sequence.text.c_str());
      return 1;
    }
    // What was refused last, done all the same: most of it computes something else.
    if (sequence.refused && draw % 4 == 0) {
      auto forced = Schedule::of(program.nest);
      tensmith::Status status = forced->apply(sequence.text);
      forced->state().unchecked = {true, true, true, true};
      if (status.ok() && forced->apply(sequence.line).ok())
        if (auto wrong = test::RunnableNest::of(*forced); wrong.ok()) {
          ++withoutCount;
          wrongWithout += !test::difference(*wrong, program.nest, program.sizes[0], seed).empty();
        }
    }
  }
  printf("%d legal sequences compute what the programs do; %d lines were refused for a "
         "dependence; of %d that were done all the same, %d computed something else\n",
         draws, refused, withoutCount, wrongWithout);
  for (const auto &[name, times] : uses)
    printf("%s %d\n", name.c_str(), times);
}

// random-schedules [COUNT [SEED [JSON]]]: so many random legal sequences of primitives on the
// tests' programs, each compiled and compared with the oracle; and as many illegal lines as come
// up, of each of which the two points that it names are looked at, whether they depend on one
// another so. Fails at the first difference. The counts go to the file JSON, if one is named.
#include "compiler/nest/test/RandomSchedules.h"
#include "compiler/nest/ScheduleState.h"
#include "compiler/nest/test/NestRunner.h"
#include "compiler/nest/test/Programs.h"

#include <fstream>
#include <sstream>

using namespace tensmith::nest;

int main(int count, char **words) {
  int draws = count > 1 ? atoi(words[1]) : 100;
  uint64_t seed = count > 2 ? strtoull(words[2], nullptr, 10) : 1;
  auto all = test::programs();
  int verified = 0, wrongWithout = 0, withoutCount = 0;
  std::map<std::string, int> uses, refused; // primitives; lines by the kind of the dependence
  for (int draw = 0; draw < draws; ++draw) {
    std::mt19937_64 random(seed + uint64_t(draw));
    const test::Program &program = all[size_t(draw) % all.size()];
    auto schedule = Schedule::of(program.nest);
    test::RandomSequence sequence = test::applyRandom(*schedule, random, 14);
    for (const auto &[kind, times] : sequence.refused)
      refused[kind] += times;
    verified += sequence.verified;
    if (!sequence.wrong.empty()) {
      printf("seed %llu, %s: a refusal names no dependence: %s\n%s",
             (unsigned long long)(seed + uint64_t(draw)), program.nest.name.c_str(),
             sequence.wrong.c_str(), sequence.text.c_str());
      return 1;
    }
    std::istringstream lines(sequence.text);
    for (std::string line; std::getline(lines, line);)
      ++uses[line.substr(0, line.find(' '))];
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
    if (sequence.refusals() && draw % 4 == 0) {
      auto forced = Schedule::of(program.nest);
      forced->setTarget(test::drawnTarget());
      tensmith::Status status = forced->apply(sequence.text);
      forced->state().unchecked = {true, true, true, true};
      if (status.ok() && forced->apply(sequence.line).ok())
        if (auto wrong = test::RunnableNest::of(*forced); wrong.ok()) {
          ++withoutCount;
          wrongWithout += !test::difference(*wrong, program.nest, program.sizes[0], seed).empty();
        }
    }
  }
  int refusals = 0;
  for (const auto &[kind, times] : refused)
    refusals += times;
  printf("%d legal sequences compute what the programs do; %d lines were refused for a "
         "dependence, of which %d name two points that depend so, and the others points that the "
         "line would have made; of %d that were done all the same, %d computed something else\n",
         draws, refusals, verified, withoutCount, wrongWithout);
  auto text = [](const std::map<std::string, int> &counts) {
    std::string all;
    for (const auto &[name, times] : counts)
      all += (all.empty() ? "\"" : ", \"") + name + "\": " + std::to_string(times);
    return "{" + all + "}";
  };
  std::string counts = "{\"legal\": " + std::to_string(draws) +
                       ", \"refused\": " + std::to_string(refusals) +
                       ", \"refusals_verified\": " + std::to_string(verified) +
                       ", \"refused_done_all_the_same\": " + std::to_string(withoutCount) +
                       ", \"of_which_wrong\": " + std::to_string(wrongWithout) +
                       ", \"kinds\": " + text(refused) + ", \"primitives\": " + text(uses) + "}";
  if (count > 3)
    std::ofstream(words[3]) << counts << "\n";
  else
    printf("%s\n", counts.c_str());
}

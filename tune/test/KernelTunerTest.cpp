// One kernel's tuning on a bench that answers planted times: winners, failures, drift, resuming.
#include "tune/KernelTuner.h"
#include "tune/TaskScheduler.h"
#include "tune/test/PlantedSpaces.h"

#include "files/Files.h"

#include <gtest/gtest.h>
#include <map>

using namespace tensmith::tune;

namespace {

/// Its machine becomes slower all the time; some points crash.
class PlantedBench : public Bench {
public:
  explicit PlantedBench(const SearchSpace &space) : space_(space) {}

  std::optional<size_t> build(const std::string &, const std::string &choices,
                              std::string &why) override {
    Configuration point = space_.parse(choices);
    if (point.empty() || unbuildable == choices) {
      why = "no such code";
      return std::nullopt;
    }
    built_[next_] = point;
    return next_++;
  }
  void drop(size_t candidate) override { built_.erase(candidate); }
  RunOutcome run(size_t candidate) override {
    ++runs;
    if (built_.at(candidate)[0] == 15)
      return {"crashed", 0, "signal 11"};
    drift_ *= 1.01;
    return {"timed", drift_ * plantedSeconds(built_.at(candidate)), ""};
  }
  Features features(const std::string &, const std::string &) override { return {}; }

  size_t kept() const { return built_.size(); }
  int runs = 0;
  std::string unbuildable;

private:
  const SearchSpace &space_;
  std::map<size_t, Configuration> built_;
  size_t next_ = 0;
  double drift_ = 1;
};

class KernelTuning : public testing::Test {
protected:
  KernelTuning() {
    kernel.name = {"machine", "00ff", "matmul"};
    kernel.space = plantedSpace();
    kernel.estimated = kernel.space.text(kernel.space.at(40));
    settings.compiler = "1";
    settings.batch = 16;
  }
  double secondsOf(const std::string &choices) {
    return plantedSeconds(kernel.space.parse(choices));
  }

  tensmith::TemporaryFolder folder;
  Database database{(folder.path() / "tuned.sqlite").string(), Access::Write};
  TunableKernel kernel;
  TuningSettings settings;
};

} // namespace

TEST_F(KernelTuning, FindsAWinnerThoughTheMachineDriftsAndPointsCrash) {
  PlantedBench bench(kernel.space);
  KernelTuner tuner(kernel, bench, database, settings);
  while (tuner.trials() < 200 && tuner.step(200))
    ;
  EXPECT_EQ(tuner.trials(), 208);
  EXPECT_GT(tuner.failures(), 0);
  EXPECT_LE(secondsOf(tuner.choices()), 1.1 * bestPlanted(kernel.space));
  auto winner = database.winner("machine", "00ff");
  ASSERT_TRUE(winner);
  EXPECT_EQ(winner->choices, tuner.choices());
  EXPECT_GE(winner->confidence, 0.95);
  EXPECT_NEAR(winner->before / winner->seconds,
              secondsOf(kernel.estimated) / secondsOf(winner->choices), 0.1);
  EXPECT_EQ(database.trials("machine", "00ff").size(), 208u);
  EXPECT_LE(bench.kept(), 2u); // the estimates' and the incumbent: no candidate is forgotten
}

// Breaks if slow candidates are run as often as fast ones, or a fast one is given up for good after
// one turn.
TEST_F(KernelTuning, TurnsGoToWhatSeemsFast) {
  PlantedBench bench(kernel.space);
  settings.batch = 8;
  settings.search = "random";
  KernelTuner tuner(kernel, bench, database, settings);
  std::map<size_t, int> trialsOfTurns;
  for (int batch = 0; batch < 3; ++batch)
    tuner.step(8);
  for (const Trial &trial : database.trials("machine", "00ff"))
    if (trial.outcome == "timed")
      ++trialsOfTurns[trial.seconds.size()];
  // Of eight that run: 4, 2, 2 of one, two and three turns; then 4 of two and 4 of three; then 8 of
  // three. Some crash.
  EXPECT_GE(trialsOfTurns[1], 2);
  EXPECT_GE(trialsOfTurns[2], 3);
  EXPECT_GE(trialsOfTurns[3], 10);
  EXPECT_LE(trialsOfTurns[1] + trialsOfTurns[2], 10);
}

// What a process before has found is neither lost nor measured again.
TEST_F(KernelTuning, ResumesFromTheDatabase) {
  PlantedBench bench(kernel.space);
  std::string found;
  {
    KernelTuner first(kernel, bench, database, settings);
    for (int i = 0; i < 6; ++i)
      first.step(16);
    found = first.choices();
  }
  KernelTuner second(kernel, bench, database, settings);
  EXPECT_EQ(second.choices(), found);
  second.step(16);
  EXPECT_LE(secondsOf(second.choices()), secondsOf(found));
  std::set<std::string> all;
  for (const Trial &trial : database.trials("machine", "00ff"))
    EXPECT_TRUE(all.insert(trial.choices).second);
  EXPECT_EQ(all.size(), 7u * 16);
}

// Breaks if what was a winner once stays one where it is slower than the estimates' point today.
TEST_F(KernelTuning, AWinnerThatIsSlowerNowIsNone) {
  Configuration slow = kernel.space.parse(kernel.estimated);
  for (uint64_t i = 0; i < kernel.space.size(); ++i)
    if (Configuration point = kernel.space.at(i);
        point[0] < 15 && plantedSeconds(point) > plantedSeconds(slow))
      slow = point;
  database.setWinner(kernel.name, {kernel.space.text(slow), 1e-9, 1, 0.99, "1", 0});
  PlantedBench bench(kernel.space);
  KernelTuner tuner(kernel, bench, database, settings);
  tuner.step(1);
  auto winner = database.winner("machine", "00ff");
  EXPECT_TRUE(!winner || secondsOf(winner->choices) < secondsOf(kernel.estimated));
  EXPECT_LE(secondsOf(tuner.choices()), secondsOf(kernel.estimated));
}

TEST_F(KernelTuning, LeavesAKernelThatCanNotBeBuilt) {
  PlantedBench bench(kernel.space);
  bench.unbuildable = kernel.estimated;
  KernelTuner tuner(kernel, bench, database, settings);
  EXPECT_EQ(tuner.step(16), 0u);
  EXPECT_EQ(tuner.broken(), "no such code");
  EXPECT_FALSE(database.winner("machine", "00ff"));
}

// An estimate that is the best already stays: noise makes no winner.
TEST_F(KernelTuning, KeepsTheBestEstimate) {
  double best = bestPlanted(kernel.space);
  for (uint64_t i = 0; i < kernel.space.size(); ++i)
    if (plantedSeconds(kernel.space.at(i)) == best)
      kernel.estimated = kernel.space.text(kernel.space.at(i));
  PlantedBench bench(kernel.space);
  KernelTuner tuner(kernel, bench, database, settings);
  for (int i = 0; i < 8; ++i)
    tuner.step(16);
  EXPECT_EQ(tuner.choices(), kernel.estimated);
  EXPECT_FALSE(database.winner("machine", "00ff"));
}

TEST(Challenge, IsDecidedByRatiosOfTurns) {
  // Each pair differs by a twentieth, though the machine's own times double.
  std::vector<double> fast, slow;
  for (int i = 0; i < 8; ++i) {
    slow.push_back(1 + 0.125 * i);
    fast.push_back(slow.back() * (0.95 + 0.005 * (i % 3)));
  }
  EXPECT_GE(judge(fast, slow).confidence, 0.95);
  EXPECT_LE(judge(slow, fast).confidence, 0.05);
  EXPECT_NEAR(judge(fast, slow).ratio, 0.955, 0.005);
  std::vector<double> noise = {1.1, 0.9, 1.05, 0.96}, other = {1, 1, 1, 1};
  EXPECT_LT(judge(noise, other).confidence, 0.95);
  EXPECT_GT(judge(noise, other).confidence, 0.05);
}

TEST(TaskScheduler, EachKernelFirstAndThenWhoeverWins) {
  std::vector<Task> tasks(3);
  for (size_t i = 0; i < 3; ++i) {
    tasks[i].flops = double(i + 1);
    tasks[i].kind = "contraction";
  }
  Random random(1);
  EXPECT_EQ(nextTask(tasks, random), 2u);
  tasks[2].trials = tasks[1].trials = tasks[0].trials = 8;
  // The second still gains; the others have long been flat, and are short.
  tasks[0].history.assign(20, 1e-4), tasks[0].best = 1e-4;
  tasks[1].history = {3e-3, 2e-3, 1e-3}, tasks[1].best = 1e-3;
  tasks[2].history.assign(20, 3e-4), tasks[2].best = 3e-4;
  int second = 0;
  for (int i = 0; i < 100; ++i)
    second += nextTask(tasks, random) == 1u;
  EXPECT_GT(second, 85);
  EXPECT_LT(second, 100); // now and then one is drawn
  tasks[1].isDone = true;
  EXPECT_NE(nextTask(tasks, random), 1u);
  tasks[0].isDone = tasks[2].isDone = true;
  EXPECT_FALSE(nextTask(tasks, random));
  tasks[2].uses = 4;
  EXPECT_NEAR(totalSeconds(tasks), 1e-4 + 1e-3 + 12e-4, 1e-12);
}

// Where searches start: winners of nearest sizes, and the history of other kernels, on planted
// kernels whose best points differ and whose features mean the same.
#include "tune/KernelTuner.h"
#include "tune/test/PlantedSpaces.h"

#include "files/Files.h"

#include <gtest/gtest.h>
#include <map>

using namespace tensmith::tune;

namespace {

/// Of planted kernels that differ in how many tiles an item should have: the knob says little of
/// another kernel's times, the distance from its best says all.
Features featuresOf(const Configuration &point, int size) {
  double rows = point[0] + 1, vectors = point[1] + 1;
  return {rows * vectors + vectors,          rows * vectors,   std::abs(double(point[2] - 2)),
          std::abs(double(point[3] - size)), double(point[4]), double(point[5])};
}

double secondsOf(const Configuration &point, int size) {
  return plantedSeconds(point) +
         1e-5 * (0.3 * std::abs(point[3] - size) - 0.08 * std::abs(point[3] - 3));
}

class SizedBench : public Bench {
public:
  SizedBench(const SearchSpace &space, int size) : space_(space), size_(size) {}
  std::optional<size_t> build(const std::string &, const std::string &choices,
                              std::string &) override {
    built_.push_back(space_.parse(choices));
    return built_.size() - 1;
  }
  void drop(size_t) override {}
  RunOutcome run(size_t candidate) override {
    return {"timed", secondsOf(built_[candidate], size_), ""};
  }
  Features features(const std::string &, const std::string &choices) override {
    return featuresOf(space_.parse(choices), size_);
  }

private:
  const SearchSpace &space_;
  int size_;
  std::vector<Configuration> built_;
};

TunableKernel kernelOf(int size) {
  TunableKernel kernel;
  kernel.name = {"machine", "key" + std::to_string(size), "matmul " + std::to_string(size)};
  kernel.space = plantedSpace();
  kernel.estimated = kernel.space.text(kernel.space.at(40));
  return kernel;
}

/// Trials of a kernel, drawn; with `lies` the fast are told to be slow.
void addHistory(Database &database, int size, bool lies) {
  TunableKernel kernel = kernelOf(size);
  Random random{uint64_t(size)};
  for (int i = 0; i < 64; ++i) {
    Configuration point = kernel.space.random(random);
    double seconds = secondsOf(point, size);
    database.add(kernel.name, {kernel.space.text(point),
                               "timed",
                               "",
                               "random",
                               "1",
                               0,
                               {lies ? 1e-9 / seconds : seconds},
                               featuresOf(point, size)});
  }
}

/// Until the kernel of size 3 is within a tenth of its best.
int64_t trialsNeeded(bool withHistory, bool lies, uint64_t seed) {
  tensmith::TemporaryFolder folder;
  Database database((folder.path() / "tuned.sqlite").string(), Access::Write);
  for (int size : {0, 1, 4, 5})
    if (withHistory)
      addHistory(database, size, lies);
  TunableKernel kernel = kernelOf(3);
  SizedBench bench(kernel.space, 3);
  TuningSettings settings;
  settings.compiler = "1";
  settings.seed = seed;
  settings.batch = 4;
  KernelTuner tuner(kernel, bench, database, settings);
  double best = INFINITY;
  for (uint64_t i = 0; i < kernel.space.size(); ++i)
    best = std::min(best, secondsOf(kernel.space.at(i), 3));
  while (tuner.trials() < 400 && tuner.step(4) > 0)
    if (secondsOf(kernel.space.parse(tuner.choices()), 3) <= 1.1 * best)
      break;
  return tuner.trials();
}

int64_t sumNeeded(bool withHistory, bool lies) {
  int64_t sum = 0;
  for (uint64_t seed = 1; seed <= 9; ++seed)
    sum += trialsNeeded(withHistory, lies, seed);
  return sum;
}

} // namespace

// Breaks if features of other kernels are not learnt from, or a history that misleads is believed
// for longer than a batch.
TEST(Precedents, HistoryHalvesTrialsAndLiesCostLittle) {
  int64_t cold = sumNeeded(false, false), warm = sumNeeded(true, false),
          misled = sumNeeded(true, true);
  EXPECT_LE(2 * warm, cold) << warm << " trials of " << cold;
  EXPECT_LE(double(misled), 1.2 * double(cold)) << misled << " trials of " << cold;
}

TEST(Precedents, SizesAreWhatMayDiffer) {
  std::string product = "matmul 40x48:f32 48x64:f32 -> 40x64:f32";
  EXPECT_EQ(distanceOf(product, product), 0);
  auto near = distanceOf(product, "matmul 41x48:f32 48x64:f32 -> 41x64:f32"),
       far = distanceOf(product, "matmul 400x48:f32 48x64:f32 -> 400x64:f32");
  ASSERT_TRUE(near && far);
  EXPECT_LT(*near, *far);
  EXPECT_EQ(far, distanceOf("matmul 400x48:f32 48x64:f32 -> 400x64:f32", product));
  EXPECT_FALSE(distanceOf(product, "matmul 40x48:f16 48x64:f16 -> 40x64:f16"));
  EXPECT_FALSE(distanceOf(product, "conv 40x48:f32 48x64:f32 -> 40x64:f32"));
  EXPECT_FALSE(distanceOf(product, "matmul 1x40x48:f32 48x64:f32 -> 1x40x64:f32"));
  EXPECT_TRUE(distanceOf("", ""));
}

// Breaks if another machine's winner is taken, the nearest doesn't come first, or a value that the
// kernel doesn't have is proposed.
TEST(Precedents, NearestWinnersComeFirstAndFit) {
  tensmith::TemporaryFolder folder;
  Database database((folder.path() / "tuned.sqlite").string(), Access::Write);
  auto add = [&](const char *machine, const char *structure, const char *choices) {
    database.setWinner({machine, structure, structure}, {choices, 1, 2, 0.99, "1", 0});
  };
  add("machine", "matmul 400", R"("tile_rows":2)");
  add("machine", "matmul 41", R"("item_tiles":100,"other":1,"tile_rows":20)");
  add("machine", "conv 40", R"("tile_rows":5)");
  add("elsewhere", "matmul 40", R"("tile_rows":7)");
  TunableKernel kernel = kernelOf(40);
  std::vector<Configuration> points = nearestPoints(kernel, database, 4);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0], kernel.space.parse(R"("item_tiles":32,"tile_rows":16)"));
  EXPECT_EQ(points[1], kernel.space.parse(R"("tile_rows":2)"));
  EXPECT_EQ(nearestPoints(kernel, database, 1).size(), 1u);
}

// Rows of another length, as another build may have left them, are no rows of this one's.
TEST(Precedents, HistoryOfOtherFeaturesIsLeftAlone) {
  tensmith::TemporaryFolder folder;
  Database database((folder.path() / "tuned.sqlite").string(), Access::Write);
  for (int size : {0, 1})
    addHistory(database, size, false);
  TunableKernel kernel = kernelOf(3);
  EXPECT_FALSE(historyOf(kernel.name, database, "2", 1));
  auto history = historyOf(kernel.name, database, "1", 1);
  ASSERT_TRUE(history);
  SizedBench bench(kernel.space, 3);
  Random random(1);
  EXPECT_EQ(likeliest(kernel, *history, bench, random, 5).size(), 5u);
  history->length = 4;
  EXPECT_TRUE(likeliest(kernel, *history, bench, random, 5).empty());
}

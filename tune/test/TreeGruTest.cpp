// That the network over trees of loops learns from their form, and nothing from permuted times.
#include "tune/model/CostModel.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace tensmith::tune;

namespace {

/// A loop with two in it, side by side or one in the other; with their lengths' logarithms as
/// numbers.
struct Program {
  double outer, first, second;
  bool isNested;

  static Program drawn(Random &random) {
    auto length = [&] { return std::exp2(1 + double(random.below(6))); };
    return {length(), length(), length(), random.below(2) == 1};
  }
  Features features() const {
    std::vector<Loop> loops = {{-1, {0}},
                               {0, {std::log2(outer)}},
                               {1, {std::log2(first)}},
                               {isNested ? 2 : 1, {std::log2(second)}}};
    return treeFeatures(loops);
  }
  double seconds() const { return outer * (isNested ? first * second : first + second); }
};

struct Sample {
  std::vector<Features> rows;
  std::vector<double> seconds;
};

Sample sample(uint64_t seed, int count) {
  Random random(seed);
  Sample sample;
  for (int i = 0; i < count; ++i) {
    Program program = Program::drawn(random);
    sample.rows.push_back(program.features());
    sample.seconds.push_back(program.seconds());
  }
  return sample;
}

} // namespace

// Fails where a loop's place in the tree is lost: of the same loops, nested ones take longer.
TEST(TreeGru, LearnsFromTheFormOfTrees) {
  Sample learnt = sample(1, 256), held = sample(2, 200);
  for (Loss loss : {Loss::Rank, Loss::Regression}) {
    auto model = treeGruModel(loss, 1);
    EXPECT_FALSE(model->isFitted());
    model->fit(learnt.rows, learnt.seconds);
    EXPECT_GE(pairwiseAccuracy(*model, held.rows, held.seconds), 0.85);
    Random random(3);
    int right = 0;
    for (int i = 0; i < 50; ++i) {
      Program program = Program::drawn(random);
      program.first *= 4, program.second *= 4; // where the two differ by more than a little
      program.isNested = false;
      Features apart = program.features();
      program.isNested = true;
      const Features both[] = {apart, program.features()};
      auto scores = model->predict(both);
      right += scores[0].score > scores[1].score;
    }
    EXPECT_GE(right, 45);
  }
}

// Fails where the test's measure is met by a model that knows nothing.
TEST(TreeGru, KnowsNothingOfPermutedTimes) {
  Sample learnt = sample(1, 256), held = sample(2, 200);
  Random random(5);
  for (size_t i = learnt.seconds.size(); i > 1; --i)
    std::swap(learnt.seconds[i - 1], learnt.seconds[random.below(i)]);
  auto model = treeGruModel(Loss::Rank, 1);
  model->fit(learnt.rows, learnt.seconds);
  EXPECT_LT(pairwiseAccuracy(*model, held.rows, held.seconds), 0.65);
}

// Fails where kernels' times are compared with one another: one is a thousand times as long.
TEST(TreeGru, ComparesTimesOfOneKernel) {
  Sample learnt = sample(1, 128), other = sample(4, 128), held = sample(2, 200);
  learnt.rows.insert(learnt.rows.end(), other.rows.begin(), other.rows.end());
  for (double each : other.seconds)
    learnt.seconds.push_back(1e3 * each);
  const int64_t groups[] = {128, 128};
  auto model = treeGruModel(Loss::Rank, 1);
  model->fit(learnt.rows, learnt.seconds, groups);
  EXPECT_GE(pairwiseAccuracy(*model, held.rows, held.seconds), 0.85);
}

// Cost models: that they put points in order, that failures come last, and what they refuse.
#include "tune/model/CostModel.h"
#include "tune/test/PlantedSpaces.h"

#include <gtest/gtest.h>

using namespace tensmith::tune;

namespace {

struct Sample {
  std::vector<Features> rows;
  std::vector<double> seconds;
};

Sample sample(uint64_t seed, size_t count) {
  SearchSpace space = plantedSpace();
  Random random(seed);
  Sample drawn;
  for (size_t i = 0; i < count; ++i) {
    Configuration point = space.random(random);
    drawn.rows.push_back(space.knobs(point));
    drawn.seconds.push_back(plantedSeconds(point));
  }
  return drawn;
}

} // namespace

TEST(CostModel, OrdersHeldOutPointsAfter256Samples) {
  Sample learnt = sample(1, 256), held = sample(2, 300);
  for (Loss loss : {Loss::Regression, Loss::Rank}) {
    auto model = treesModel(loss, 1);
    model->fit(learnt.rows, learnt.seconds);
    EXPECT_GE(pairwiseAccuracy(*model, held.rows, held.seconds), 0.8);
  }
}

TEST(CostModel, KnowsNothingOfPermutedTimes) {
  Sample learnt = sample(1, 256), held = sample(2, 300);
  Random random(5);
  for (size_t i = learnt.seconds.size(); i > 1; --i)
    std::swap(learnt.seconds[i - 1], learnt.seconds[random.below(i)]);
  auto model = treesModel(Loss::Rank, 1);
  model->fit(learnt.rows, learnt.seconds);
  EXPECT_LT(pairwiseAccuracy(*model, held.rows, held.seconds), 0.65);
}

TEST(CostModel, FailuresComeLast) {
  Sample learnt = sample(3, 200);
  for (size_t i = 0; i < learnt.rows.size(); ++i)
    if (learnt.rows[i][1] > 1.2) // two vectors never run
      learnt.seconds[i] = INFINITY;
  auto model = treesModel(Loss::Regression, 1);
  model->fit(learnt.rows, learnt.seconds);
  auto predicted = model->predict(learnt.rows);
  double failed = -INFINITY, ran = INFINITY;
  for (size_t i = 0; i < learnt.rows.size(); ++i)
    if (std::isinf(learnt.seconds[i]))
      failed = std::max(failed, predicted[i].score);
    else
      ran = std::min(ran, predicted[i].score);
  EXPECT_LT(failed, ran + 0.2);
}

// Times of several kernels are compared within each: one that is a thousand times longer is no
// worse.
TEST(CostModel, LearnsFromKernelsOfAnySize) {
  Sample a = sample(1, 150), b = sample(4, 150), held = sample(2, 200);
  std::vector<Features> rows = a.rows;
  std::vector<double> seconds = a.seconds;
  rows.insert(rows.end(), b.rows.begin(), b.rows.end());
  for (double each : b.seconds)
    seconds.push_back(1000 * each);
  const int64_t groups[] = {150, 150};
  for (Loss loss : {Loss::Regression, Loss::Rank}) {
    auto model = treesModel(loss, 1);
    model->fit(rows, seconds, groups);
    EXPECT_GE(pairwiseAccuracy(*model, held.rows, held.seconds), 0.8);
  }
}

TEST(CostModel, ImprovementIsExpectedWhereItIsUncertain) {
  EXPECT_GT(valueOf({0, 1}, Acquisition::ExpectedImprovement, 0.5),
            valueOf({0, 0.1}, Acquisition::ExpectedImprovement, 0.5));
  EXPECT_GT(valueOf({0, 1}, Acquisition::UpperBound, 0),
            valueOf({0, 0.5}, Acquisition::UpperBound, 0));
  EXPECT_EQ(valueOf({2, 1}, Acquisition::Mean, 0), 2);
}

TEST(CostModel, FewRowsAreTooFew) {
  Sample few = sample(1, 5);
  auto model = treesModel(Loss::Rank, 1);
  model->fit(few.rows, few.seconds);
  EXPECT_FALSE(model->isFitted());
}

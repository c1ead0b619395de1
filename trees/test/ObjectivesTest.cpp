// Derivatives of objectives, held against differences of the losses that they are derived from.
#include "trees/Metrics.h"
#include "trees/Threads.h"

#include "trees/test/Data.h"

#include <gtest/gtest.h>

#include <functional>

using namespace tensmith;
using namespace tensmith::trees;
using namespace tensmith::trees::test;

namespace {

using Loss =
    std::function<double(const std::vector<double> &outputs, const std::vector<float> &labels)>;

double logisticLoss(double output, double label) {
  return std::log1p(std::exp(-std::fabs(output))) + std::max(output, 0.) - label * output;
}

Loss sumOf(std::function<double(double, double)> loss) {
  return [loss](const std::vector<double> &outputs, const std::vector<float> &labels) {
    double sum = 0;
    for (size_t row = 0; row < labels.size(); ++row)
      sum += loss(outputs[row], labels[row]);
    return sum;
  };
}

struct Case {
  const char *objective;
  std::vector<float> labels;
  Loss loss;
  double secondFactor; // by how much the Hessian is made larger; 0: it is an upper bound of its own
  int64_t channels = 1;
};

double coxLoss(const std::vector<double> &outputs, const std::vector<float> &labels) {
  double sum = 0;
  for (size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] <= 0)
      continue;
    double atRisk = 0;
    for (size_t other = 0; other < labels.size(); ++other)
      if (std::fabs(labels[other]) >= labels[row])
        atRisk += std::exp(outputs[other]);
    sum += std::log(atRisk) - outputs[row];
  }
  return sum;
}

double softmaxLoss(const std::vector<double> &outputs, const std::vector<float> &labels) {
  double sum = 0;
  for (size_t row = 0; row < labels.size(); ++row) {
    double total = 0;
    for (int channel = 0; channel < 3; ++channel)
      total += std::exp(outputs[row * 3 + channel]);
    sum += std::log(total) - outputs[row * 3 + size_t(labels[row])];
  }
  return sum;
}

std::vector<Case> cases() {
  std::vector<float> reals{-1.5, 0.25, 0.5, 2, 3, -0.5}, counts{0, 1, 2, 5, 0, 3},
      shares{0, 1, 1, 0, 1, 0};
  return {
      {"squared", reals, sumOf([](double o, double l) { return (o - l) * (o - l) / 2; }), 1},
      {"absolute", reals, sumOf([](double o, double l) { return std::fabs(o - l); }), 0},
      {"huber", reals,
       sumOf([](double o, double l) { return std::sqrt(1 + (o - l) * (o - l)) - 1; }), 1},
      {"quantile", reals,
       sumOf([](double o, double l) { return o >= l ? 0.2 * (o - l) : 0.8 * (l - o); }), 0},
      {"poisson", counts, sumOf([](double o, double l) { return std::exp(o) - l * o; }),
       std::exp(0.7)},
      {"tweedie", counts, sumOf([](double o, double l) {
         return -l * std::exp(-0.5 * o) / -0.5 + std::exp(0.5 * o) / 0.5;
       }),
       1},
      {"logistic", shares, sumOf(logisticLoss), 1},
      {"softmax", {0, 1, 2, 1, 0, 2}, softmaxLoss, 2, 3},
      {"cox", {1, -2, 3, 3, 0.5, -4}, coxLoss, 1},
  };
}

TEST(Objectives, DerivativesAreThoseOfTheLoss) {
  Threads threads(2);
  Parameters parameters;
  parameters.quantile = 0.8;
  for (const Case &one : cases()) {
    const Objective *objective = findObjective(one.objective);
    ASSERT_NE(objective, nullptr) << one.objective;
    std::vector<double> at;
    for (size_t place = 0; place < one.labels.size() * one.channels; ++place)
      at.push_back(drawn(3, place, 1));
    std::vector<float> outputs(at.begin(), at.end());
    std::vector<Gradient> gradients(outputs.size());
    Rows rows{int64_t(one.labels.size()), one.channels, one.labels, {}, {}, outputs};
    objective->gradient(parameters, rows, gradients, threads);
    for (size_t place = 0; place < at.size(); ++place) {
      auto loss = [&](double step) {
        std::vector<double> moved(outputs.begin(), outputs.end());
        moved[place] += step;
        return one.loss(moved, one.labels);
      };
      double step = 1e-4, first = (loss(step) - loss(-step)) / (2 * step);
      double second = (loss(step) - 2 * loss(0) + loss(-step)) / (step * step);
      EXPECT_NEAR(gradients[place].first, first, 1e-4) << one.objective << " " << place;
      if (one.secondFactor > 0)
        EXPECT_NEAR(gradients[place].second, second * one.secondFactor, 2e-3)
            << one.objective << " " << place;
      EXPECT_GE(gradients[place].second, 0) << one.objective;
    }
  }
}

TEST(Objectives, WeightsScaleDerivatives) {
  Threads threads(1);
  std::vector<float> labels{0, 1, 1}, weights{1, 2, 0.5}, outputs{0.1f, 0.2f, -0.3f};
  for (const char *name : {"squared", "logistic", "poisson", "tweedie", "huber", "cox"}) {
    std::vector<Gradient> plain(3), weighted(3);
    const Objective *objective = findObjective(name);
    objective->gradient({}, {3, 1, labels, {}, {}, outputs}, plain, threads);
    objective->gradient({}, {3, 1, labels, weights, {}, outputs}, weighted, threads);
    for (int row = 0; row < 3; ++row)
      EXPECT_FLOAT_EQ(weighted[row].first, plain[row].first * weights[row]) << name;
  }
}

/// Pairs push the better row up and the worse one down by as much, and nothing leaves its group.
TEST(Objectives, RankingPushesPairsApart) {
  Threads threads(2);
  std::vector<float> labels{2, 0, 1, 1, 0}, outputs{0.1f, 0.5f, 0.2f, 0.3f, 0.3f};
  std::vector<int64_t> groups{3, 2};
  for (const char *name : {"pairwise", "lambdamart"}) {
    std::vector<Gradient> gradients(5);
    findObjective(name)->gradient({}, {5, 1, labels, {}, groups, outputs}, gradients, threads);
    EXPECT_LT(gradients[0].first, 0) << name;
    EXPECT_GT(gradients[1].first, 0) << name;
    EXPECT_NEAR(gradients[0].first + gradients[1].first + gradients[2].first, 0, 1e-6) << name;
    EXPECT_NEAR(gradients[3].first + gradients[4].first, 0, 1e-6) << name;
    EXPECT_LT(gradients[3].first, 0) << name;
  }
}

TEST(Metrics, KnownValues) {
  std::vector<float> labels{0, 1, 1, 0}, outputs{-1, 2, 0.5f, 0.7f};
  Rows rows{4, 1, labels, {}, {}, outputs};
  auto value = [&](const char *name, const char *objective) {
    Result<NamedMetric> metric = findMetric(name);
    return metric->metric->value(rows, *findObjective(objective), {}, metric->argument);
  };
  EXPECT_DOUBLE_EQ(value("auc", "logistic"), 0.75); // three of four pairs are in order
  EXPECT_DOUBLE_EQ(value("error", "logistic"), 0.25);
  EXPECT_NEAR(value("rmse", "squared"), std::sqrt((1 + 1 + 0.25 + 0.49) / 4), 1e-6);
  EXPECT_NEAR(value("map@2", "pairwise"), 0.5, 1e-12); // ranks: 1, 0 of two relevant
  EXPECT_FALSE(findMetric("ndcg@x").ok());
  EXPECT_NE(findMetric("nothing").status().message().find("rmse"), std::string::npos);
}

} // namespace

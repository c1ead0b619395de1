// The table of objectives, and those whose derivatives are a row's own.
#include "trees/Objective.h"

#include "trees/ListwiseObjectives.h"
#include "trees/Threads.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace tensmith::trees {

namespace {

constexpr int64_t kGrain = 1 << 13;
constexpr float kLeastHessian = 1e-16f;

float logistic(float output) { return 1 / (std::exp(std::min(-output, 88.7f)) + 1); }

/// derivatives(output, label) of each row, times its weight.
template <typename Derivatives>
void eachRow(const Rows &rows, std::span<Gradient> gradients, Threads &threads,
             Derivatives derivatives) {
  threads.ranges(rows.count, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      float weight = rows.weights.empty() ? 1 : rows.weights[row];
      Gradient gradient = derivatives(rows.outputs[row], rows.labels[row]);
      gradients[row] = {gradient.first * weight, gradient.second * weight};
    }
  });
}

void squared(const Parameters &, const Rows &rows, std::span<Gradient> gradients,
             Threads &threads) {
  eachRow(rows, gradients, threads,
          [](float output, float label) { return Gradient{output - label, 1}; });
}

void absolute(const Parameters &, const Rows &rows, std::span<Gradient> gradients,
              Threads &threads) {
  eachRow(rows, gradients, threads, [](float output, float label) {
    return Gradient{float((output > label) - (output < label)), 1};
  });
}

/// Pseudo-Huber: slope^2 (sqrt(1 + (residual / slope)^2) - 1).
void huber(const Parameters &parameters, const Rows &rows, std::span<Gradient> gradients,
           Threads &threads) {
  auto slope = float(parameters.huberSlope);
  eachRow(rows, gradients, threads, [slope](float output, float label) {
    float residual = output - label, square = 1 + residual * residual / (slope * slope);
    float root = std::sqrt(square);
    return Gradient{residual / root, 1 / (square * root)};
  });
}

void quantile(const Parameters &parameters, const Rows &rows, std::span<Gradient> gradients,
              Threads &threads) {
  auto share = float(parameters.quantile);
  eachRow(rows, gradients, threads, [share](float output, float label) {
    return Gradient{output >= label ? 1 - share : -share, 1};
  });
}

/// exp(output) - label output; the Hessian is made larger by exp(0.7), as XGBoost does for a
/// step that is safe at the start.
void poisson(const Parameters &parameters, const Rows &rows, std::span<Gradient> gradients,
             Threads &threads) {
  auto step = float(parameters.maxDeltaStep != 0 ? parameters.maxDeltaStep : 0.7);
  eachRow(rows, gradients, threads, [step](float output, float label) {
    return Gradient{std::exp(output) - label, std::exp(output + step)};
  });
}

void tweedie(const Parameters &parameters, const Rows &rows, std::span<Gradient> gradients,
             Threads &threads) {
  auto power = float(parameters.tweediePower);
  eachRow(rows, gradients, threads, [power](float output, float label) {
    float a = std::exp((1 - power) * output), b = std::exp((2 - power) * output);
    return Gradient{-label * a + b, -label * (1 - power) * a + (2 - power) * b};
  });
}

void logisticLoss(const Parameters &parameters, const Rows &rows, std::span<Gradient> gradients,
                  Threads &threads) {
  auto positive = float(parameters.positiveWeight);
  eachRow(rows, gradients, threads, [positive](float output, float label) {
    float probability = logistic(output), weight = label == 1 ? positive : 1;
    return Gradient{(probability - label) * weight,
                    std::max(probability * (1 - probability), kLeastHessian) * weight};
  });
}

void softmaxOf(float *row, int64_t count) {
  float most = *std::max_element(row, row + count);
  if (most > -10) // as XGBoost rounds, so that trees are the same
    most = std::max(most, std::numeric_limits<float>::min());
  double sum = 0;
  for (int64_t at = 0; at < count; ++at)
    sum += row[at] = std::exp(row[at] - most);
  for (int64_t at = 0; at < count; ++at)
    row[at] = float(row[at] / float(sum));
}

void softmax(const Parameters &, const Rows &rows, std::span<Gradient> gradients,
             Threads &threads) {
  threads.ranges(rows.count, kGrain / 4, [&](int64_t begin, int64_t end, int) {
    std::vector<float> point(rows.channels);
    for (int64_t row = begin; row < end; ++row) {
      std::copy_n(rows.outputs.data() + row * rows.channels, rows.channels, point.begin());
      softmaxOf(point.data(), rows.channels);
      float weight = rows.weights.empty() ? 1 : rows.weights[row];
      for (int64_t channel = 0; channel < rows.channels; ++channel) {
        float probability = point[channel];
        float first = probability - (rows.labels[row] == float(channel) ? 1 : 0);
        gradients[row * rows.channels + channel] = {
            first * weight, std::max(2 * probability * (1 - probability) * weight, kLeastHessian)};
      }
    }
  });
}

void stays(float *, int64_t) {}
void toLogistic(float *row, int64_t count) {
  for (int64_t at = 0; at < count; ++at)
    row[at] = logistic(row[at]);
}
void toExponential(float *row, int64_t count) {
  for (int64_t at = 0; at < count; ++at)
    row[at] = std::exp(row[at]);
}

double same(double prediction) { return prediction; }
double logit(double prediction) {
  float share = std::min(std::max(float(prediction), 1e-6f), 1 - 1e-6f);
  return -std::log(1 / share - 1);
}
double logarithm(double prediction) { return std::log(std::max(prediction, 1e-16)); }

bool any(float) { return true; }
bool isNotNegative(float label) { return label >= 0; }
bool isShare(float label) { return label >= 0 && label <= 1; }
bool isClass(float label) { return label >= 0 && label == std::floor(label) && label < 1e6f; }
bool isGrade(float label) { return label >= 0 && label == std::floor(label) && label <= 31; }

double median(const Parameters &) { return 0.5; }
double ownQuantile(const Parameters &parameters) { return parameters.quantile; }

using Base = Objective::Base;
using Task = Objective::Task;

const Objective kTable[] = {
    {"squared", "reg:squarederror", "rmse", "squared error", "finite", any, squared, stays, same,
     nullptr, Base::Mean, Task::Regression},
    {"absolute", "reg:absoluteerror", "mae", "absolute error; leaves are medians", "finite", any,
     absolute, stays, same, median, Base::Quantile, Task::Regression},
    {"huber", "reg:pseudohubererror", "mphe", "pseudo-Huber error (huber_slope)", "finite", any,
     huber, stays, same, nullptr, Base::Newton, Task::Regression},
    {"quantile", "reg:quantileerror", "quantile", "pinball loss of a quantile", "finite", any,
     quantile, stays, same, ownQuantile, Base::Quantile, Task::Regression},
    {"poisson", "count:poisson", "poisson-nloglik", "counts; predicts the mean", "at least 0",
     isNotNegative, poisson, toExponential, logarithm, nullptr, Base::Mean, Task::Regression},
    {"tweedie", "reg:tweedie", "tweedie-nloglik", "Tweedie deviance (tweedie_power)", "at least 0",
     isNotNegative, tweedie, toExponential, logarithm, nullptr, Base::Mean, Task::Regression},
    {"logistic", "binary:logistic", "logloss", "two classes; predicts a probability", "from 0 to 1",
     isShare, logisticLoss, toLogistic, logit, nullptr, Base::Mean, Task::Binary},
    {"softmax", "multi:softprob", "mlogloss", "several classes; predicts probabilities",
     "whole numbers from 0 on", isClass, softmax, softmaxOf, same, nullptr, Base::Classes,
     Task::Classes},
    {"pairwise", "rank:pairwise", "ndcg", "ranking by pairs of a group",
     "whole grades from 0 to 31", isGrade, pairwise, stays, same, nullptr, Base::Zero,
     Task::Ranking},
    {"lambdamart", "rank:ndcg", "ndcg", "ranking by pairs, weighted by their change of NDCG",
     "whole grades from 0 to 31", isGrade, lambdaMart, stays, same, nullptr, Base::Zero,
     Task::Ranking},
    {"cox", "survival:cox", "cox-nloglik", "proportional hazards; negative labels are censored",
     "times, negative where they are censored", any, cox, toExponential, logarithm, nullptr,
     Base::Zero, Task::Survival},
};

} // namespace

std::span<const Objective> objectiveTable() { return kTable; }

const Objective *findObjective(const std::string &name) {
  for (const Objective &objective : kTable)
    if (name == objective.name || name == objective.xgboost ||
        (name == "multi:softmax" && objective.task == Task::Classes))
      return &objective;
  return nullptr;
}

Result<int64_t> channelsFor(const Objective &objective, const Parameters &parameters,
                            const Matrix &matrix) {
  if (objective.task != Task::Classes)
    return int64_t(1);
  float most = 0;
  for (float label : matrix.labels)
    most = std::max(most, label);
  int64_t classes = parameters.classes > 0 ? parameters.classes : int64_t(most) + 1;
  if (int64_t(most) >= classes)
    return invalidArgument(
        fmt::format("a label is {}, but there are {} classes, counted from 0; set classes to more",
                    most, classes));
  return std::max<int64_t>(classes, 2);
}

void transformOutputs(const Objective &objective, std::span<float> outputs, int64_t channels) {
  for (size_t row = 0; row * channels < outputs.size(); ++row)
    objective.transform(outputs.data() + row * channels, channels);
}

} // namespace tensmith::trees

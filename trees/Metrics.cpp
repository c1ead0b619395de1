// The table of metrics, and those that are sums over rows. Those over orders of rows are in
// RankMetrics.cpp.
#include "trees/Metrics.h"

#include "trees/RankMetrics.h"

#include <cmath>
#include <fmt/format.h>

namespace tensmith::trees {

namespace {

/// The weighted mean of loss(row, its predictions).
template <typename Loss> double mean(const Rows &rows, const Objective &objective, Loss loss) {
  std::vector<float> point(rows.channels);
  double sum = 0, weights = 0;
  for (int64_t row = 0; row < rows.count; ++row) {
    std::copy_n(rows.outputs.data() + row * rows.channels, rows.channels, point.begin());
    objective.transform(point.data(), rows.channels);
    double weight = rows.weights.empty() ? 1 : rows.weights[row];
    sum += weight * loss(double(rows.labels[row]), point.data());
    weights += weight;
  }
  return weights > 0 ? sum / weights : 0;
}

using O = const Objective &;
using P = const Parameters &;

double rmse(const Rows &rows, O objective, P, double) {
  return std::sqrt(mean(rows, objective, [](double label, const float *p) {
    return (p[0] - label) * (p[0] - label);
  }));
}

double mae(const Rows &rows, O objective, P, double) {
  return mean(rows, objective,
              [](double label, const float *p) { return std::fabs(p[0] - label); });
}

double pseudoHuber(const Rows &rows, O objective, P parameters, double) {
  double slope = parameters.huberSlope;
  return mean(rows, objective, [slope](double label, const float *p) {
    double ratio = (p[0] - label) / slope;
    return slope * slope * (std::sqrt(1 + ratio * ratio) - 1);
  });
}

double pinball(const Rows &rows, O objective, P parameters, double) {
  double share = parameters.quantile;
  return mean(rows, objective, [share](double label, const float *p) {
    double under = label - p[0];
    return under >= 0 ? share * under : (share - 1) * under;
  });
}

double logLoss(const Rows &rows, O objective, P, double) {
  return mean(rows, objective, [](double label, const float *p) {
    constexpr double kEps = 1e-16;
    return -label * std::log(std::max<double>(p[0], kEps)) -
           (1 - label) * std::log(std::max(1 - double(p[0]), kEps));
  });
}

double classLogLoss(const Rows &rows, O objective, P, double) {
  int64_t channels = rows.channels;
  return mean(rows, objective, [channels](double label, const float *p) {
    double share = label >= 0 && label < double(channels) ? p[int64_t(label)] : 0;
    return -std::log(std::max(share, 1e-16));
  });
}

double error(const Rows &rows, O objective, P, double argument) {
  double limit = argument > 0 ? argument : 0.5;
  return mean(rows, objective,
              [limit](double label, const float *p) { return p[0] > limit ? 1 - label : label; });
}

double classError(const Rows &rows, O objective, P, double) {
  int64_t channels = rows.channels;
  return mean(rows, objective, [channels](double label, const float *p) {
    return double(std::max_element(p, p + channels) - p) != label;
  });
}

double poisson(const Rows &rows, O objective, P, double) {
  return mean(rows, objective, [](double label, const float *p) {
    double rate = std::max<double>(p[0], 1e-16);
    return std::lgamma(label + 1) + rate - std::log(rate) * label;
  });
}

double tweedie(const Rows &rows, O objective, P parameters, double argument) {
  double power = argument > 1 ? argument : parameters.tweediePower;
  return mean(rows, objective, [power](double label, const float *p) {
    double rate = std::max<double>(p[0], 1e-16);
    double a = label * std::exp((1 - power) * std::log(rate)) / (1 - power);
    return -a + std::exp((2 - power) * std::log(rate)) / (2 - power);
  });
}

const Metric kTable[] = {
    {"rmse", "root of the mean squared error", false, rmse},
    {"mae", "mean absolute error", false, mae},
    {"mphe", "mean pseudo-Huber error", false, pseudoHuber},
    {"quantile", "mean pinball loss", false, pinball},
    {"logloss", "negative log likelihood of two classes", false, logLoss},
    {"mlogloss", "negative log likelihood of several classes", false, classLogLoss},
    {"error", "share of wrong classes of two; error@0.3: above that limit is class 1", false,
     error},
    {"merror", "share of wrong classes of several", false, classError},
    {"auc", "area under the ROC curve", true, areaUnderCurve},
    {"ndcg", "normalised discounted cumulative gain; ndcg@10: of the first ten", true, ndcg},
    {"map", "mean average precision; map@10: of the first ten", true, averagePrecision},
    {"poisson-nloglik", "negative log likelihood of counts", false, poisson},
    {"tweedie-nloglik", "negative log likelihood of Tweedie's distribution; tweedie-nloglik@1.3",
     false, tweedie},
    {"cox-nloglik", "negative partial log likelihood", false, coxLikelihood},
};

} // namespace

std::span<const Metric> metricTable() { return kTable; }

/// So that one that counts is a count.
constexpr double kMostArgument = double(int64_t(1) << 31);

Result<NamedMetric> findMetric(const std::string &name) {
  size_t at = name.find('@');
  std::string argument = at == std::string::npos ? "" : name.substr(at + 1);
  char *end = nullptr;
  double number = argument.empty() ? 0 : std::strtod(argument.c_str(), &end);
  bool isNumber = argument.empty() ? at == std::string::npos
                                   : *end == 0 && number > 0 && number <= kMostArgument;
  std::string names;
  for (const Metric &metric : kTable) {
    if (name.substr(0, at) == metric.name && isNumber)
      return NamedMetric{name, &metric, number};
    names += std::string(names.empty() ? "" : ", ") + metric.name;
  }
  return invalidArgument(
      fmt::format("there is no metric '{}'; one of {} is expected", name, names));
}

} // namespace tensmith::trees

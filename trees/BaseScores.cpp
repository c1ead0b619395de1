// Estimates of base scores, the same for any number of processes.
#include "trees/BaseScores.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace tensmith::trees {

Status roundTogether(std::span<Gradient> gradients, Threads &threads, Exchange *exchange) {
  GradientSum most = largest(gradients, threads);
  int64_t rows = int64_t(gradients.size());
  if (exchange) {
    std::vector<double> own{most.first, most.second, double(rows)}, all(3 * exchange->size());
    if (Status status = exchange->gather(own, all); !status.ok())
      return status;
    most = {}, rows = 0;
    for (int process = 0; process < exchange->size(); ++process) {
      most.first = std::max(most.first, all[3 * process]);
      most.second = std::max(most.second, all[3 * process + 1]);
      rows += int64_t(all[3 * process + 2]);
    }
  }
  roundToQuantum(gradients, rows, most, threads);
  return {};
}

Result<GradientSum> sumOfAll(std::vector<Gradient> &pairs, Threads &threads, Exchange *exchange) {
  if (Status status = roundTogether(pairs, threads, exchange); !status.ok())
    return status;
  GradientSum sum = sumOf(pairs, threads);
  if (exchange)
    if (Status status = exchange->sum({&sum.first, 2}); !status.ok())
      return status;
  return sum;
}

float weightedQuantile(std::vector<std::pair<float, float>> &values, double share,
                       bool isWeighted) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  if (!isWeighted) { // at rank share (n + 1), as XGBoost does
    double place = share * double(values.size() + 1);
    int64_t below = int64_t(std::floor(place)) - 1;
    if (below < 0)
      return values.front().first;
    if (below + 1 >= int64_t(values.size()))
      return values.back().first;
    double part = place - 1 - double(below);
    return float(values[below].first +
                 part * (double(values[below + 1].first) - values[below].first));
  }
  double total = 0, sum = 0;
  for (const auto &[value, weight] : values)
    total += weight;
  for (const auto &[value, weight] : values)
    if ((sum += weight) >= share * total)
      return value;
  return values.back().first;
}

namespace {

float weightOf(const Rows &rows, int64_t row) {
  return rows.weights.empty() ? 1 : rows.weights[row];
}

Result<double> meanLabel(const Rows &rows, Threads &threads, Exchange *exchange) {
  std::vector<Gradient> pairs(rows.count);
  for (int64_t row = 0; row < rows.count; ++row)
    pairs[row] = {rows.labels[row] * weightOf(rows, row), weightOf(rows, row)};
  Result<GradientSum> sum = sumOfAll(pairs, threads, exchange);
  if (!sum)
    return sum.status();
  return sum->second > 0 ? double(float(sum->first / sum->second)) : 0.;
}

Result<double> newtonStep(const Objective &objective, const Parameters &parameters, Rows rows,
                          Threads &threads, Exchange *exchange) {
  std::vector<float> zeros(rows.count, 0);
  rows.outputs = zeros;
  std::vector<Gradient> gradients(rows.count);
  objective.gradient(parameters, rows, gradients, threads);
  Result<GradientSum> sum = sumOfAll(gradients, threads, exchange);
  if (!sum)
    return sum.status();
  return double(float(-sum->first / std::max(sum->second, 1e-6)));
}

Result<std::vector<double>> classShares(const Rows &rows, Threads &threads, Exchange *exchange) {
  std::vector<double> scores(rows.channels);
  std::vector<Gradient> pairs(rows.count);
  double mean = 0;
  for (int64_t channel = 0; channel < rows.channels; ++channel) {
    for (int64_t row = 0; row < rows.count; ++row) {
      float weight = weightOf(rows, row);
      pairs[row] = {rows.labels[row] == float(channel) ? weight : 0, weight};
    }
    Result<GradientSum> sum = sumOfAll(pairs, threads, exchange);
    if (!sum)
      return sum.status();
    float share = sum->second > 0 ? float(sum->first) / float(sum->second) : 0;
    scores[channel] = std::log(std::max(share, 1e-6f));
    mean += scores[channel] / double(rows.channels);
  }
  for (double &score : scores)
    score = double(float(score) - float(mean));
  return scores;
}

} // namespace

Result<std::vector<double>> baseScores(const Objective &objective, const Parameters &parameters,
                                       const Rows &rows, Threads &threads, Exchange *exchange) {
  using Base = Objective::Base;
  std::vector<double> scores(rows.channels, 0);
  if (parameters.baseScore) {
    double wanted = *parameters.baseScore;
    auto output = float(objective.inverse(wanted)), prediction = output;
    objective.transform(&prediction, 1);
    bool isPossible = std::fabs(prediction - wanted) <= 1e-3 * (1 + std::fabs(wanted));
    if (!isPossible && objective.task != Objective::Task::Classes) // whose base is an output
      return invalidArgument(fmt::format("base_score is {}, which objective {} never predicts",
                                         wanted, objective.name));
    std::fill(scores.begin(), scores.end(), double(output));
    return scores;
  }
  if (objective.base == Base::Classes)
    return classShares(rows, threads, exchange);
  if (objective.base == Base::Quantile) {
    std::vector<std::pair<float, float>> labels;
    for (int64_t row = 0; row < rows.count; ++row)
      labels.emplace_back(rows.labels[row], weightOf(rows, row));
    scores[0] = weightedQuantile(labels, objective.leafQuantile(parameters), !rows.weights.empty());
  }
  // The mean label knows nothing of the weight of one class.
  bool isMean = objective.base == Base::Mean &&
                (objective.task != Objective::Task::Binary || parameters.positiveWeight == 1);
  if (objective.base == Base::Mean || objective.base == Base::Newton) {
    Result<double> score = isMean ? meanLabel(rows, threads, exchange)
                                  : newtonStep(objective, parameters, rows, threads, exchange);
    if (!score)
      return score.status();
    scores[0] = isMean ? double(float(objective.inverse(*score))) : *score;
  }
  return scores;
}

} // namespace tensmith::trees

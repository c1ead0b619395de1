// Metrics over sorted rows.
#include "trees/RankMetrics.h"

#include "trees/ListwiseObjectives.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tensmith::trees {

namespace {

/// sum(value(begin, end)) over the groups, by their weights; one group where there are none.
template <typename Value> double meanOfGroups(const Rows &rows, Value value) {
  if (rows.groups.empty())
    return rows.count > 0 ? value(0, rows.count) : 0;
  double sum = 0, weights = 0;
  int64_t begin = 0;
  for (int64_t group : rows.groups) {
    double weight = rows.weights.empty() || group == 0 ? 1 : rows.weights[begin];
    if (group > 0)
      sum += weight * value(begin, begin + group);
    weights += group > 0 ? weight : 0;
    begin += group;
  }
  return weights > 0 ? sum / weights : 0;
}

/// Of one channel against all others, for rows with several.
double areaOf(const Rows &rows, int64_t channel) {
  std::vector<uint32_t> order(rows.count);
  std::iota(order.begin(), order.end(), 0u);
  auto output = [&](uint32_t row) { return rows.outputs[row * rows.channels + channel]; };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return output(a) != output(b) ? output(a) > output(b) : a < b;
  });
  double area = 0, positives = 0, negatives = 0;
  for (size_t at = 0; at < order.size();) {
    double tiedPositives = 0, tiedNegatives = 0;
    size_t next = at;
    for (; next < order.size() && output(order[next]) == output(order[at]); ++next) {
      uint32_t row = order[next];
      double weight = rows.weights.empty() ? 1 : rows.weights[row];
      double share = rows.channels > 1 ? rows.labels[row] == float(channel)
                                       : std::clamp(rows.labels[row], 0.f, 1.f);
      tiedPositives += weight * share;
      tiedNegatives += weight * (1 - share);
    }
    area += tiedNegatives * (positives + tiedPositives / 2);
    positives += tiedPositives, negatives += tiedNegatives;
    at = next;
  }
  return positives > 0 && negatives > 0 ? area / (positives * negatives) : 0.5;
}

} // namespace

double areaUnderCurve(const Rows &rows, const Objective &, const Parameters &, double) {
  double sum = 0;
  for (int64_t channel = 0; channel < rows.channels; ++channel)
    sum += areaOf(rows, channel);
  return sum / double(rows.channels);
}

double ndcg(const Rows &rows, const Objective &, const Parameters &, double first) {
  return meanOfGroups(rows, [&](int64_t begin, int64_t end) {
    int64_t count = first > 0 ? std::min(int64_t(first), end - begin) : end - begin;
    std::vector<uint32_t> order = orderByOutput(rows, begin, end);
    std::vector<float> ideal(rows.labels.begin() + begin, rows.labels.begin() + end);
    std::sort(ideal.begin(), ideal.end(), std::greater<>());
    double gain = 0, most = 0;
    for (int64_t rank = 0; rank < count; ++rank) {
      double discount = 1 / std::log2(double(rank) + 2);
      gain += (std::exp2(double(rows.labels[order[rank]])) - 1) * discount;
      most += (std::exp2(double(ideal[rank])) - 1) * discount;
    }
    return most > 0 ? gain / most : 1;
  });
}

double averagePrecision(const Rows &rows, const Objective &, const Parameters &, double first) {
  return meanOfGroups(rows, [&](int64_t begin, int64_t end) {
    int64_t count = first > 0 ? std::min(int64_t(first), end - begin) : end - begin;
    std::vector<uint32_t> order = orderByOutput(rows, begin, end);
    double hits = 0, sum = 0;
    for (int64_t rank = 0; rank < count; ++rank)
      if (rows.labels[order[rank]] > 0)
        sum += ++hits / double(rank + 1);
    double relevant = 0;
    for (int64_t row = begin; row < end; ++row)
      relevant += rows.labels[row] > 0;
    relevant = std::min(relevant, double(count));
    return relevant > 0 ? sum / relevant : 1;
  });
}

double coxLikelihood(const Rows &rows, const Objective &, const Parameters &, double) {
  std::vector<uint32_t> order = orderByTime(rows.labels);
  double atRisk = 0, left = 0, lastTime = 0, sum = 0, events = 0;
  for (uint32_t row : order)
    atRisk += std::exp(double(rows.outputs[row]));
  for (uint32_t row : order) {
    double time = std::fabs(rows.labels[row]);
    if (lastTime < time) {
      atRisk = std::max(atRisk - left, 1e-300);
      left = 0;
    }
    if (rows.labels[row] > 0) {
      sum -= rows.outputs[row] - std::log(atRisk);
      ++events;
    }
    left += std::exp(double(rows.outputs[row]));
    lastTime = time;
  }
  return events > 0 ? sum / events : 0;
}

} // namespace tensmith::trees

// Derivatives over pairs of a group, and over the rows at risk.
#include "trees/ListwiseObjectives.h"

#include "trees/Threads.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tensmith::trees {

std::vector<uint32_t> orderByTime(std::span<const float> labels) {
  std::vector<uint32_t> order(labels.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::fabs(labels[a]) < std::fabs(labels[b]);
  });
  return order;
}

std::vector<uint32_t> orderByOutput(const Rows &rows, int64_t begin, int64_t end) {
  std::vector<uint32_t> order(end - begin);
  std::iota(order.begin(), order.end(), uint32_t(begin));
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return rows.outputs[a] > rows.outputs[b]; });
  return order;
}

namespace {

double gainOf(float grade) { return std::exp2(double(grade)) - 1; }
double discountAt(int64_t rank) { return 1 / std::log2(double(rank) + 2); }

double idealGain(const Rows &rows, int64_t begin, int64_t end) {
  std::vector<float> grades(rows.labels.begin() + begin, rows.labels.begin() + end);
  std::sort(grades.begin(), grades.end(), std::greater<>());
  double sum = 0;
  for (size_t rank = 0; rank < grades.size(); ++rank)
    sum += gainOf(grades[rank]) * discountAt(int64_t(rank));
  return sum;
}

struct Sums {
  double first = 0, second = 0;
};

/// `change(high, low)`: the weight of a pair, by ranks.
template <typename Change>
double addPairs(const Rows &rows, const std::vector<uint32_t> &order, int64_t first,
                std::vector<Sums> &sums, Change change) {
  double total = 0;
  int64_t count = int64_t(order.size());
  float spread = rows.outputs[order.front()] - rows.outputs[order.back()];
  for (int64_t i = 0; i < std::min(first, count); ++i)
    for (int64_t j = i + 1; j < count; ++j) {
      bool isOrdered = rows.labels[order[i]] > rows.labels[order[j]];
      if (rows.labels[order[i]] == rows.labels[order[j]])
        continue;
      int64_t high = isOrdered ? i : j, low = isOrdered ? j : i;
      double apart = double(rows.outputs[order[high]]) - rows.outputs[order[low]];
      double probability = 1 / (1 + std::exp(-apart));
      double weight = change(high, low);
      if (spread != 0)
        weight /= std::fabs(apart) + 0.01;
      double lambda = (probability - 1) * weight;
      double hessian = std::max(probability * (1 - probability), 1e-16) * weight * 2;
      sums[high].first += lambda, sums[high].second += hessian;
      sums[low].first -= lambda, sums[low].second += hessian;
      total -= 2 * lambda;
    }
  return total;
}

template <bool Ndcg>
void rankGroup(const Parameters &parameters, const Rows &rows, int64_t begin, int64_t end,
               std::span<Gradient> gradients) {
  std::fill(gradients.begin() + begin, gradients.begin() + end, Gradient());
  if (end - begin < 2)
    return;
  std::vector<uint32_t> order = orderByOutput(rows, begin, end);
  std::vector<Sums> sums(order.size());
  double ideal = Ndcg ? idealGain(rows, begin, end) : 1;
  int64_t first = parameters.rankingPairs > 0 ? parameters.rankingPairs : end - begin;
  double total = addPairs(rows, order, first, sums, [&](int64_t high, int64_t low) {
    if (!Ndcg)
      return 1.;
    double gains = gainOf(rows.labels[order[high]]) - gainOf(rows.labels[order[low]]);
    return ideal > 0 ? std::fabs(gains * (discountAt(high) - discountAt(low))) / ideal : 0.;
  });
  double norm = total > 0 ? std::log2(1 + total) / total : 1;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    double weight = rows.weights.empty() ? norm : norm * rows.weights[order[rank]];
    gradients[order[rank]] = {float(sums[rank].first * weight), float(sums[rank].second * weight)};
  }
}

template <bool Ndcg>
void rank(const Parameters &parameters, const Rows &rows, std::span<Gradient> gradients,
          Threads &threads) {
  std::vector<int64_t> begin(rows.groups.size() + 1, 0);
  std::partial_sum(rows.groups.begin(), rows.groups.end(), begin.begin() + 1);
  threads.parts(int64_t(rows.groups.size()), [&](int64_t group, int) {
    rankGroup<Ndcg>(parameters, rows, begin[group], begin[group + 1], gradients);
  });
}

} // namespace

void pairwise(const Parameters &parameters, const Rows &rows, std::span<Gradient> gradients,
              Threads &threads) {
  rank<false>(parameters, rows, gradients, threads);
}

void lambdaMart(const Parameters &parameters, const Rows &rows, std::span<Gradient> gradients,
                Threads &threads) {
  rank<true>(parameters, rows, gradients, threads);
}

/// Rows of equal time are at risk together, and each of them sees all events of that time.
void cox(const Parameters &, const Rows &rows, std::span<Gradient> gradients, Threads &) {
  std::vector<uint32_t> order = orderByTime(rows.labels);
  double atRisk = 0, inverse = 0, inverseSquare = 0;
  for (uint32_t row : order)
    atRisk += std::exp(double(rows.outputs[row]));
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    double leaves = 0;
    float time = std::fabs(rows.labels[order[begin]]);
    for (; end < order.size() && std::fabs(rows.labels[order[end]]) == time; ++end) {
      leaves += std::exp(double(rows.outputs[order[end]]));
      if (rows.labels[order[end]] > 0) {
        inverse += 1 / atRisk;
        inverseSquare += 1 / (atRisk * atRisk);
      }
    }
    for (size_t at = begin; at < end; ++at) {
      uint32_t row = order[at];
      double hazard = std::exp(double(rows.outputs[row]));
      double first = hazard * inverse - (rows.labels[row] > 0);
      double second = std::max(hazard * inverse - hazard * hazard * inverseSquare, 0.);
      double weight = rows.weights.empty() ? 1 : rows.weights[row];
      gradients[row] = {float(first * weight), float(second * weight)};
    }
    atRisk = std::max(atRisk - leaves, 1e-300);
  }
}

} // namespace tensmith::trees

// Structures are compared, winners moved, and histories learnt from; see Precedents.h.
#include "tune/Precedents.h"

#include "tune/Challenge.h"
#include "tune/search/Search.h"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace tensmith::tune {
namespace {

/// "matmul 40x48:f32" as the sizes 40 and 48, and "matmul #x#:f32".
struct Shape {
  std::string rest;
  std::vector<double> sizes;
};

/// Digits after a letter are part of a name ("f32"), unless the letter stands between two sizes.
bool beginsSize(const std::string &text, size_t place) {
  return place == 0 || !std::isalpha(uint8_t(text[place - 1])) ||
         (text[place - 1] == 'x' && place > 1 && std::isdigit(uint8_t(text[place - 2])));
}

Shape shapeOf(const std::string &structure) {
  Shape shape;
  for (size_t i = 0; i < structure.size();) {
    size_t end = i;
    while (end < structure.size() && std::isdigit(uint8_t(structure[end])))
      ++end;
    if (end == i || !beginsSize(structure, i)) {
      end = std::max(end, i + 1);
      shape.rest += structure.substr(i, end - i);
    } else {
      shape.sizes.push_back(std::strtod(structure.substr(i, end - i).c_str(), nullptr));
      shape.rest += '#';
    }
    i = end;
  }
  return shape;
}

} // namespace

std::optional<double> distanceOf(const std::string &structure, const std::string &other) {
  Shape a = shapeOf(structure), b = shapeOf(other);
  if (a.rest != b.rest)
    return std::nullopt;
  double distance = 0;
  for (size_t i = 0; i < a.sizes.size(); ++i)
    distance += std::abs(std::log2((1 + a.sizes[i]) / (1 + b.sizes[i])));
  return distance;
}

std::vector<Configuration> nearestPoints(const TunableKernel &kernel, const Database &database,
                                         size_t most) {
  std::vector<std::pair<double, std::string>> near;
  for (const TunedKernel &other : database.kernels()) {
    if (!other.winner || other.name.machine != kernel.name.machine ||
        other.name.key == kernel.name.key)
      continue;
    if (auto distance = distanceOf(kernel.name.structure, other.name.structure))
      near.emplace_back(*distance, other.winner->choices);
  }
  std::ranges::stable_sort(near, {}, &std::pair<double, std::string>::first);
  std::vector<Configuration> points;
  for (const auto &[distance, choices] : near) {
    Configuration point = kernel.space.nearest(choices);
    if (points.size() < most && !point.empty() && std::ranges::find(points, point) == points.end())
      points.push_back(std::move(point));
  }
  return points;
}

std::optional<History> historyOf(const KernelName &kernel, const Database &database,
                                 const std::string &compiler, uint64_t seed) {
  constexpr size_t kFewest = 24, kMostOfKernel = 256, kMost = 8192;
  std::vector<Features> rows;
  std::vector<double> seconds;
  std::vector<int64_t> groups;
  for (const TunedKernel &other : database.kernels()) {
    if (other.name.machine != kernel.machine || other.name.key == kernel.key || rows.size() > kMost)
      continue;
    int64_t count = 0;
    for (const Trial &trial : database.trials(other.name.machine, other.name.key)) {
      bool isOfUse = trial.compiler == compiler && !trial.features.empty() &&
                     (rows.empty() || trial.features.size() == rows.front().size());
      if (!isOfUse || size_t(count) == kMostOfKernel)
        continue;
      rows.push_back(trial.features);
      seconds.push_back(trial.outcome == "timed" && !trial.seconds.empty() ? medianOf(trial.seconds)
                                                                           : kFailed);
      ++count;
    }
    if (count > 0)
      groups.push_back(count);
  }
  if (rows.size() < kFewest)
    return std::nullopt;
  History history{treesModel(Loss::Rank, seed), rows.front().size()};
  history.model->fit(rows, seconds, groups);
  return history;
}

std::vector<Configuration> likeliest(const TunableKernel &kernel, const History &history,
                                     Bench &bench, Random &random, size_t count) {
  constexpr size_t kDrawn = 6; // for each that is wanted
  std::vector<Configuration> drawn;
  std::vector<Features> rows;
  for (size_t i = 0; i < kDrawn * count; ++i) {
    Configuration point = kernel.space.random(random);
    Features features = bench.features(kernel.name.key, kernel.space.text(point));
    if (features.size() != history.length)
      continue;
    drawn.push_back(std::move(point));
    rows.push_back(std::move(features));
  }
  std::vector<Prediction> scores = history.model->predict(rows);
  std::vector<size_t> order(drawn.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return scores[i].score; });
  std::vector<Configuration> best;
  for (size_t i : order)
    if (best.size() < count && std::ranges::find(best, drawn[i]) == best.end())
      best.push_back(drawn[i]);
  return best;
}

} // namespace tensmith::tune

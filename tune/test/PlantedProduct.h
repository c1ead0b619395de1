// The factorisations of a product's loops (Zhang et al., 2019): rows and columns in four parts, the
// sum in two, with planted times, so that the best is known.
#pragma once

#include "tune/search/Search.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tensmith::tune {

inline Json factorChoice(const char *name, int64_t size, size_t parts) {
  Json values = Json::array();
  for (const Factors &each : factorisations(size, parts))
    values.push_back(numberOf(each));
  return {{"choice", name}, {"values", values}, {"factors", {{"of", size}, {"parts", parts}}}};
}

inline SearchSpace productSpace(int64_t size) {
  return SearchSpace::fromJson(
      Json::array({factorChoice("row_factors", size, 4), factorChoice("lane_factors", size, 4),
                   factorChoice("depth_factors", size, 2)}),
      "a product");
}

/// Of a product of 512 x 512 x 512: a register tile of 8 x 64, blocks of 64 x 256, and sums of 128
/// at a time are best; what is too large costs more than what is too small, and rows pay for lanes.
inline double plantedProductSeconds(const SearchSpace &space, const Configuration &point) {
  auto factors = [&](size_t place) -> const Factors & {
    return space.dimensions()[place].factors[size_t(point[place])];
  };
  const Factors &rows = factors(0), &lanes = factors(1), &depth = factors(2);
  auto away = [](double value, double best) {
    double distance = std::log2(value / best);
    return distance > 0 ? 0.5 * distance : -0.2 * distance;
  };
  double tile = double(rows[3] * lanes[3]), block = double(rows[2] * rows[3] * lanes[2] * lanes[3]);
  return 1 + away(double(rows[3]), 8) + away(double(lanes[3]), 64) + away(tile, 512) +
         away(block, 64 * 256) + away(double(rows[2]), 8) + away(double(depth[1]), 128) +
         0.1 * std::abs(std::log2(double(rows[1]) / 4)) +
         0.1 * std::abs(std::log2(double(lanes[1])));
}

/// Of so many trials the best, from the state that cuts nothing, as published.
inline double bestPlantedProduct(std::string_view name, uint64_t seed, int64_t budget) {
  SearchSpace space = productSpace(512);
  auto search = makeSearch(name, space, seed, {constantModel()});
  double best = kFailed;
  for (int64_t trials = 0; trials < budget;) {
    std::vector<Observation> news;
    if (trials == 0) // as published: nothing is cut
      news.push_back({space.at(0), plantedProductSeconds(space, space.at(0))});
    for (const Configuration &point : search->propose(16))
      news.push_back({point, plantedProductSeconds(space, point)});
    for (const Observation &each : news)
      best = std::min(best, each.seconds);
    trials += int64_t(news.size());
    search->observe(news);
  }
  return best;
}

} // namespace tensmith::tune

// Spaces with known times, for searches that are tested without a machine.
#pragma once

#include "tune/SearchSpace.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace tensmith::tune {

/// 16 x 2 x 4 x 6 x 5 points, and a choice of 3 where the second one has its second value.
inline SearchSpace plantedSpace() {
  return SearchSpace::fromJson(Json::parse(R"json([
        {"choice": "tile_rows", "values": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]},
        {"choice": "panel_vectors", "values": [1, 2]},
        {"choice": "steps", "values": [1, 2, 4, 8]},
        {"choice": "item_tiles", "values": [1, 2, 4, 8, 16, 32]},
        {"choice": "grain", "values": [1, 4, 16, 32, 64]},
        {"choice": "lines_ahead", "values": [0, 4, 16], "where": {"panel_vectors": [2]}}])json"),
                               "planted");
}

/// Seconds: accumulators must fit registers, steps help, items are best in the middle; the best
/// point is 6 rows of 2 vectors, 4 steps, 8 tiles.
inline double plantedSeconds(const Configuration &point) {
  double rows = point[0] + 1, vectors = point[1] + 1, steps = point[2], tiles = point[3],
         grain = point[4];
  double registers = rows * vectors + vectors + 1;
  double compute = 1 + 3 / (rows * vectors) + (registers > 15 ? 0.15 * (registers - 15) : 0);
  double loop = 0.05 * std::abs(steps - 2), items = 0.08 * std::abs(tiles - 3),
         threads = 0.02 * std::abs(grain - 1);
  double ahead = point[5] == kAbsent ? 0.05 : 0.02 * std::abs(point[5] - 1);
  return 1e-5 * (compute + loop + items + threads + ahead);
}

inline double bestPlanted(const SearchSpace &space) {
  double best = INFINITY;
  for (uint64_t i = 0; i < space.size(); ++i)
    best = std::min(best, plantedSeconds(space.at(i)));
  return best;
}

} // namespace tensmith::tune

// Tables of times: that they are read as they were written, and that replays find what they have.
#include "tune/test/TruthTable.h"
#include "tune/test/PlantedSpaces.h"

#include "files/Failure.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace tensmith;
using namespace tensmith::tune;

namespace {

TruthTable planted() {
  SearchSpace space = plantedSpace();
  std::vector<double> times;
  for (uint64_t number = 0; number < space.size(); ++number)
    times.push_back(plantedSeconds(space.at(number)));
  return {space, times};
}

} // namespace

// Fails where a point's number is another one's, with absent choices or without.
TEST(TruthTable, EachPointHasItsTime) {
  TruthTable table = planted();
  for (uint64_t number = 0; number < table.space().size(); number += 7) {
    Configuration point = table.space().at(number);
    EXPECT_EQ(table.time(point), plantedSeconds(point));
  }
}

// Fails where turns are not taken as ratios, or a failed point as a fast one.
TEST(TruthTable, ReadsTurnsAndFailures) {
  std::stringstream text(R"json({"choices": [{"choice": "steps", "values": [1, 2, 4]}]}
[2e-3, 1e-3, 6e-3, 2e-3, 2e-3, 1e-3]
[]
[1e-3, 2e-3])json");
  TruthTable table = TruthTable::read(text, "table");
  EXPECT_DOUBLE_EQ(table.time({0}), 2);
  EXPECT_EQ(table.time({1}), kFailed);
  EXPECT_DOUBLE_EQ(table.best(), 0.5);
  EXPECT_EQ(table.failures(), 1);
  std::stringstream less(R"json({"choices": [{"choice": "steps", "values": [1, 2, 4]}]}
[1e-3, 2e-3])json");
  EXPECT_THROW(TruthTable::read(less, "table"), Failure);
}

// Fails where a part of a space is not one: a value more, or a choice that waits for one that is
// gone.
TEST(TruthTable, PartsOfSpaces) {
  Json choices = Json::parse(R"json([{"choice": "panel_vectors", "values": [1, 2]},
    {"choice": "steps", "values": [1, 2, 4, 8]},
    {"choice": "lines_ahead", "values": [0, 4, 16], "where": {"panel_vectors": [2]}}])json");
  auto pointsOf = [&](const char *kept) {
    return SearchSpace::fromJson(subSpace(choices, Json::parse(kept), "kernel"), "kernel").size();
  };
  EXPECT_EQ(pointsOf(R"({"steps": [1, 8], "lines_ahead": null})"), 6u);
  EXPECT_EQ(pointsOf(R"({"panel_vectors": null, "lines_ahead": null})"), 4u);
  EXPECT_THROW(pointsOf(R"({"steps": [3]})"), Failure);
  EXPECT_THROW(pointsOf(R"({"rows": null})"), Failure);
}

// Fails where a search is told other times than the table's, or learns from permuted ones.
TEST(TruthTable, TheAdvantageOfAModelGoesWithItsLabels) {
  TruthTable table = planted();
  auto trials = [&](bool permutes) {
    double sum = 0;
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      auto search = makeSearch("annealing", table.space(), seed, {treesModel(Loss::Rank, seed, 1)});
      sum += double(
          trialsToBest(*search, table, permutes ? table.permuted(seed) : table, 0.05, 600, 16));
    }
    return sum / 5;
  };
  EXPECT_LT(2 * trials(false), trials(true));
}

// Searches over the factorisations of a product of 512 x 512 x 512: rows and columns in four parts,
// the sum in two (Zhang et al., 2019). Times are planted, so that the best is known.
#include "tune/search/Search.h"
#include "tune/test/PlantedProduct.h"

#include "files/Failure.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>

using namespace tensmith;
using namespace tensmith::tune;

namespace {

double medianWithin(std::string_view name, int64_t budget) {
  std::vector<double> found;
  for (uint64_t seed = 1; seed <= 5; ++seed)
    found.push_back(bestPlantedProduct(name, seed, budget));
  std::ranges::sort(found);
  return found[2];
}

} // namespace

// Fails where a state has no place in the space, or one more.
TEST(FactorSearch, StatesAreThePublishedOnes) {
  EXPECT_EQ(productSpace(512).size(), 484'000u);
  EXPECT_EQ(productSpace(1024).size(), 899'756u);
  EXPECT_EQ(productSpace(2048).size(), 1'589'952u);
}

// Fails where a move is not that of one prime factor.
TEST(FactorSearch, NeighboursMoveAFactorOfTwo) {
  SearchSpace space = productSpace(512);
  Random random(3);
  for (int i = 0; i < 50; ++i) {
    Configuration point = space.random(random);
    std::vector<Configuration> near = space.neighbours(point);
    EXPECT_LE(near.size(), 26u);
    EXPECT_EQ(std::set(near.begin(), near.end()).size(), near.size());
    for (const Configuration &other : near) {
      EXPECT_TRUE(space.contains(other));
      double moved = 0;
      std::vector<double> a = space.knobs(point), b = space.knobs(other);
      for (size_t knob = 0; knob < a.size(); ++knob)
        moved += std::abs(a[knob] - b[knob]);
      EXPECT_DOUBLE_EQ(moved, 2); // out of one part, into another
    }
  }
  EXPECT_EQ(space.knobs(space.at(0)).size(), 10u);
}

// Fails where moves or what is learnt lead nowhere: a thousandth of the space is measured.
TEST(FactorSearch, FindNearlyTheBestInAThousandthOfTheSpace) {
  SearchSpace space = productSpace(512);
  double best = kFailed;
  for (uint64_t number = 0; number < space.size(); ++number)
    best = std::min(best, plantedProductSeconds(space, space.at(number)));
  double drawn = medianWithin("random", 484);
  for (const char *name : {"greedy", "actor-critic"}) {
    double found = medianWithin(name, 484);
    EXPECT_LE(found, 1.10 * best) << name;
    EXPECT_LT(found, drawn) << name;
  }
}

// Fails where numbers that aren't the size's are taken for values.
TEST(FactorSearch, RefusesValuesOfAnotherSize) {
  Json choice = factorChoice("row_factors", 512, 4);
  choice["factors"]["of"] = 500;
  EXPECT_THROW(SearchSpace::fromJson(Json::array({choice}), "a product"), Failure);
}

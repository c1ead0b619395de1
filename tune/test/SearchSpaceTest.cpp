// Spaces: numbering, conditions, moves and texts.
#include "files/Failure.h"
#include "tune/test/PlantedSpaces.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>

using namespace tensmith::tune;

TEST(SearchSpace, NumbersEachPointOnce) {
  SearchSpace space = plantedSpace();
  ASSERT_EQ(space.size(), 16u * 4 * 6 * 5 * (1 + 3));
  std::set<Configuration> all;
  for (uint64_t i = 0; i < space.size(); ++i) {
    Configuration point = space.at(i);
    ASSERT_TRUE(space.contains(point));
    ASSERT_EQ(point[5] != kAbsent, point[1] == 1);
    all.insert(point);
  }
  EXPECT_EQ(all.size(), space.size());
}

// Moves that left the space would have the compiler asked for choices that it doesn't have.
TEST(SearchSpace, MovesStayInside) {
  SearchSpace space = plantedSpace();
  Random random(3);
  for (int i = 0; i < 500; ++i) {
    Configuration a = space.random(random), b = space.random(random);
    for (const Configuration &near : space.neighbours(a)) {
      EXPECT_TRUE(space.contains(near));
      EXPECT_NE(near, a);
    }
    EXPECT_TRUE(space.contains(space.mutated(a, random)));
    EXPECT_NE(space.mutated(a, random), a);
    const Configuration *parents[] = {&a, &b};
    EXPECT_TRUE(space.contains(space.crossover(parents, random)));
  }
}

TEST(SearchSpace, TextsAreThoseOfScheduleFiles) {
  SearchSpace space = plantedSpace();
  Random random(4);
  EXPECT_EQ(space.text(space.at(0)),
            R"("grain":1,"item_tiles":1,"panel_vectors":1,"steps":1,"tile_rows":1)");
  for (int i = 0; i < 200; ++i) {
    Configuration point = space.random(random);
    EXPECT_EQ(space.parse(space.text(point)), point);
  }
  EXPECT_TRUE(space.parse(R"("tile_rows":17)").empty());
  EXPECT_TRUE(space.parse(R"("rows":1)").empty());
}

TEST(SearchSpace, RefusesADependenceOnNothing) {
  Json choices = Json::parse(R"([{"choice": "a", "values": [1], "where": {"b": [1]}}])");
  EXPECT_THROW(SearchSpace::fromJson(choices, "kernel"), tensmith::Failure);
}

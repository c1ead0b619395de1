// That the recurrent controller learns which values pay, each by those that it said before.
#include "tune/model/Controller.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace tensmith::tune;

namespace {

/// The second choice pays where it is the first one's value; a third exists for one value alone.
SearchSpace dependentSpace() {
  return SearchSpace::fromJson(Json::parse(R"json([
        {"choice": "tile_rows", "values": [1, 2]},
        {"choice": "steps", "values": [1, 2, 4]},
        {"choice": "lines_ahead", "values": [0, 4], "where": {"tile_rows": [2]}}])json"),
                               "planted");
}

double shareOfMatches(Controller &controller, Random &random) {
  constexpr int kDraws = 200;
  int matches = 0;
  for (int i = 0; i < kDraws; ++i) {
    Configuration point = controller.draw(random);
    matches += point[0] == point[1];
  }
  return double(matches) / kDraws;
}

} // namespace

// Fails where the gradient has the wrong sign, or a choice doesn't see what was said before it.
TEST(Controller, LearnsValuesThatPayByWhatWasSaid) {
  SearchSpace space = dependentSpace();
  auto controller = Controller::of(space);
  Random random(1);
  double before = shareOfMatches(*controller, random);
  for (int update = 0; update < 300; ++update) {
    std::vector<Controller::Step> steps;
    while (steps.size() < Controller::kBatch) {
      Configuration point = space.random(random);
      steps.push_back({point, point[0] == point[1] ? 1.0 : -0.5});
    }
    controller->learn(steps);
  }
  EXPECT_LT(before, 0.6);
  EXPECT_GT(shareOfMatches(*controller, random), 0.8);
}

// Fails where a choice is said that its condition rules out, or one is left out.
TEST(Controller, SaysWholePoints) {
  SearchSpace space = dependentSpace();
  auto controller = Controller::of(space);
  Random random(2);
  for (int i = 0; i < 50; ++i)
    EXPECT_TRUE(space.contains(controller->draw(random)));
}

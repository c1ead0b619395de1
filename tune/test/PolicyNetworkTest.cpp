// That the actor learns which of its moves pays, and the critic what a state is worth.
#include "tune/model/PolicyNetwork.h"

#include <gtest/gtest.h>

using namespace tensmith::tune;

// Fails where the gradient has the wrong sign, or states are not those that judge.
TEST(PolicyNetwork, LearnsTheMoveThatPaysInEachState) {
  auto network = PolicyNetwork::of(2, 3);
  Random random(1);
  const std::vector<bool> all(3, true);
  auto worth = [](const Features &state, size_t move) {
    return move == (state[0] > 0 ? 2U : 0U) ? 1.0 : 0.0;
  };
  for (int update = 0; update < 150; ++update) {
    std::vector<PolicyNetwork::Step> steps;
    while (steps.size() < PolicyNetwork::kBatch) {
      Features state = {random.below(2) ? 1.0 : -1.0, 0.5};
      size_t move = random.below(3);
      double reached = worth(state, move);
      steps.push_back({state, all, move, reached - network->judge(state, all).value, reached});
    }
    network->learn(steps);
  }
  auto high = network->judge({1, 0.5}, all), low = network->judge({-1, 0.5}, all);
  EXPECT_GT(high.probabilities[2], 0.7);
  EXPECT_GT(low.probabilities[0], 0.7);
  EXPECT_NEAR(high.value, 1.0 / 3, 0.2); // moves were drawn uniformly
}

// Fails where a move is taken that a state doesn't have.
TEST(PolicyNetwork, RefusedMovesHaveNoProbability) {
  auto network = PolicyNetwork::of(2, 3);
  auto judged = network->judge({0.3, -0.2}, {true, false, true});
  EXPECT_EQ(judged.probabilities[1], 0);
  EXPECT_NEAR(judged.probabilities[0] + judged.probabilities[2], 1, 1e-5);
}

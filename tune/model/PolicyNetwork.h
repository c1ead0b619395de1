// An actor and a critic over the moves of a space: which move a search should take from a state,
// and what states are worth from there on. Both are one network of two dense layers, a program of
// the language that is compiled, differentiated and trained by Tensmith itself.
//
// Method: advantage actor-critic (Mnih et al., Asynchronous Methods for Deep Reinforcement
// Learning, 2016), as Zhang et al., 2019, use it for tile sizes.
#pragma once

#include "tune/model/CostModel.h"

namespace tensmith::tune {

class PolicyNetwork {
public:
  /// Steps of one update.
  static constexpr size_t kBatch = 32;

  /// For states of so many features, between so many moves.
  static std::unique_ptr<PolicyNetwork> of(size_t features, size_t moves);
  virtual ~PolicyNetwork() = default;

  struct Judgement {
    std::vector<double> probabilities; // by move; 0 of those that aren't allowed
    double value;                      // of the state
  };
  virtual Judgement judge(const Features &state, const std::vector<bool> &allowed) const = 0;

  struct Step {
    Features state;
    std::vector<bool> allowed;
    size_t move;
    double advantage; // of the move over what was expected of the state
    double reached;   // what the state turned out to be worth
  };
  /// One update by kBatch steps.
  virtual void learn(std::span<const Step> steps) = 0;
};

} // namespace tensmith::tune

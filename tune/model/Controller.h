// A recurrent network that says a point choice by choice, each with what it has said before in
// mind: the controller of neural architecture search, as Zhang et al., 2019, hold it against walks.
//
// Method: at each choice the state is tanh of the last value, embedded, and of the state before; a
// layer of the choice's own makes probabilities of its values. It is trained by policy gradients
// (REINFORCE: Zoph and Le, Neural Architecture Search with Reinforcement Learning, 2017).
#pragma once

#include "tune/SearchSpace.h"

#include <memory>
#include <span>

namespace tensmith::tune {

class Controller {
public:
  /// Points of one update.
  static constexpr size_t kBatch = 16;

  static std::unique_ptr<Controller> of(const SearchSpace &space);
  virtual ~Controller() = default;

  /// Drawn by what has been learnt; choices that don't exist are absent.
  virtual Configuration draw(Random &random) = 0;

  struct Step {
    Configuration point;
    double advantage; // over what was expected
  };
  /// One update by kBatch steps.
  virtual void learn(std::span<const Step> steps) = 0;
};

} // namespace tensmith::tune

// A program of the language that is differentiated, compiled and trained by Tensmith itself, with
// another one that reads what the first has learnt: what the networks of this folder are made of.
//
// The first gives a loss; one call is one step of training by Adam, which updates its states in
// place. The second reads these where they are, so that nothing is copied between the two.
#pragma once

#include <tensmith/tensmith.hpp>

#include <memory>
#include <string>
#include <vector>

namespace tensmith::tune {

class TrainedProgram {
public:
  struct Text {
    std::string step;                     // its result is the loss
    std::string forward;                  // its last inputs are `states`
    std::vector<std::string> states = {}; // names that they have in the step: "shared.0"
  };

  /// Programs of one text are compiled once in a process. Throws Failure where they can't be.
  static std::unique_ptr<TrainedProgram> of(const Text &text);
  virtual ~TrainedProgram() = default;

  /// The step's own inputs, in the program's order: written to before `learn`.
  virtual std::vector<Tensor> &fed() = 0;
  /// One step.
  virtual void learn() = 0;
  /// The forward program's own inputs.
  virtual std::vector<Tensor> &judged() = 0;
  virtual std::vector<Tensor> judge() = 0;
};

} // namespace tensmith::tune

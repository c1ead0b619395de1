// Initialisers that become states: which are trained, and what is counted beside them.
#pragma once

#include "compiler/training/StepFunction.h"

namespace tensmith::training {

struct Parameter {
  std::string name;
  mlir::BlockArgument state;
};

/// The initialisers that the loss depends on and that `trainable` names, as states in the place of
/// constants. InvalidArgument where a name means none.
Result<std::vector<Parameter>> takeParameters(StepFunction &step, mlir::Value loss,
                                              const std::vector<std::string> &trainable);

/// Of each initialiser that the run computes a next value of (graph::kNextOf): a state that is no
/// parameter. Takes those results away and gives the states with their next values.
struct Statistic {
  std::string name, output;
  mlir::BlockArgument state;
};
Result<std::vector<Statistic>> takeStatistics(StepFunction &step);

} // namespace tensmith::training

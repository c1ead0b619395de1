// Losses that a model needs not have itself, as graph code.
#pragma once

#include "compiler/training/StepFunction.h"

#include "compiler/graph/GraphCode.h"

namespace tensmith::training {

struct Loss {
  mlir::Value value;
  mlir::Value correct; // how many answers are right; null where that has no meaning
};

/// The loss of that name, of an output; its targets are a further input, "target". InvalidArgument
/// where there is no such loss, or the output is none that it can be taken of.
Result<Loss> buildLoss(const std::string &name, const StepFunction::Output &output,
                       StepFunction &step, graph::GraphCode &code);
bool isBuiltInLoss(const std::string &name);

} // namespace tensmith::training

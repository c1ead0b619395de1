// From gradients to the next values of parameters and slots.
#pragma once

#include "compiler/training/Parameters.h"
#include "compiler/training/UpdateProgram.h"

#include "compiler/graph/GraphCode.h"

namespace tensmith::training {

/// Adds the states of the optimiser and updates all of them. `gradients` are of the parameters, in
/// their order; `step` counts the runs before this one.
Status addUpdates(StepFunction &function, llvm::ArrayRef<Parameter> parameters,
                  llvm::ArrayRef<mlir::Value> gradients, mlir::BlockArgument step,
                  const Options &options, graph::GraphCode &code);

} // namespace tensmith::training

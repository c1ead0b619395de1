// The states of a module, from the attributes of its main function (graph/States.h).
#pragma once

#include "compiler/vm/ModuleTables.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tensmith::vm {

/// Adds them to the plan, with those that are updated in place told apart.
Status addStates(mlir::func::FuncOp main, ModuleTables &tables);

} // namespace tensmith::vm

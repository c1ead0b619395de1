// What a compiled model does by the reference evaluator, of which a user should know: operators
// without code take a hundred times as long as others, and only a profile would tell.
#pragma once

#include "compiler/kernel/Machine.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tensmith::pipeline {

/// A line for each operator outside of kernels that takes a notable part of the functions'
/// estimated time: the node, the part, and why it has no kernel. The functions are as the plan is
/// made of them. Sizes that only the run knows are counted as usual ones.
std::vector<std::string> referenceWarnings(llvm::ArrayRef<mlir::func::FuncOp> functions,
                                           const kernel::Machine &machine);

} // namespace tensmith::pipeline

// Names for sizes, and what becomes of a name once more is known of its size.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tensmith::rewrite {

/// Gives each size of which nothing is known a name, and the results of operators that read
/// `learnt`, of which more is known than when these were made, the sizes that follow from it. What
/// a size turns out to be takes the place of its name in the types and checks behind.
void nameSizes(mlir::func::FuncOp function, llvm::ArrayRef<mlir::Value> learnt);

} // namespace tensmith::rewrite

// Which calls may read or write references.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::program {

/// Marks calls that may lead to an operator on references, through whatever they call. A function
/// as a value may be any that the program has as one.
void markEffects(mlir::ModuleOp module);
/// Whether the operator, or one in its regions, is on references or a call that was marked so.
bool hasEffects(mlir::Operation *op);

} // namespace tensmith::program

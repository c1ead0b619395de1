// Loops without tests of the index: padding, concatenations, clamped reads.
//
// An element of a padded tensor is read where the index is inside, clamped to be that, and chosen
// or not. As long as the clamping stands, neighbours needn't lie side by side, and LLVM gathers
// each by itself. Where the loop's bounds and the tests' are known, the loop is cut at them: within
// each part all of them have one answer.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::targets::cpu {

/// Of each innermost loop in steps of one that carries nothing.
void splitLoops(mlir::ModuleOp module);

} // namespace tensmith::targets::cpu

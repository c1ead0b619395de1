// Emitted code without what is dead or there twice.
//
// Emitters say index arithmetic where they need it: sizes are computed anew for each access, and
// half of what they build are constants. LLVM would find that, but only after the module was
// printed, parsed and lowered, which takes longer than LLVM does for it. Nothing is reordered but
// constants, which stand at the beginning of their function.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::kernel {

void eliminateRedundancy(mlir::ModuleOp kernel);

} // namespace tensmith::kernel

// Operations that the machine has no instruction for, written out in those that it has.
//
// A kernel links to nothing, so whatever LLVM would turn into a call of libm or of the compiler's
// support library must be gone before: elementary functions, conversions to the 16-bit floats,
// remainders.
#pragma once

#include "base/Status.h"
#include "compiler/targets/cpu/machine/Cpu.h"

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::targets::cpu {

/// Rewrites elementary functions (f32 and narrower; Cephes-like polynomials of mlir/Dialect/Math, a
/// few ulp), conversions and vector operations that have no counterpart in LLVM.
Status expandOperations(mlir::ModuleOp module, const Cpu &machine);

} // namespace tensmith::targets::cpu

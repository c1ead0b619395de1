// From the dialects of kernels to the LLVM dialect.
//
// What stock passes would do one after the other, each walking the whole module, is done here in
// few walks, and the rare stages only where the module has operations of theirs: kernels are many
// and the time to compile them is all theirs.
#pragma once

#include "base/Status.h"
#include "compiler/targets/cpu/machine/Cpu.h"

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::targets::cpu {

/// Lowers in place. Elementary functions of f32 become polynomials, so that no call into libm is
/// left; memrefs that are arguments become bare pointers where all are of static shape, and
/// descriptors' fields otherwise, with `llvm.noalias` and `llvm.align` on the pointer that is used.
Status lowerToLLVM(mlir::ModuleOp module, const Cpu &machine);

} // namespace tensmith::targets::cpu

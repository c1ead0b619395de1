// Several vectors at a time through loops whose elements are long chains of operations.
//
// Each operation of an elementary function waits for the one before. A core looks ahead a few dozen
// operations, which for such a chain is little more than one vector of elements, so it waits most
// of the time. LLVM's vectoriser interleaves short bodies alone. What is left over of the elements
// goes one vector at a time. `bench/loops` has such bodies.
#pragma once

#include "compiler/targets/cpu/machine/Cpu.h"

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::targets::cpu {

/// Asks for it in each innermost loop of scalar operations that carries nothing.
void interleaveLoops(mlir::ModuleOp module, const Cpu &machine);
/// Passes on to LLVM what was asked for, once the loops are branches of the LLVM dialect.
void annotateBranches(mlir::ModuleOp module);

} // namespace tensmith::targets::cpu

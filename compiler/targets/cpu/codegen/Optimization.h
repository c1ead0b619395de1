// LLVM's passes over a kernel.
//
// A kernel is one function with loops, which emitters have tiled, unrolled and for the most part
// written in vectors, and two that do little but call. So LLVM's own pipeline spends a third of
// its time on what isn't there: calls to inline, globals, allocas, jumps to thread. What is left
// here are simplification, loops (invariants, induction variables, conditions that don't change)
// and both vectorisers, in LLVM's order.
#pragma once

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace tensmith::targets::cpu {

/// No name means one of LLVM's library functions: a loop is never turned into a call.
llvm::TargetLibraryInfoImpl noLibrary(const llvm::Module &module);

/// Without `loops` simplification alone: of code whose accesses are checked, the exits of loops
/// would be counted ahead, by divisions of 128 bits that are calls.
void optimize(llvm::Module &module, llvm::TargetMachine &machine, bool loops = true);

} // namespace tensmith::targets::cpu

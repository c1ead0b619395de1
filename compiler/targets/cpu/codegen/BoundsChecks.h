// Checks of a kernel's accesses to memory, for those who look for faults of the compiler.
//
// A kernel that was emitted with `Machine::checksBounds` says at its begin where its operands
// end, by calls of `tensmith_kernel.extent`. From these each access is checked: loads and stores,
// masked ones in the lanes of their masks, gathers and scatters lane by lane. One that lies
// outside is not done: the kernel fails with TENSMITH_FAIL_OUTSIDE and the number of the operand,
// and returns.
#pragma once

#include "base/Status.h"

#include "llvm/IR/Module.h"

namespace tensmith::targets::cpu {

/// Before anything is optimised. Whether there are checks: a module without calls of
/// `tensmith_kernel.extent` stays as it is. Internal where an access goes to memory of which none
/// of them speaks.
Result<bool> checkBounds(llvm::Module &module);

} // namespace tensmith::targets::cpu

// Kernels as LLVM's IR, for targets that go on from there by themselves: by a code generator that
// is none of LLVM's, or by an emulator.
//
// Nothing is asked of the machine but vectors. There is no fused multiply-add, no instruction for
// numbers of 16 bits and no function of a library: elementary functions are polynomials. Pointers
// have 64 bits, and memory is little-endian.
#pragma once

#include "compiler/targets/Target.h"

#include "llvm/IR/Module.h"

namespace tensmith::targets {

/// The kernel's module; its entry is @tensmith_kernel, and its other functions are its own.
/// Internal where it doesn't lower.
Result<std::unique_ptr<llvm::Module>> plainCode(const KernelSource &source, int64_t vectorBits,
                                                llvm::LLVMContext &context);

} // namespace tensmith::targets

// LLVM's code generator of the host's architecture, made ready once for the process.
#pragma once

#include "llvm/Support/TargetSelect.h"

#include <mutex>

namespace tensmith::target::cpu {

/// May be called from any thread, any number of times.
inline void initializeNativeTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
  });
}

} // namespace tensmith::target::cpu

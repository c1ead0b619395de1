// LLVM's code generator of the host's architecture, made ready once for the process.
#pragma once

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/TargetSelect.h"

#include <mutex>

namespace tensmith::targets::cpu {

/// x86's domain reassignment looks for scalar arithmetic that could be done in mask registers. It
/// takes a sixth of the code generator's time where a kernel has many masks, and there is none:
/// all masks are made of vectors.
inline void skipDomainReassignment() {
  auto &options = llvm::cl::getRegisteredOptions();
  auto option = options.find("disable-x86-domain-reassignment");
  if (option != options.end())
    static_cast<llvm::cl::opt<bool> *>(option->second)->setValue(true);
}

/// May be called from any thread, any number of times.
inline void initializeNativeTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
    skipDomainReassignment();
  });
}

} // namespace tensmith::targets::cpu

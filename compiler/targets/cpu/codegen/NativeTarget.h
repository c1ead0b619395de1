// LLVM's code generators, each made ready once for the process when a machine of its kind is asked
// for.
#pragma once

#include "llvm-c/Target.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/TargetParser/Triple.h"

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

#define TENSMITH_INITIALIZE(family)                                                                \
  LLVMInitialize##family##TargetInfo();                                                            \
  LLVMInitialize##family##Target();                                                                \
  LLVMInitialize##family##TargetMC();                                                              \
  LLVMInitialize##family##AsmPrinter();                                                            \
  LLVMInitialize##family##AsmParser();

/// May be called from any thread, any number of times. Nothing where LLVM has none for the triple.
inline void initializeTarget(const std::string &triple) {
  static std::once_flag x86, arm64, arm, riscv;
  switch (llvm::Triple(triple).getArch()) {
  case llvm::Triple::x86_64:
    std::call_once(x86, [] {
      TENSMITH_INITIALIZE(X86)
      skipDomainReassignment();
    });
    return;
  case llvm::Triple::aarch64:
    std::call_once(arm64, [] { TENSMITH_INITIALIZE(AArch64) });
    return;
  case llvm::Triple::arm:
    std::call_once(arm, [] { TENSMITH_INITIALIZE(ARM) });
    return;
  case llvm::Triple::riscv64:
    std::call_once(riscv, [] { TENSMITH_INITIALIZE(RISCV) });
    return;
  default:
    return;
  }
}

#undef TENSMITH_INITIALIZE

} // namespace tensmith::targets::cpu

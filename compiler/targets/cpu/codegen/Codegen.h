// From a kernel's module in MLIR to an object file for a machine.
//
// The object stands alone: its one exported symbol is the kernel, and it refers to nothing outside.
// LLVM's vectorisers run on what the emitters left as loops; names of LLVM's known library
// functions mean nothing here, so that a loop is never turned into a call of memset or memcpy.
#pragma once

#include "base/Status.h"
#include "compiler/targets/cpu/machine/Cpu.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace tensmith::targets::cpu {

/// What the kernel's entry is called in the module, whatever the model calls it, so that equal
/// kernels are equal texts.
inline constexpr char kKernelPlaceholder[] = "tensmith_kernel";

struct CodegenOptions {
  /// The exported symbol. The module's other functions, `tensmith_kernel.body`, become
  /// `SYMBOL.body`.
  std::string symbol = kKernelPlaceholder;
  /// Where SYMBOL.llvm.mlir, SYMBOL.ll, SYMBOL.opt.ll and SYMBOL.s are written, unless empty.
  std::string dumpFolder;
};

/// Consumes the module's contents. Safe from several threads with a context each. Internal where
/// the module doesn't lower, or where its code would need a function from outside.
Result<std::string> compileToObject(mlir::ModuleOp kernel, const Cpu &machine,
                                    const CodegenOptions &options);

} // namespace tensmith::targets::cpu

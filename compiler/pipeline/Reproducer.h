// What is left of a compilation that failed or crashed: the graph as it came in, as text that can
// be compiled again, and in its first lines what was asked of it and what became of it.
#pragma once

#include "compiler/pipeline/Compile.h"

#include "mlir/IR/OwningOpRef.h"

namespace tensmith::pipeline {

/// Runs the compilation of the module. Where it fails by a fault of the compiler's or dies of a
/// signal on this thread, the module as it was before goes into `options.reproducer`, and the
/// status says so. Without such a file it is `compile` alone.
Status reproducing(mlir::ModuleOp module, const CompileOptions &options,
                   llvm::function_ref<Status()> compile);

} // namespace tensmith::pipeline

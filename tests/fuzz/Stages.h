// What a fuzzer sends a model through, and how often each stage was reached.
//
// Every input goes through the front end, the rewrites, the emission of kernels and the plan, which
// is then held against the runtime's own verification. Code generation takes a hundred times as
// long as all of that, so only a share of the inputs gets there, and is loaded and run on small
// tensors; which ones depends on their bytes alone, so that a failure repeats.
#pragma once

#include "base/Budget.h"
#include "tests/fuzz/ModuleRun.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"

#include <string_view>

namespace tensmith::fuzz {

/// A context with the compiler's dialects, exchanged for a new one now and then: types and
/// attributes stay in a context for good.
mlir::MLIRContext &context();

/// Whether the input is one of the share (TENSMITH_FUZZ_COMPILE, in 1/1000; 5 unless set) whose
/// code is generated.
bool isCompiled(std::string_view input);

/// The limits of one input, far below the defaults: most memory and time go to few of the inputs.
ResourceScope limits();

/// All stages; a failure that is reported is as good as success. Aborts where what the compiler
/// made is refused by the runtime.
void compileAndRun(mlir::ModuleOp module, std::string_view input);

/// Writes `bytes` as a seed for another fuzzer, to the folder that the environment variable names;
/// nothing where it is not set.
void writeSeed(const char *variable, std::string_view input, std::string_view bytes);

} // namespace tensmith::fuzz

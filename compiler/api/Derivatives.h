// The derivatives that a caller asks for, of a model that has been read.
#pragma once

#include <tensmith/compiler.h>

#include "base/Status.h"
#include "compiler/autodiff/Differentiate.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace tensmith {

/// That no pointer is null and no mode unknown.
Status checkDerivatives(const ts_compile_options &options);
/// The names by which derivatives are taken: inputs, and initialisers that become inputs.
std::vector<std::string> namesOfDerivatives(const ts_compile_options &options);
/// What is kept of recursion that goes on for as long as the data say.
autodiff::Checkpointing checkpointing(const ts_compile_options &options);
/// One after the other, so that each may be of what the one before has added.
Status addDerivatives(mlir::ModuleOp module, const ts_compile_options &options);

} // namespace tensmith

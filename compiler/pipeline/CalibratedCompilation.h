// Compilations of one model with less and less rounded otherwise, until its outputs err by no more
// than the policy's bound. If they do at first, it is looked whether that is what the policy did:
// then layers of the largest told error fall back, one, two, four, ... of them.
#pragma once

#include "compiler/module/ModuleWriter.h"
#include "compiler/pipeline/Compile.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace tensmith::pipeline {

using WriteParts = llvm::function_ref<Status(const modules::ModuleParts &)>;

/// With `options.calibration`; writes the last of them, and warns where it errs by more.
Status compileCalibrated(mlir::ModuleOp module, const CompileOptions &options, WriteParts write);

} // namespace tensmith::pipeline

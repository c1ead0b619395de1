// The step of training that a caller asks for, of a model that has been read.
#pragma once

#include <tensmith/compiler.h>

#include "compiler/training/Training.h"
#include "compiler/training/Updates.h"

namespace tensmith {

/// What the options say, as far as the caller's version of the structure goes. InvalidArgument
/// where a pointer is null or a number none that makes sense.
Result<training::Options> trainingOptions(const ts_training_options &given);

/// What a program draws its parameters' first values by.
uint64_t trainingSeed(const ts_training_options &given);

/// What an update is of. InvalidArgument where a name is null, or a type none of floats.
Result<std::vector<training::Updated>>
updatedTensors(llvm::ArrayRef<ts_updated> given, int64_t processes, mlir::MLIRContext &context);

} // namespace tensmith

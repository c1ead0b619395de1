// The dialects of all that a model can be while it is compiled.
#pragma once

#include "mlir/IR/DialectRegistry.h"

namespace tensmith {

/// Graphs, programs, and what targets make of them. Whoever makes a context loads all of them.
mlir::DialectRegistry modelDialects();

} // namespace tensmith

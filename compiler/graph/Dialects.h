// The dialects that graph IR is made of.
#pragma once

#include "mlir/IR/Dialect.h"

namespace tensmith::graph {

/// The graph dialect and those that stand in graph IR (func) or are made by its operators' code
/// (arith, math, scf).
void registerDialects(mlir::DialectRegistry &registry);

} // namespace tensmith::graph

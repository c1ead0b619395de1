// Makes a failing graph smaller for as long as it fails in the same way.
#pragma once

#include "tests/random/Check.h"

#include "mlir/IR/OwningOpRef.h"

namespace tensmith::random_graphs {

/// Outputs are dropped, values become inputs, dimensions shrink. Each attempt is checked in a
/// process of its own, which may crash, and may take `seconds`.
mlir::OwningOpRef<mlir::ModuleOp> reduceGraph(mlir::ModuleOp module, Verdict verdict,
                                              const CheckOptions &options, int seconds);

} // namespace tensmith::random_graphs

// What nothing uses, and goes.
//
// A value whose elements nothing reads may still tell the size of others: of what NonZero gave only
// the count is wanted, as the shape of something else. Its symbol is then in types alone, which
// keeps nothing alive, so that `graph.keep_sizes` takes the place of a use.
#pragma once

#include "compiler/graph/Graph.h"

namespace tensmith::graph {

/// Erases operators in the function, and in regions within it, whose results nothing uses; keeps
/// those that are the first to have a size which is left in a type.
void eraseDead(mlir::func::FuncOp function);

/// The operator (null: none), if nothing uses it, and those before it that only it used.
void eraseUnused(mlir::Operation *op);

} // namespace tensmith::graph

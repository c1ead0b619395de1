// Which operators may end a run with an error: a state that is updated by a successful run alone is
// written over behind all of them.
#pragma once

#include "compiler/graph/Graph.h"

namespace tensmith::graph {

/// Whether a run may end in the kernel, as where it reads an index that is out of range. Of
/// operators that are not known to be total it is taken that they may.
bool mayFail(KernelOp kernel);

/// The same of any operation of a block.
bool mayFail(mlir::Operation *op);

} // namespace tensmith::graph

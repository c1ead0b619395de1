// The classes of operators between processes (ProcessReductionOps.td), for who looks for them.
// One library alone does them, whoever does the others.
#pragma once

#include "compiler/graph/Graph.h"

#define GET_OP_CLASSES
#include "compiler/graph/ProcessReductionOps.h.inc"

namespace tensmith::graph {

/// libtensmith_mpi.so, as kernels of the kind "call.mpi" (libraries/Libraries.h).
inline constexpr llvm::StringLiteral kProcesses = "mpi";

} // namespace tensmith::graph

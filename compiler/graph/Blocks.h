// The classes of operators on blocks of few bits (BlockOps.td), for who looks for them.
#pragma once

#include "base/BlockFormats.h"
#include "compiler/graph/Graph.h"

#define GET_OP_CLASSES
#include "compiler/graph/BlockOps.h.inc"

namespace tensmith::graph {

/// The format that the operator names, and how many numbers a row of its bytes has; null and 0
/// where it is none that the verifier takes.
const BlockFormat *formatOf(BlockProductOp op);
int64_t columnsOf(BlockProductOp op);

/// Whether a cache of keys or values has blocks of a format, and not floats.
bool hasBlocks(CachedAttentionOp op);
/// The numbers of a head of such a cache; 0 where that isn't known.
int64_t headSizeOf(CachedAttentionOp op, mlir::Value cache);

} // namespace tensmith::graph

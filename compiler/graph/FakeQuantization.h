// The classes of FakeQuantizationOps.td, for who looks for them.
#pragma once

#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphCode.h"

#define GET_OP_CLASSES
#include "compiler/graph/FakeQuantizationOps.h.inc"

namespace tensmith::graph {

/// A scale or zero point, shaped to broadcast against x: a scalar, a vector along `axis`, or each
/// element repeated over its block. Null where it doesn't fit.
mlir::Value alignParameter(const GraphCode &code, mlir::Value parameter, mlir::Value x,
                           int64_t axis, int64_t blockSize);

} // namespace tensmith::graph

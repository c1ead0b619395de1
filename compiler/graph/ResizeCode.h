// What resizing and its derivative are made of.
#pragma once

#include "compiler/graph/GraphCode.h"

namespace tensmith::graph {

/// x with each element of a dimension `times` times in a row.
mlir::Value repeated(const GraphCode &code, mlir::Value x, int64_t dim, int64_t times);

} // namespace tensmith::graph

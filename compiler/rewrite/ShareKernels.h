// Kernels that differ by numbers alone become one kernel with arguments.
#pragma once

#include "compiler/rewrite/Rewrites.h"

namespace tensmith::rewrite {

mlir::LogicalResult shareKernels(mlir::func::FuncOp function, const Options &options);

} // namespace tensmith::rewrite

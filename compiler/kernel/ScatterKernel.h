// The template of rows that are combined into a tensor at places that are data; see
// ScatterKernel.cpp.
#pragma once

#include "compiler/kernel/KernelFrame.h"

namespace tensmith::kernel {

/// scatter_nd of whole rows: one index for each; of f32, f64, i32 or i64.
bool isScatterRoot(mlir::Operation *op);
Template scatterTemplate(graph::KernelOp kernel, graph::ScatterNDOp root);

} // namespace tensmith::kernel

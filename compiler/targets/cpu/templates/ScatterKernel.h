// The templates of rows and of elements that are combined into a tensor at places that are data;
// see ScatterKernel.cpp.
#pragma once

#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

/// scatter_nd of whole rows, one index for each, or scatter_elements; of f32, f64, i32 or i64.
bool isScatterRoot(mlir::Operation *op);
extern const Template kScatter;

} // namespace tensmith::kernel

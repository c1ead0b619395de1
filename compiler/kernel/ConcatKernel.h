// The template around a concatenation: one copy for each input, with the element-wise operators
// that follow.
#pragma once
#include "compiler/kernel/KernelFrame.h"

namespace tensmith::kernel {

/// The inputs are block arguments; operators after the root are element-wise and keep its shape.
bool isConcatRoot(mlir::Operation *op);
Template concatTemplate(graph::KernelOp kernel, graph::ConcatOp root, const MachineShape &machine);

} // namespace tensmith::kernel

// Softmax and normalisation along the last dimension, with what surrounds them, a row at a time.
#pragma once
#include "compiler/kernel/KernelFrame.h"

namespace tensmith::kernel {

/// Whether the operator is one that a row kernel is built around.
bool isRowRoot(mlir::Operation *op);

/// The region has one row operator; the other operators are element-wise, and those that follow it
/// keep its shape.
Template rowTemplate(graph::KernelOp kernel, const MachineShape &machine);

} // namespace tensmith::kernel

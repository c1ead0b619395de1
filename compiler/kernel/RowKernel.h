// Softmax and normalisation along the last dimension, with what surrounds them, a row at a time.
#pragma once
#include "compiler/kernel/KernelFrame.h"

namespace tensmith::kernel {

/// Whether the operator is one that a row kernel is built around.
bool isRowRoot(mlir::Operation *op);

/// How a value lies beside rows: it has their shape, or one element for each row, with a last
/// dimension of 1 or without it.
enum class RowShape : uint8_t { Whole, Kept, Dropped };
std::optional<RowShape> rowShapeOf(mlir::RankedTensorType type, mlir::RankedTensorType rows);

/// The region has one row operator; the other operators are element-wise, and those that follow it
/// keep its shape, or give one element for each row (a sum or an extreme of it, an element of it,
/// what is computed from those). Results are of either kind.
Template rowTemplate(graph::KernelOp kernel, const MachineShape &machine);

} // namespace tensmith::kernel

// Softmax and normalisation along the last dimension, with what surrounds them, a row at a time.
#pragma once
#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

/// Whether the operator is one that a row kernel is built around.
bool isRowRoot(mlir::Operation *op);

/// How a value lies beside rows: it has their shape, or one element for each row, with a last
/// dimension of 1 or without it.
enum class RowShape : uint8_t { Whole, Kept, Dropped };
std::optional<RowShape> rowShapeOf(mlir::RankedTensorType type, mlir::RankedTensorType rows);

extern const Template kRows;

} // namespace tensmith::kernel

// How tensors lie beside the rows that a softmax or a normalisation is computed by.
#pragma once

#include "mlir/IR/BuiltinTypes.h"

#include <cstdint>
#include <optional>

namespace tensmith::kernel {

/// How a value lies beside rows: it has their shape, or one element for each row, with a last
/// dimension of 1 or without it.
enum class RowShape : uint8_t { Whole, Kept, Dropped };
std::optional<RowShape> rowShapeOf(mlir::RankedTensorType type, mlir::RankedTensorType rows);

} // namespace tensmith::kernel

// Types as people write them: "batch", "2*sequence", "1x3x224x224:f32".
#pragma once

#include "mlir/IR/BuiltinTypes.h"

#include <string>

namespace tensmith::graph {

/// A dimension over the type's own symbols: "3", "batch", "2*sequence"; "?" where nothing is known.
std::string dimText(mlir::RankedTensorType type, unsigned dim);
/// The dimensions and the element type; "-" of what is no ranked tensor.
std::string typeText(mlir::Type type);

} // namespace tensmith::graph

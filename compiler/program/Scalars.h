// Which operators of a program work on single numbers, so that the machine that runs procedures
// does them itself instead of calling a kernel.
#pragma once

#include "mlir/IR/Operation.h"

namespace tensmith::program {

/// Whether the type is a tensor of rank 0 of an element type that registers hold.
bool isScalarType(mlir::Type type);

/// Whether the operator is one of plan::ScalarOperator on operands that registers hold.
bool isScalarCode(mlir::Operation *op);

/// The name among plan::ScalarOperator of such an operator: "LessOrEqual", "CastToF32".
std::string scalarOperatorName(mlir::Operation *op);

} // namespace tensmith::program

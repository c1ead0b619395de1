// Codes in a model that is trained.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tensmith::training {

/// dequantize(quantize(x)) by one scale and zero point becomes fake_quantize(x), which has a
/// derivative; the value stays the same. So models with QuantizeLinear and DequantizeLinear are
/// trained as they are (docs/quantisation.md).
void fuseQuantizations(mlir::func::FuncOp function);

/// Whether a quantisation reads the value as its scale. Its derivative by that is taken for zero,
/// so that it stays as it was calibrated.
bool isScale(mlir::Value value);

} // namespace tensmith::training

// Products of pairs of bf16, added up in f32, two to a lane: by an instruction where the machine
// has one (vdpbf16ps), by two multiply-adds of widened halves elsewhere.
#pragma once

#include "compiler/kernel/Kernel.h"

#include "mlir/IR/Builders.h"

namespace tensmith::kernel {

/// sum + the products of the lanes' pairs. `a` and `b` are their bits, lanes of i32; `sum` has as
/// many of f32.
mlir::Value emitPairProducts(mlir::OpBuilder &builder, mlir::Location location,
                             BfloatProducts products, mlir::Value a, mlir::Value b,
                             mlir::Value sum);

} // namespace tensmith::kernel

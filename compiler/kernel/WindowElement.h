// One element of a convolution or a matrix product as plain loops: what the loop template computes
// where no register tile fits (tiny groups, vectors, types without a fused multiply-add).
#pragma once

#include "compiler/graph/Lowering.h"

#include "mlir/IR/Operation.h"

namespace tensmith::kernel {

/// Whether `emitWindowElement` has code for the operator.
bool hasWindowElement(mlir::Operation *op);

/// The element of the operator's result at `indices`, summed in the result's kernel element type;
/// null where there is no such code.
mlir::Value emitWindowElement(graph::ElementContext &context, mlir::Operation *op,
                              mlir::ValueRange indices);

/// The element of a result by the operator's own code, or by `emitWindowElement`.
mlir::Value emitElement(graph::ElementContext &context, mlir::OpResult value,
                        mlir::ValueRange indices);

/// a * b + sum, in the type of `sum`; operands of narrower types are extended (`unsignedA`,
/// `unsignedB`: by zeros). Scalars or vectors.
mlir::Value emitMultiplyAdd(mlir::OpBuilder &builder, mlir::Location location, mlir::Value a,
                            bool unsignedA, mlir::Value b, bool unsignedB, mlir::Value sum);

} // namespace tensmith::kernel

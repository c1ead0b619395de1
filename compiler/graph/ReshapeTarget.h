// What an open size of a reshape's target stands for.
//
// ONNX takes a 0 in the target for the operand's own dimension (without `allowzero`). A size that
// is an expression over symbols may be 0 in a run and not in another, so its meaning depends on the
// run. Nearly always both meanings are one: the operand's dimension is 0 wherever the size is, as
// of batch in [batch, -1]. Where the operand has the size as a factor of another dimension, as
// [batch * length, 64] has that of [batch, length, 64], a length of 0 would make the target
// [batch, 64, 64], which is no size of an operand without elements: it is refused. What is left,
// where the two sizes have nothing to do with one another, is an expression that says either.
#pragma once

#include "compiler/graph/Shape.h"

namespace tensmith::graph {

struct TargetSize {
  mlir::AffineExpr size;
  /// What must hold for it to be the size.
  std::optional<Condition> condition;
};

/// What `asked`, an open size for dimension `dim` of the target, makes of an operand of sizes
/// `from`.
TargetSize targetSize(ShapeContext &shapes, mlir::AffineExpr asked, size_t dim,
                      llvm::ArrayRef<mlir::AffineExpr> from);

} // namespace tensmith::graph

// Sizes of the program's inputs, where code names one that nothing around it has.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace tensmith::program {

/// Whether a value of the type tells the size.
bool tells(mlir::Type type, mlir::StringAttr size);
/// The value in front of the operator, in its procedure, whose type tells the size; null where
/// there is none.
mlir::Value findTelling(mlir::Operation *op, mlir::StringAttr size);

/// Gives procedures an input of main's more where their code names a size that none of their own
/// values tells, as `(iota(axis = 0) : i64[n])` may in a function of something else; and so their
/// callers.
void passSizes(mlir::ModuleOp module);

/// Gives what a segment's inputs have as sums alone, as n + 2 where nothing tells n, names of their
/// own, by which the segment's other sizes are said.
void nameSums(mlir::func::FuncOp segment);

} // namespace tensmith::program

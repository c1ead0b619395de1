// Which operands a kernel may write its results over.
//
// A kernel that reads each element of an operand only to compute the result's at the same place can
// be given one buffer for both. Of a state the buffers are the caller's, so it is the order of the
// main function that decides: nothing may read the old value after the kernel.
#pragma once

#include "compiler/graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tensmith::vm {

/// Whether all that a kernel computes from the argument is element-wise at the result's shape.
bool isReadInPlace(mlir::Value argument, mlir::RankedTensorType result);

/// Of an argument that is read in place by a kernel of several results: whether the elements that
/// are stored over it are made of it, or none is that is made of its elements one by one. Code
/// generation takes buffers for distinct, and may move a read behind a store that doesn't need it.
bool isStoredBehindReads(mlir::Value argument, mlir::OpResult result);

/// Whether the kernel that computes the result of a function may write it over the argument, which
/// is read in place, or not any more.
bool isUpdateInPlace(mlir::BlockArgument argument, mlir::Value result);

} // namespace tensmith::vm

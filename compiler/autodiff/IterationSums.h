// Sums of products over a loop's iterations: the cotangents of matrices that its body multiplies
// by.
//
// before: sum + left[0]^T right[0] + left[1]^T right[1] + ...
// after:  of a few iterations at a time, 16 say, from the last to the first:
//         sum = sum + left[i..i+16]^T right[i..i+16]
//
// One product of all iterations would be as good, but its order could not be kept by a way back
// that goes through the loop in parts (LoopParts.h). Groups lie at multiples of their length, and
// so do the parts: sums have the same bits, whatever is gone back through at a time.
#pragma once

#include "compiler/autodiff/Activity.h"

namespace tensmith::autodiff {

/// Whether the operator of the loop's body multiplies by a matrix from outside, whose cotangent is
/// such a sum where it is active.
bool multipliesByOuter(graph::LoopOp loop, mlir::Operation *op);

/// The iterations of a group, a power of two that is at most 64, by the rows of what is multiplied.
int64_t iterationsTogether(mlir::Value left);
/// The longest of the groups in the loop's body; all others divide it.
int64_t iterationsTogether(graph::LoopOp loop);

/// Of `trips` iterations, a scalar of i64; `right` has the last one first.
mlir::Value sumOfProducts(const graph::GradientCode &code, Activity &activity, mlir::Value sum,
                          mlir::Value left, mlir::Value right, mlir::Value trips, int64_t together);
/// Of all iterations in one product.
mlir::Value productOfAll(const graph::GradientCode &code, mlir::Value left, mlir::Value right);

} // namespace tensmith::autodiff

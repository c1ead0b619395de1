// Which elements of a dimension a slice takes, where sizes are open.
//
// ONNX clamps a slice's start and end to the dimension. Of an open size that is a smaller of two
// sizes, which has an expression of its own, so that what is computed from the slice has sizes that
// others can be compared with: x[1:] and x[:-1] have as many elements.
#pragma once

#include "compiler/graph/Shape.h"

namespace tensmith::graph {

struct SlicedRange {
  mlir::AffineExpr first; // what is taken first, if anything is
  mlir::AffineExpr count;
};

/// The start or step; one that is beyond any dimension becomes one just beyond the longest, which
/// means the same. So no expression over it overflows.
int64_t withinDimension(int64_t distance);

/// By ONNX's rules: negative constants count from the end, and both are clamped. Nothing where only
/// the run tells: an end that may be negative; of a negative step over an open size, a start that
/// is no number or below -1, and an end that is no number.
std::optional<SlicedRange> slicedRange(const ShapeContext &shapes, mlir::AffineExpr size,
                                       mlir::AffineExpr start, mlir::AffineExpr end, int64_t step);

/// The smaller of two sizes, as an expression.
mlir::AffineExpr smallerSize(const ShapeContext &shapes, mlir::AffineExpr a, mlir::AffineExpr b);

/// The smaller of two numbers that are computed of sizes and may be negative. Nothing where it is
/// no short expression.
std::optional<mlir::AffineExpr> smallerNumber(const ShapeContext &shapes, mlir::AffineExpr a,
                                              mlir::AffineExpr b);

} // namespace tensmith::graph

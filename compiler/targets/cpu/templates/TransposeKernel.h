// The template of what is read along one dimension of memory and written along another: packed
// weights of convolutions, gradients that are turned before an update, images whose channels move.
#pragma once
#include "compiler/kernel/StridedView.h"
#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

/// What a kernel turns, and by which loops.
struct Transposition {
  mlir::Value moved; // what lies turned in memory: its view's source is computed as it lies
  StridedView view;  // of `moved`
  llvm::SmallVector<StridedView::Dim> places; // the view's dimensions, as they lie in the result
  /// Dimensions of the view, the inner ones last: along which vectors are stored, along which they
  /// are loaded, and the others.
  llvm::SmallVector<unsigned> stored, loaded, outer;
  mlir::AffineExpr offset; // of the first element, in the result: dimensions loaded go upwards
};

/// Of a kernel of f32 that turns one value, before and after element-wise operators on whole
/// tensors and scalars, and computes nothing else; null where that is not worth a square in
/// registers.
std::optional<Transposition> matchTransposition(graph::KernelOp kernel, const Machine &machine);

extern const Template kTransposition;

/// A square of as many vectors as each has lanes, turned in registers.
llvm::SmallVector<mlir::Value> transposedSquare(IndexMath &math,
                                                llvm::SmallVector<mlir::Value> rows);

} // namespace tensmith::kernel

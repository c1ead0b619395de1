// The third kind of shape functions: sizes that only the computation tells, and what they are at
// most.
//
// Of the three kinds the first says a result's size by the operands' sizes, and the second by what
// operands contain, where that is known (`Inference::contents`). Where neither tells, a shape
// function makes a fresh symbol, which the run gives its value; `freshAtMost` makes one of which a
// bound is known for whatever the operands hold. Whoever lays out memory listens with `UpperBounds`
// while the shape function runs.
#pragma once

#include "compiler/graph/Inference.h"

namespace tensmith::graph {

/// A size of which only the computation tells more than that it is at most `most`, an expression
/// over the operands' sizes.
mlir::AffineExpr freshAtMost(Inference &infer, llvm::StringRef hint, mlir::AffineExpr most);

/// The bounds that shape functions give on this thread while this lives. Symbols are those of the
/// ShapeContext that the shape function is given.
class UpperBounds {
public:
  UpperBounds();
  ~UpperBounds();
  UpperBounds(const UpperBounds &) = delete;

  /// Null where the size is none that `freshAtMost` made.
  mlir::AffineExpr of(mlir::AffineExpr size) const { return bounds_.lookup(size); }

private:
  friend mlir::AffineExpr freshAtMost(Inference &, llvm::StringRef, mlir::AffineExpr);

  static thread_local UpperBounds *listening_;
  UpperBounds *outer_;
  llvm::DenseMap<mlir::AffineExpr, mlir::AffineExpr> bounds_;
};

} // namespace tensmith::graph

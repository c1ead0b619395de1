// What a chain of movements reads, as strides: each dimension of its result, or a part of one, goes
// through memory by equal steps.
//
// Of [O, I, 3, 3] that is packed as the right operand of a convolution, the result's dimensions are
// panel, position of the window, channel and lane; o = panel * width + lane is far apart in memory,
// position and channel lie together. Which loops are to be the inner ones can be told from strides
// alone, whatever operators made them.
//
// Sizes may be open: they and the strides that they make are expressions over symbols then, and two
// that are equal for every size are equal here. A reshape whose parts can't be told apart by that
// ends the view.
#pragma once

#include "compiler/graph/Graph.h"

#include <optional>

namespace tensmith::kernel {

struct StridedView {
  struct Dim {
    mlir::AffineExpr size;
    mlir::AffineExpr stride; // in elements of the source, not negative
    bool isReversed = false; // goes downwards through memory
  };
  mlir::Value source;
  /// What the expressions are over.
  llvm::SmallVector<mlir::StringAttr> symbols;
  mlir::AffineExpr offset; // of the first element
  /// Row-major over the result: parts of dimensions, or several that go through memory as one. None
  /// is of size 1 but the panels of a pack that is cut off.
  llvm::SmallVector<Dim> dims;
  /// Of a pack whose last panel is cut off: the matrix's columns, zeros after them, and which of
  /// `dims` counts panels; the last one counts lanes. Null where none is cut off.
  mlir::AffineExpr columns;
  unsigned panelDim = 0;
};

/// Of a value that reshapes, transpositions, reversals, slices and a pack at the end
/// make of another value; null where it goes through memory in no equal steps.
std::optional<StridedView> stridedView(mlir::Value value);

/// The same of a stack of matrices of known sizes, whose dimensions stay apart.
struct StridedMatrices {
  struct Dim {
    int64_t size;
    int64_t stride; // negative where it is reversed
  };
  mlir::Value source;
  int64_t offset = 0;
  llvm::SmallVector<Dim> stack, lines, columns;
};
std::optional<StridedMatrices> stridedMatrices(mlir::Value value);

} // namespace tensmith::kernel

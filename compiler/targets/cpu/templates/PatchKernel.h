// The template of right operands whose columns lie in pieces: patches under a window, which are
// sliced out of one image once for each position of the window and stand side by side; and matrices
// whose last panel is cut off.
#pragma once
#include "compiler/kernel/StridedView.h"
#include "compiler/kernel/Template.h"

#include "llvm/ADT/SetVector.h"

namespace tensmith::kernel {

struct Patches {
  graph::PackOp pack;
  mlir::Value image;
  /// The pack, and all that stands between it and the image.
  llvm::SetVector<mlir::Operation *> ops;
  llvm::SmallVector<StridedMatrices::Dim> stack, lines;
  /// Where each column of a line is, in elements of the image from the line's own place on.
  llvm::SmallVector<int64_t> columns;
};

/// Of a pack of f32 in a graph, if its operand is a concatenation of that kind, or the last panel
/// is cut off, and vectors of its columns come from few pieces of memory.
std::optional<Patches> matchPatches(graph::PackOp pack, const Machine &machine);
/// Of a kernel that is such a pack, and computes the image from whole tensors.
std::optional<Patches> matchPatches(graph::KernelOp kernel, const Machine &machine);

extern const Template kPatches;

} // namespace tensmith::kernel

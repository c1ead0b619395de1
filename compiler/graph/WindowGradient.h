// What convolution and pooling share on their way back: windows, and images made of what each
// position of a window gives.
#pragma once

#include "compiler/graph/Gradient.h"

namespace tensmith::graph::windows {

inline std::optional<int64_t> constant(mlir::AffineExpr size) {
  auto known = llvm::dyn_cast<mlir::AffineConstantExpr>(size);
  return known ? std::optional(known.getValue()) : std::nullopt;
}

struct Windows {
  llvm::SmallVector<int64_t> kernel, strides, dilations, low, high;

  int64_t span(size_t dim) const { return (kernel[dim] - 1) * dilations[dim]; }
  int64_t count() const {
    int64_t product = 1;
    for (int64_t size : kernel)
      product *= size;
    return product;
  }
};
Windows windowsOf(mlir::Operation *op, llvm::ArrayRef<int64_t> kernel);

/// x with its spatial dimensions padded, by `value` where there is one.
mlir::Value padded(const GradientCode &code, mlir::Value x, const Windows &windows,
                   mlir::Value value = {});
/// What `padded` has put around it, off again.
mlir::Value cropped(const GradientCode &code, mlir::Value x, const Windows &windows);
/// The elements of padded x that are at position `at` of their windows.
mlir::Value windowElements(const GradientCode &code, mlir::Value x, const Windows &windows,
                           llvm::ArrayRef<int64_t> at, llvm::ArrayRef<mlir::AffineExpr> counts);
/// Calls `visit` with each position of a window, row-major.
void forEachPosition(llvm::ArrayRef<int64_t> kernel,
                     llvm::function_ref<void(llvm::ArrayRef<int64_t>)> visit);

/// Images of which each gives every so-manieth element along a dimension, in turn.
mlir::Value interleaved(const GradientCode &code, llvm::ArrayRef<mlir::Value> phases, int64_t dim);
/// The image of `size` along a dimension, in padded coordinates, to which window i adds `parts[k]`
/// at its position k.
mlir::Value sumOfPositions(const GradientCode &code, llvm::ArrayRef<mlir::Value> parts,
                           const Windows &windows, size_t dim, mlir::AffineExpr size);

/// The operator, of channels-last data, on channels-first data.
mlir::Value withChannelsFirst(const GradientCode &code, mlir::Operation *op,
                              llvm::ArrayRef<mlir::Value> others);

} // namespace tensmith::graph::windows

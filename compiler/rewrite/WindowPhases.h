// A convolution whose taps lie apart (dilation) is several of neighbouring taps: outputs that are
// as far apart as the taps read the same pixels, and no others.
//
//   conv(x, w) dilated by d  ->  join(conv(split(x), w))
//
// `split` deals an image out into d * d smaller ones, with the padding that windows reach into
// around them; `join` puts theirs together again. So that what is fast for neighbouring taps is
// for these, too (Winograd.cpp), at the price of two copies. (Space to batch: Chen et al.,
// "DeepLab", 2017, section 3.1, has the equivalence.)
#pragma once

#include "compiler/graph/GraphBuilder.h"

namespace tensmith::rewrite {

/// Phases along both dimensions of a channels-last image [N, H, W, C], of which a window of
/// `taps` x `taps` gives `sizes` outputs each; of an image whose size only the run knows, these are
/// estimates, and `extentsOf` tells them.
struct WindowPhases {
  llvm::SmallVector<int64_t, 2> dilations, sizes;
  int64_t taps;

  bool isNeeded() const {
    return llvm::any_of(dilations, [](int64_t dilation) { return dilation > 1; });
  }
  /// The outputs of each phase of a result of those sizes.
  llvm::SmallVector<mlir::AffineExpr, 2> extentsOf(graph::ShapeContext &shapes,
                                                   llvm::ArrayRef<mlir::AffineExpr> image) const;
  /// [N * phases, extents + taps - 1, C], with `pads` elements of zero (or what they take to fill
  /// phases) around the image.
  mlir::Value split(graph::GraphBuilder &graph, mlir::Value image, llvm::ArrayRef<int64_t> pads,
                    llvm::ArrayRef<mlir::AffineExpr> extents) const;
  /// The result [N, image..., M] of [N * phases, extents, M].
  mlir::Value join(graph::GraphBuilder &graph, mlir::Value phases,
                   llvm::ArrayRef<mlir::AffineExpr> image) const;
};

} // namespace tensmith::rewrite

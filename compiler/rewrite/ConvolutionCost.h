// Which convolutions may be transformed, and the sizes that estimates go by: for the rewrites that
// choose between ways to compute them (Winograd.cpp, Fourier.cpp).
#pragma once

#include "compiler/kernel/CostModel.h"
#include "compiler/rewrite/Rewrites.h"

namespace tensmith::rewrite {

/// What an image measures whose size only the run knows, where one number has to do.
inline constexpr int64_t kUsualSize = 256;

/// A channels-last convolution of stride 1, of known channels and window. Of images whose number
/// only the run knows, one; of an image whose size is known then, it is that of a picture of
/// `usual` x `usual`.
struct ConvolutionSizes {
  int64_t images, in, out, group;
  llvm::SmallVector<int64_t> input, output, window; // along the image's dimensions
  bool isOpen = false;                              // the image has no known size
};
std::optional<ConvolutionSizes> sizesOfStrideOne(graph::ConvOp conv, int64_t usual = kUsualSize);

/// All of the function, but those that a library is called for.
llvm::SmallVector<graph::ConvOp> convolutionsOf(mlir::func::FuncOp function);

} // namespace tensmith::rewrite

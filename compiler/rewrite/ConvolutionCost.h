// Which convolutions may be transformed, and what they are estimated to cost, in cycles of one core
// that multiplies and adds two vectors in each: for the rewrites that choose between ways to
// compute them (Winograd.cpp, Fourier.cpp).
#pragma once

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

/// At which constants arrive, in bytes, that are so many together: out of the last cache, if they
/// stay there from run to run beside what else needs it.
double weightRate(double bytes, const kernel::Machine &machine);

/// `batch` products of [rows, depth] by constants [depth, columns].
struct Products {
  double batch, rows, depth, columns;
  double weightBytes = sizeof(float); // of an element
  double perLane = 1;                 // products of a lane of floats in one instruction
};
double cyclesOf(const Products &products, const kernel::Machine &machine, double weightRate);

/// Bytes that are written, and read where they are used next.
double cyclesOfTraffic(double bytes, const kernel::Machine &machine);

} // namespace tensmith::rewrite

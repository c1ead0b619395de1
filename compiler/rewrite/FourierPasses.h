// The three passes of a convolution in training, by Fourier transforms; see FourierPasses.cpp.
#pragma once

#include "compiler/rewrite/Rewrites.h"

namespace tensmith::rewrite {

/// Convolutions whose weights change, and their gradients, where those are whole, become products
/// of Fourier transforms where that is faster.
mlir::LogicalResult fourierPasses(mlir::func::FuncOp function, const Options &options);

} // namespace tensmith::rewrite

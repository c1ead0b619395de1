// Which products attention's gradient is made of, for those who would change them
// (MixedPrecision.cpp).
#pragma once

#include "compiler/rewrite/Rewrites.h"

#include "llvm/ADT/SetVector.h"

namespace tensmith::rewrite {

/// The products of rows of scores, on the way there and on the way back, that
/// `fuseAttentionGradients` makes kernels of without scores in memory, as long as none is changed:
/// where that takes less time than if products in 16 bits, so many times as fast as those in f32,
/// read scores from memory, and nobody asked how they are rounded.
llvm::SetVector<mlir::Operation *> productsOfAttention(mlir::func::FuncOp function,
                                                       const Options &options, double rate);

} // namespace tensmith::rewrite

// Which pools are worth the transpositions that channels-last takes.
//
// A convolution has its fast code channels-last alone, so whatever it is connected with is turned.
// Pools have vector code in either order: along the channels, or along an image's line, which is
// slow where windows that overlap take steps. So a group of pools with no convolution beside it is
// counted both ways, in cycles of one core: its windows, and the transpositions where it ends.
#pragma once

#include "compiler/rewrite/Rewrites.h"

#include "llvm/ADT/DenseSet.h"

namespace tensmith::rewrite {

/// Whether the operator can stand before a transposition of its operand, or takes it away.
bool passesTransposition(mlir::Operation *op);

/// Pools of the function that are to keep their channels first.
llvm::DenseSet<mlir::Operation *> poolsChannelsFirst(mlir::func::FuncOp function,
                                                     const Options &options);

} // namespace tensmith::rewrite

// What is computed on the way from memory to a pointwise convolution: a normalisation, a gate of
// each channel, and the concatenation that these follow.
//
// Such a convolution reads each pixel once for each panel, and nothing around it. So an item makes
// the rows that it multiplies in the thread's scratch (RowSource.h), of all channels, and passes
// all panels over them: the image that is joined or normalised is never in memory, and its parts
// are read where they lie. A dense block's parts are read by every layer behind them, each with a
// normalisation of its own.
#pragma once

#include "compiler/graph/Graph.h"
#include "compiler/kernel/Machine.h"

#include "llvm/ADT/SetVector.h"

#include <optional>

namespace tensmith::kernel {

struct RowPrologue {
  llvm::SetVector<mlir::Operation *> ops; // the concatenation among them
};

/// Whether an operator's results are better handed to the operators that follow it by its own
/// kernel.
using TakesFollowers = llvm::function_ref<bool(mlir::Operation *)>;
/// What stands before a convolution whose rows may be computed, and is used by nothing else;
/// nothing where that is done in a kernel before it anyway.
std::optional<RowPrologue> prologueBefore(graph::ConvOp conv, TakesFollowers takesFollowers);
/// Whether it takes less time in the convolution's kernel than in one of its own.
bool savesTimeInRows(graph::ConvOp conv, const Machine &machine);

/// One group, one pixel of the image for each row, and none of the padding.
bool readsSinglePixels(graph::ConvOp conv);
/// In a kernel's region: the concatenation, of channels of its arguments, that the rows of such a
/// convolution are computed from, or null.
graph::ConcatOp joinedRows(graph::ConvOp conv);

} // namespace tensmith::kernel

// How much a kernel has to do: what its speed is measured against.
//
// Operations are counted as the operators define them, whatever the template does beyond that
// (padding, recomputed elements): a multiply-add is two, an element-wise operator one per element
// of its result, transcendental ones too, a reduction one per element that it reads, softmax 5 and
// layer normalisation 7 per element; movement and the transforms of Winograd are none. Bytes are
// those of every operand read once and every result written once, of gathered or sliced operands as
// many as are taken.
#pragma once

#include "compiler/graph/Graph.h"

namespace tensmith::kernel {

/// Expressions over symbols[i], as in a ShapeContext.
struct Work {
  mlir::AffineExpr flops, bytes;
  llvm::SmallVector<mlir::StringAttr> symbols;
};

/// Every type in the region must be ranked. No expressions where it depends on more than sizes.
Work workOf(graph::KernelOp kernel);
/// Of an operator that is in no kernel; nothing where a tensor of it has no known rank.
std::optional<Work> workOfOperator(mlir::Operation *op);

/// What an element of an element-wise operator takes, in additions: its code is about as long.
double additionsOf(mlir::Operation *op);

} // namespace tensmith::kernel

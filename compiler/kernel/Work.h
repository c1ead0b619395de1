// How much a kernel has to do: what its speed is measured against.
//
// Operations are those that operators' records say (graph::Cost). Bytes are those of every operand
// read once and every result written once, of gathered or sliced operands as many as are taken.
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

} // namespace tensmith::kernel

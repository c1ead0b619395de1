// From a program to procedures that invoke segments.
//
// What tensor code stands between calls, matches and branches is cut out into functions of graph
// operators alone, each as large as the data's flow allows: they then go through the pipeline of a
// static graph.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::program {

/// Inlines what is straight-line code, takes apart what was just built, moves code to the branch
/// that alone needs it, and drops what nobody does.
mlir::LogicalResult simplifyProgram(mlir::ModuleOp module);

/// Every graph operator of a procedure ends up in a segment, but for scalar code (Scalars.h) and
/// for constants that the program itself needs.
void outlineSegments(mlir::ModuleOp module);

} // namespace tensmith::program

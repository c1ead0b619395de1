// A drawn graph with the sizes of its inputs open, to be run at sizes that fit and at others.
//
// The graph was drawn at one size of each dimension. Here drawn dimensions of its inputs become
// symbols, dimensions of one size often the same one, and the types of all results are inferred
// anew. Types that operators are given (of a reshape, a broadcast, a slice) follow the operand's
// symbols in some places and keep their numbers in others, as exported models do. Of the runs the
// first has the sizes that the graph was drawn at. Every other run breaks one requirement of the
// graph's operators, each in its turn (BrokenSizes.h); the rest have sizes from 0 to 9 and drawn
// ones in some places. What the reference refuses of them, the compiled code must refuse.
#pragma once

#include "tests/random/Evaluation.h"

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::random_graphs {

/// Null where the graph has no dimension to open, or an operator can't be typed without knowing it.
/// `breaking`: only requirements whose message holds that are broken on purpose.
mlir::OwningOpRef<mlir::ModuleOp> openSizes(mlir::ModuleOp drawn, uint64_t seed, int64_t runs,
                                            llvm::StringRef breaking = {});

} // namespace tensmith::random_graphs

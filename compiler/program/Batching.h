// A second version of a segment, which computes several calls of it at once.
//
// What recursion over a tree calls are products of one row with weights, bound by reading the
// weights. Calls that wait for nothing but their turn are joined by the machine
// (runtime/Batches.cpp) into one of the batched version, which reads the weights once for all their
// rows (Looks, Herreshoff, Hutchins and Norvig, "Deep learning with dynamic computation graphs",
// 2017; Neubig, Goldberg and Dyer, "On-the-fly operation batching in dynamic computation graphs",
// 2017).
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::program {

/// Of a segment: the name of its batched version. Every tensor there has one dimension more in
/// front, the calls, or instead of a first dimension of 1; but for matrices that are only
/// multiplied by, weights that are given to the program, which are the calls' in common.
inline constexpr char kBatched[] = "program.batched";

/// Makes the batched versions of the segments that multiply by weights, where the program has
/// independent calls. An invocation beside a recursive call is made one, too. Segments with
/// operators that mix rows have none.
void batchSegments(mlir::ModuleOp module);

} // namespace tensmith::program

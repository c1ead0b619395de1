// Code that follows complete trees (CompleteTrees.h), in two ways.
//
//   steps   for a few rows: kWalks trees side by side, one row. A step of a walk is a comparison in
//           memory and an addition with carry, four instructions, and depends on nothing but the
//           step before
//   masks   for 64 rows at a time (32, where ranks take 16 bits): every node of a tree is compared
//           with all rows at once. Which rows are at a node is a mask, and the comparison of a
//           child is masked by it; what a row adds up on its way down is the number of its leaf.
//           There is no load that depends on data but that of the leaf. Rows are first turned into
//           ranks, by a search in a tree of thresholds for each tested column, kWays rows side by
//           side
//
// Masks take the same time for one row as for 64, so a block's last rows are followed by steps
// where they are few. That depends on the rows of a run, which only the run knows. Microseconds of
// a call, of 200 trees of depth 6 and 28 columns, with vectors of 512 bits, warm: one row by
// steps 1.9, by ways (TreeKernel.cpp) 2.5; 1000 rows by masks 390, by ways 1400.
//
// Both add leaves in the order of the trees: a row's result does not depend on the batch that it
// came in.
#pragma once

#include "compiler/targets/cpu/templates/LookupTreeCode.h"

namespace tensmith::kernel {

namespace choice {
/// Fewer rows than that of a block are followed by steps.
inline constexpr Choice maskedRows{"masked_rows", 1, 64};
/// Whether these are followed by lookups instead, where they can be.
inline constexpr Choice lookedUp{"looked_up", 0, 1};
} // namespace choice

/// Rows that are compared at once.
int64_t maskLanes(const CompleteTrees &trees);

/// Follows rows `block` at a time, for items [begin, end) of so many. `block` is a multiple of
/// maskLanes; without `lookups` (null) few rows are followed by steps.
void emitCompleteTrees(ElementEmitter &emitter, graph::KernelOp kernel, graph::TreeEnsembleOp root,
                       const CompleteTrees &trees, const NodeLookups *lookups, int64_t block,
                       int64_t maskedRows, mlir::ValueRange results, mlir::Value begin,
                       mlir::Value end);

} // namespace tensmith::kernel

// What follows an If whose branches give tensors of different rank.
//
// An exporter of dynamic programs writes x.squeeze(1) as "if the dimension is 1: Squeeze, else:
// Identity", and x's rank is then not known to the nodes after it, which need it to be compiled.
// A Squeeze without axes of a dimension whose size only the run tells becomes such an If, too.
// But it is known within each branch: so the nodes that depend on the result move into both
// branches, with the ranks that they have there, and the If gives their results in its place. Where
// they can't be imported with what one branch gives (a convolution of a tensor without channels),
// a run can't get there without failing, and only the other branch is kept, behind a check of the
// condition.
//
// Every such If that depends on another doubles what is imported, and so only a few are followed;
// after those the rank stays unknown. (Splitting paths at a merge to keep what is known on each:
// F. Mueller, D. Whalley, "Avoiding conditional branches by code replication", PLDI 1995.)
#pragma once

#include "compiler/graph/Graph.h"
#include "frontends/onnx/NodeOrder.h"

#include "llvm/ADT/ArrayRef.h"

namespace tensmith::onnx_import {

/// An If whose branches differ in rank, among those whose results these values are and that nothing
/// uses yet; null where there is none.
graph::IfOp divergingBranches(llvm::ArrayRef<mlir::Value> values);

/// Nodes in order: those that depend on any of the names, and the others.
struct Dependents {
  llvm::SmallVector<int> dependent, independent;
  std::unordered_set<std::string> defined; ///< the names, and the dependent nodes' results
};
Dependents dependentsOf(llvm::ArrayRef<std::string> names, const Nodes &nodes,
                        llvm::ArrayRef<int> order);

} // namespace tensmith::onnx_import

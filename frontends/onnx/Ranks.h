// Nodes with operands whose rank only the run tells.
//
// A loop may carry a value that gains a dimension in each iteration, and a shape may be computed
// with as many elements as the data decide. Many rules need a rank: attributes count dimensions
// from one end, and the shapes of weights must fit. Such a node is imported once for each rank that
// its operand may have, and the run chooses:
//
//   if rank(x) = 0: node(x as a scalar)  else if rank(x) = 1: node(x as a vector)  ...
//
// Ranks that the rule refuses are left out. Where one is left, as for a convolution by weights of
// known rank, there is no choice, and the run fails where x has another. So what follows is of
// unknown rank again only where the results' ranks differ.
#pragma once

#include "frontends/onnx/NodeImport.h"

namespace tensmith::onnx_import {

using Import = llvm::function_ref<LogicalResult(NodeImport &)>;

/// Imports the node, for each rank of an operand where it needs one that is not known. Fails with
/// an error emitted.
LogicalResult importForRanks(NodeImport &node, Import import);

} // namespace tensmith::onnx_import

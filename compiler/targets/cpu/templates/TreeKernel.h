// The template around an ensemble of decision trees (graph.tree_ensemble).
#pragma once
#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

bool isTreeRoot(mlir::Operation *op);
/// Whether the forest is one of constants that can be trusted: which the code does.
bool canFollowTrees(graph::TreeEnsembleOp op);
extern const Template kTrees;

} // namespace tensmith::kernel

// The template around an ensemble of decision trees (graph.tree_ensemble).
#pragma once
#include "compiler/kernel/KernelFrame.h"

namespace tensmith::kernel {

bool isTreeRoot(mlir::Operation *op);
/// Whether the forest is one of constants that can be trusted: which the code does.
bool canFollowTrees(graph::TreeEnsembleOp op);
Template treeTemplate(graph::KernelOp kernel, graph::TreeEnsembleOp root);

} // namespace tensmith::kernel

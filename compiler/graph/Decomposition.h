// What it takes to put a decomposition in its operator's place (Decomposable, GraphInterfaces.td).
#pragma once

#include "compiler/graph/GraphBuilder.h"

namespace tensmith::graph {

/// Gives the values the results' types, where these say the same sizes in other words. False where
/// a value that is used can't have its type.
bool giveTypes(mlir::ResultRange results, llvm::SmallVectorImpl<mlir::Value> &values,
               GraphBuilder &builder);

/// Erases what is unused between `before` (null: the block's begin) and the operator: what an
/// impossible decomposition left behind.
void eraseBetween(mlir::Operation *before, mlir::Operation *op);

/// Takes the block's operators for which `isWhole` holds apart, and what they are made of likewise,
/// until there is none. Fails where one has no decomposition.
mlir::LogicalResult takeApart(mlir::Block &block,
                              llvm::function_ref<bool(mlir::Operation *)> isWhole);

} // namespace tensmith::graph

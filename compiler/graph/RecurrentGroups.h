// Recurrent layers as derivatives take them: a loop over groups of 16 steps, each a loop over its
// steps.
//
// The products of all inputs with the layer's weights, and what these get, would be there at once
// otherwise, while the loop can be gone back through in parts (compiler/autodiff/LoopParts.h).
#pragma once

#include "compiler/graph/GraphBuilder.h"

namespace tensmith::graph {

/// Whether it is an RNN, a GRU or an LSTM.
bool isRecurrentLayer(mlir::Operation *op);

/// How the steps of a layer are taken.
enum class Steps {
  Together,     // all inputs are multiplied at once
  InGroups,     // of a copy of the input that is filled up to whole groups
  ReadInGroups, // which the groups read where it lies: it has no derivative
};

/// What such a layer is made of; one of a few steps, as its decomposition has it.
mlir::LogicalResult decomposeInGroups(mlir::Operation *op, Steps steps, GraphBuilder &graph,
                                      llvm::SmallVectorImpl<mlir::Value> &results);

} // namespace tensmith::graph

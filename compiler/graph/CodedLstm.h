// An LSTM whose products are of 8-bit codes, as ONNX Runtime's DynamicQuantizeLSTM.
#pragma once

#include "compiler/graph/GraphBuilder.h"

namespace tensmith::graph {

/// Weights of one direction, to multiply by from the right: [input, 4 * hidden] and [hidden, 4 *
/// hidden].
struct LstmWeights {
  mlir::Value input, state;
};

/// The layer as a loop over time, with these weights in place of its own, one for each direction. A
/// direction's state is rounded to 8 bits by its own range before each product.
mlir::LogicalResult decomposeCoded(LstmOp layer, llvm::ArrayRef<LstmWeights> weights,
                                   GraphBuilder &graph,
                                   llvm::SmallVectorImpl<mlir::Value> &results);

} // namespace tensmith::graph

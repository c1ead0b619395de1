// Quantisation as arithmetic.
#include "compiler/graph/Graph.h"

using namespace mlir;

namespace tensmith::graph {
LogicalResult QuantizeOp::decompose(GraphBuilder &, SmallVectorImpl<Value> &) { return failure(); }
LogicalResult DequantizeOp::decompose(GraphBuilder &, SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace tensmith::graph

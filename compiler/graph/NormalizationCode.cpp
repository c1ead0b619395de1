// Normalisations as smaller operators.
#include "compiler/graph/Graph.h"

using namespace mlir;

namespace tensmith::graph {
LogicalResult SoftmaxOp::decompose(GraphBuilder &, SmallVectorImpl<Value> &) { return failure(); }
LogicalResult LogSoftmaxOp::decompose(GraphBuilder &, SmallVectorImpl<Value> &) {
  return failure();
}
LogicalResult LayerNormOp::decompose(GraphBuilder &, SmallVectorImpl<Value> &) { return failure(); }
LogicalResult RmsNormOp::decompose(GraphBuilder &, SmallVectorImpl<Value> &) { return failure(); }
LogicalResult BatchNormOp::decompose(GraphBuilder &, SmallVectorImpl<Value> &) { return failure(); }
LogicalResult InstanceNormOp::decompose(GraphBuilder &, SmallVectorImpl<Value> &) {
  return failure();
}
LogicalResult GroupNormOp::decompose(GraphBuilder &, SmallVectorImpl<Value> &) { return failure(); }
LogicalResult LrnOp::decompose(GraphBuilder &, SmallVectorImpl<Value> &) { return failure(); }
LogicalResult AttentionOp::decompose(GraphBuilder &, SmallVectorImpl<Value> &) { return failure(); }

} // namespace tensmith::graph

// Recurrent layers as loops over time.
#include "compiler/graph/Graph.h"

using namespace mlir;

namespace tensmith::graph {
LogicalResult RnnOp::decompose(GraphBuilder &, SmallVectorImpl<Value> &) { return failure(); }
LogicalResult GruOp::decompose(GraphBuilder &, SmallVectorImpl<Value> &) { return failure(); }
LogicalResult LstmOp::decompose(GraphBuilder &, SmallVectorImpl<Value> &) { return failure(); }

} // namespace tensmith::graph

// Einstein summation as smaller operators.
#include "compiler/graph/Graph.h"

using namespace mlir;

namespace tensmith::graph {
LogicalResult EinsumOp::decompose(GraphBuilder &, SmallVectorImpl<Value> &) { return failure(); }

} // namespace tensmith::graph

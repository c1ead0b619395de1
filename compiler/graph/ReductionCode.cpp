// Element code of reductions.
#include "compiler/graph/Graph.h"

using namespace mlir;

namespace tensmith::graph {
Value ReduceSumOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }
bool ReduceSumOp::isMovement() { return false; }
Value ReduceProdOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }
bool ReduceProdOp::isMovement() { return false; }
Value ReduceMaxOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }
bool ReduceMaxOp::isMovement() { return false; }
Value ReduceMinOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }
bool ReduceMinOp::isMovement() { return false; }
Value ArgMaxOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }
bool ArgMaxOp::isMovement() { return false; }
Value ArgMinOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }
bool ArgMinOp::isMovement() { return false; }

} // namespace tensmith::graph

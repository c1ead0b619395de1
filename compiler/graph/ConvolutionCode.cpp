// Element code of pooling windows.
#include "compiler/graph/Graph.h"

using namespace mlir;

namespace tensmith::graph {
Value MaxPoolOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }
bool MaxPoolOp::isMovement() { return false; }
Value AveragePoolOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }
bool AveragePoolOp::isMovement() { return false; }
Value LpPoolOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }
bool LpPoolOp::isMovement() { return false; }

} // namespace tensmith::graph

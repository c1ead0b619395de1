// Element code of the operators that move elements.
#include "compiler/graph/Graph.h"

using namespace mlir;

namespace tensmith::graph {
Value ReshapeOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }
Value TransposeOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }
Value BroadcastOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }
Value SliceOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }
Value ConcatOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }
Value PadOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }
Value ReverseOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }
Value TriluOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }
Value PackOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }

} // namespace tensmith::graph

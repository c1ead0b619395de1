// Element code of reads at indices that are data.
#include "compiler/graph/Graph.h"

using namespace mlir;

namespace tensmith::graph {
Value GatherOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }
Value GatherElementsOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }
Value GatherNDOp::emitElement(ElementContext &, unsigned, ValueRange) { return {}; }

} // namespace tensmith::graph

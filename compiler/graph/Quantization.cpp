// Quantisation: shape functions, and the checks of scales and zero points.
#include "compiler/graph/Inference.h"

using namespace mlir;
using namespace tensmith::graph;

#define GET_OP_CLASSES
#include "compiler/graph/QuantizationOps.cpp.inc"

namespace tensmith::graph {

void GraphDialect::addQuantization() {
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/QuantizationOps.cpp.inc"
      >();
}

LogicalResult QuantizeOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  return infer.unranked() ? infer.giveUnranked(getTo()) : infer.give(getTo(), infer.dims(0));
}
LogicalResult DequantizeOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  return infer.unranked() ? infer.giveUnranked(getTo()) : infer.give(getTo(), infer.dims(0));
}

} // namespace tensmith::graph

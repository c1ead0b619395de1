// Recurrent layers: shape functions.
#include "compiler/graph/Inference.h"

using namespace mlir;
using namespace tensmith::graph;

#define GET_OP_CLASSES
#include "compiler/graph/RecurrentOps.cpp.inc"

namespace tensmith::graph {

void GraphDialect::addRecurrent() {
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/RecurrentOps.cpp.inc"
      >();
}

namespace {
/// The sequence of states, and `states` last states.
template <typename Op> LogicalResult inferRecurrent(Op op, Inference infer, unsigned states) {
  Type element = infer.element(0);
  // x, w, r, bias, lengths, states and peepholes
  if (failed(infer.requireRanks(0, {3, 3, 3, 2, 1, 3, 3, 2})))
    return failure();
  if (infer.unranked())
    return infer.giveUnranked(SmallVector<Type>(1 + states, element));
  Dims x = infer.dims(0);
  AffineExpr directions = infer.constant(op.getDirection() == "bidirectional" ? 2 : 1);
  AffineExpr hidden = infer.constant(op.getHiddenSize());
  if (failed(infer.requireEqual(infer.dims(2)[2], hidden, "(U1)",
                                "hidden_size and the last dimension of r")) ||
      failed(infer.requireEqual(infer.dims(1)[0], directions, "(U2)", "numbers of directions")) ||
      failed(infer.requireEqual(infer.dims(1)[2], x[2], "(U3)", "sizes of the input")))
    return failure();
  bool batchFirst = op.getBatchFirst();
  AffineExpr batch = x[batchFirst ? 0 : 1], steps = x[batchFirst ? 1 : 0];
  Dims all =
      batchFirst ? Dims{batch, steps, directions, hidden} : Dims{steps, directions, batch, hidden};
  Dims last = batchFirst ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden};
  if (failed(infer.give(element, all)))
    return failure();
  for (unsigned state = 0; state < states; ++state)
    if (failed(infer.give(element, last)))
      return failure();
  return success();
}
} // namespace

LogicalResult RnnOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return inferRecurrent(*this, Inference(shapes, *this, results), 1);
}
LogicalResult GruOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return inferRecurrent(*this, Inference(shapes, *this, results), 1);
}
LogicalResult LstmOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return inferRecurrent(*this, Inference(shapes, *this, results), 2);
}

} // namespace tensmith::graph

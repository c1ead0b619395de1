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
/// The sequence of states, and `states` last states; of each gate w, r and bias have rows of their
/// own.
template <typename Op>
LogicalResult inferRecurrent(Op op, Inference infer, int64_t gates, unsigned states) {
  Type element = infer.element(0);
  // x, w, r, bias, lengths, states and peepholes
  if (failed(infer.requireRanks(0, {3, 3, 3, 2, 1, 3, 3, 2})))
    return failure();
  if (infer.unranked())
    return infer.giveUnranked(SmallVector<Type>(1 + states, element));
  Dims x = infer.dims(0);
  AffineExpr directions = infer.constant(op.getDirection() == "bidirectional" ? 2 : 1);
  AffineExpr hidden = infer.constant(op.getHiddenSize());
  bool batchFirst = op.getBatchFirst();
  AffineExpr batch = x[batchFirst ? 0 : 1], steps = x[batchFirst ? 1 : 0];
  Dims all =
      batchFirst ? Dims{batch, steps, directions, hidden} : Dims{steps, directions, batch, hidden};
  Dims last = batchFirst ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden};
  struct Operand {
    StringRef name;
    Dims dims;
  };
  const Operand operands[] = {{"w", {directions, hidden * gates, x[2]}},
                              {"r", {directions, hidden * gates, hidden}},
                              {"bias", {directions, hidden * 2 * gates}},
                              {"sequence_lens", {batch}},
                              {"initial_h", last},
                              {"initial_c", last},
                              {"p", {directions, hidden * 3}}};
  for (auto [number, operand] : llvm::enumerate(operands)) {
    unsigned index = unsigned(number) + 1;
    for (size_t dim = 0; infer.present(index) && dim < operand.dims.size(); ++dim)
      if (failed(infer.requireEqual(infer.dims(index)[dim], operand.dims[dim],
                                    (operand.name + ":").str(),
                                    "its dimension " + std::to_string(dim) +
                                        " and that which x, hidden_size and direction give")))
        return failure();
  }
  if (failed(infer.give(element, all)))
    return failure();
  for (unsigned state = 0; state < states; ++state)
    if (failed(infer.give(element, last)))
      return failure();
  return success();
}
} // namespace

LogicalResult RnnOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return inferRecurrent(*this, Inference(shapes, *this, results), 1, 1);
}
LogicalResult GruOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return inferRecurrent(*this, Inference(shapes, *this, results), 3, 1);
}
LogicalResult LstmOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return inferRecurrent(*this, Inference(shapes, *this, results), 4, 2);
}

} // namespace tensmith::graph

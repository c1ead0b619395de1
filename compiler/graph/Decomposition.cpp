// Decompositions in their operators' places; see Decomposition.h.
#include "compiler/graph/Decomposition.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tensmith::graph {

bool giveTypes(ResultRange results, SmallVectorImpl<Value> &values, GraphBuilder &builder) {
  for (auto [result, value] : llvm::zip(results, values)) {
    if (result.use_empty() || (value && value.getType() == result.getType()))
      continue;
    auto own = value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType();
    auto wanted = dyn_cast<RankedTensorType>(result.getType());
    if (!own || !wanted || own.getElementType() != wanted.getElementType() ||
        failed(verifyCompatibleShape(own, wanted)))
      return false;
    value = builder.reshape(value, builder.shapes.dims(wanted));
    if (!value || value.getType() != result.getType())
      return false;
  }
  return values.size() >= results.size();
}

void eraseBetween(Operation *before, Operation *op) {
  for (Operation *made = op->getPrevNode(); made != before;) {
    Operation *next = made->getPrevNode();
    if (made->use_empty())
      made->erase();
    made = next;
  }
}

LogicalResult takeApart(Block &block, llvm::function_ref<bool(Operation *)> isWhole) {
  for (Operation *op = &block.front(); op;) {
    Operation *before = op->getPrevNode();
    if (!isWhole(op)) {
      op = op->getNextNode();
      continue;
    }
    auto whole = dyn_cast<Decomposable>(op);
    if (!whole)
      return failure();
    OpBuilder builder(op);
    ShapeContext shapes(op->getContext());
    GraphBuilder graph(builder, shapes, op->getLoc());
    SmallVector<Value> results;
    ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic &) { return success(); });
    if (failed(whole.decompose(graph, results)) || !giveTypes(op->getResults(), results, graph))
      return failure();
    for (auto [result, value] : llvm::zip(op->getResults(), results))
      if (!result.use_empty())
        result.replaceAllUsesWith(value);
    op->erase();
    op = before ? before->getNextNode() : &block.front();
  }
  return success();
}

} // namespace tensmith::graph

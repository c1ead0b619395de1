// Decompositions in their operators' places; see Decomposition.h.
#include "compiler/graph/Decomposition.h"

#include "compiler/graph/Precision.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tensmith::graph {

/// Gives the values the results' types, where these say the same sizes in other words. False where
/// a value that is used can't have its type.
static bool giveTypes(ResultRange results, SmallVectorImpl<Value> &values, GraphBuilder &builder) {
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

//===-- Names of sizes -----------------------------------------------------------------------===//

void SizeNames::add(Block &block) {
  take(block.getArgumentTypes());
  for (Operation &op : block)
    add(op);
}

void SizeNames::add(Operation &op) {
  take(op.getResultTypes());
  for (Region &region : op.getRegions())
    for (Block &block : region)
      add(block);
}

void SizeNames::giveTo(ShapeContext &shapes) const {
  for (StringAttr name : names_)
    shapes.symbol(name);
}

void SizeNames::take(TypeRange types) {
  for (Type type : types)
    if (auto ranked = dyn_cast<RankedTensorType>(type))
      for (StringAttr name : symbolNames(ranked))
        names_.insert(name);
}

//===-- Replacements -------------------------------------------------------------------------===//

LogicalResult decomposed(Operation *op, GraphBuilder &builder, SmallVectorImpl<Value> &results) {
  SmallVector<Type> types;
  if (failed(cast<ShapeFunction>(op).inferResults(builder.shapes, types)))
    return failure();
  return cast<Decomposable>(op).decompose(builder, results);
}

bool replaceOperator(
    Operation *op, SizeNames &names,
    llvm::function_ref<LogicalResult(Operation *, GraphBuilder &, SmallVectorImpl<Value> &)>
        replacement) {
  Operation *before = op->getPrevNode();
  OpBuilder builder(op);
  ShapeContext shapes(op->getContext());
  if (isa<Decomposable>(op))
    names.giveTo(shapes);
  GraphBuilder graph(builder, shapes, op->getLoc());
  SmallVector<Value> results;
  ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic &) { return success(); });
  if (failed(replacement(op, graph, results)) || !giveTypes(op->getResults(), results, graph)) {
    eraseBetween(before, op);
    return false;
  }
  Operation *made = before ? before->getNextNode() : &op->getBlock()->front();
  for (; made != op; made = made->getNextNode()) {
    if (op->hasAttr(kKeepsPrecision))
      keepPrecision(made);
    names.add(*made);
  }
  for (auto [result, value] : llvm::zip(op->getResults(), results))
    if (!result.use_empty())
      result.replaceAllUsesWith(value);
  op->erase();
  return true;
}

LogicalResult takeApart(Block &block, llvm::function_ref<bool(Operation *)> isWhole) {
  constexpr int kMostParts = 10000; // of what is written by hand some ten
  SizeNames names;
  names.add(block);
  int parts = 0;
  for (Operation *op = &block.front(); op;) {
    Operation *before = op->getPrevNode();
    if (!isWhole(op)) {
      op = op->getNextNode();
      continue;
    }
    if (++parts > kMostParts)
      return emitError(op->getLoc())
             << "'" << op->getName() << "' is among its own parts, again and again";
    if (!isa<Decomposable>(op) || !replaceOperator(op, names, decomposed))
      return failure();
    op = before ? before->getNextNode() : &block.front();
  }
  return success();
}

} // namespace tensmith::graph

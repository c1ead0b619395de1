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

FailureOr<bool> PartCounts::replace(Operation *op, SizeNames &names, Replacement replacement) {
  constexpr int64_t kMostParts = 1000; // the project's own become some ten
  std::pair<Location, OperationName> own(op->getLoc(), op->getName());
  auto [found, isOriginal] = originals_.try_emplace(op, counts_.size());
  size_t original = found->second;
  if (isOriginal)
    counts_.push_back(0);
  Block *block = op->getBlock();
  Operation *before = op->getPrevNode(), *behind = op->getNextNode();
  if (!replaceOperator(op, names, replacement))
    return false;
  originals_.erase(op); // only an address by now
  Operation *made = before ? before->getNextNode() : &block->front();
  for (; made != behind; made = made->getNextNode())
    made->walk([&](Operation *part) { originals_[part] = original; });
  if (++counts_[original] > kMostParts)
    return emitError(own.first) << "'" << own.second << "' has become more than " << kMostParts
                                << " parts, and is among its own, it seems";
  return true;
}

LogicalResult takeApart(Block &block, llvm::function_ref<bool(Operation *)> isWhole) {
  SizeNames names;
  names.add(block);
  PartCounts parts;
  for (Operation *op = &block.front(); op;) {
    Operation *before = op->getPrevNode();
    if (!isWhole(op)) {
      op = op->getNextNode();
      continue;
    }
    if (!isa<Decomposable>(op))
      return failure();
    auto replaced = parts.replace(op, names, decomposed);
    if (failed(replaced) || !*replaced)
      return failure();
    op = before ? before->getNextNode() : &block.front();
  }
  return success();
}

} // namespace tensmith::graph

// Uses of a buffer, through views and within kernels, decide whether it may be written over; see
// InPlace.h.
#include "compiler/vm/InPlace.h"

#include "compiler/graph/KernelStoring.h"
#include "compiler/program/Program.h"

#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace tensmith::vm {
namespace {

/// The value and the views of it.
SmallVector<Value> aliasesOf(Value value) {
  SmallVector<Value> aliases{value};
  for (size_t next = 0; next < aliases.size(); ++next)
    for (Operation *user : aliases[next].getUsers())
      if (auto view = dyn_cast<graph::ReshapeOp>(user))
        aliases.push_back(view.getY());
  return aliases;
}

/// Whether control flow may hand the value itself on.
bool passesOn(OpOperand &use) {
  Operation *user = use.getOwner();
  return user->hasTrait<OpTrait::IsTerminator>() || isa<program::EnterOp>(user) ||
         (isa<graph::LoopOp>(user) && use.getOperandNumber() >= 2);
}

/// Whether the kernel combines rows or elements into the argument: it leaves the others as they are
/// where both are one buffer.
bool addsInto(graph::KernelOp kernel, Value argument) {
  Operation *scatter = kernel.getBody().front().getTerminator()->getOperand(0).getDefiningOp();
  return graph::storingOf(kernel) == graph::Storing::Sums &&
         isa_and_nonnull<graph::ScatterNDOp, graph::ScatterElementsOp>(scatter) &&
         scatter->getOperand(0) == argument && argument.hasOneUse() && kernel.getNumResults() == 1;
}

/// Whether the kernel has nothing of the operand but the elements at the places at which it writes
/// that result.
bool writesOver(graph::KernelOp kernel, OpOperand &use, OpResult result) {
  auto type = cast<RankedTensorType>(result.getType());
  if (use.getOwner() != kernel || llvm::count(kernel.getInputs(), use.get()) != 1)
    return false;
  if (kernel.getNumResults() > 1 && graph::storingOf(kernel) != graph::Storing::Elements)
    return false;
  Value argument = kernel.getBody().front().getArgument(use.getOperandNumber());
  if (addsInto(kernel, argument))
    return true;
  return argument.getType() == type && isStoredBehindReads(argument, result) &&
         llvm::all_of(kernel.getResultTypes(), [&](Type each) {
           return isReadInPlace(argument, cast<RankedTensorType>(each));
         });
}

/// The operator that a kernel of rows is built around; null where there are several such.
Operation *rowRoot(Block &block) {
  auto isRoot = [](Operation &op) {
    return isa<graph::SoftmaxOp, graph::LogSoftmaxOp, graph::LayerNormOp>(op);
  };
  return llvm::count_if(block, isRoot) == 1 ? &*llvm::find_if(block, isRoot) : nullptr;
}

/// Whether the operator goes along each row of its operand, and gives one element for it.
bool isOnePerRow(Operation *op, RankedTensorType rows) {
  int64_t last = rows.getRank() - 1;
  auto axes = op->getAttrOfType<DenseI64ArrayAttr>("axes");
  auto axis = op->getAttrOfType<IntegerAttr>("axis");
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  bool isAlong = axes ? axes.asArrayRef() == ArrayRef(last) : axis && axis.getInt() == last;
  if (!type || !isAlong || type.getRank() < last || type.getRank() > last + 1)
    return false;
  graph::ShapeContext shapes(op->getContext());
  auto own = shapes.dims(type), all = shapes.dims(rows);
  for (int64_t dim = 0; dim < last; ++dim)
    if (!shapes.equal(own[dim], all[dim]))
      return false;
  return type.getRank() == last || type.getDimSize(last) == 1;
}

/// Whether a kernel of rows takes the argument's rows to the operator: the row that it is at, of
/// which it stores nothing before the root and what is made of a row behind it were computed. What
/// stands before the root is computed where it is read, which may be after a part was stored.
bool readsRow(Operation *op, Value argument, RankedTensorType result) {
  auto kernel = dyn_cast<graph::KernelOp>(op->getParentOp());
  if (!kernel || graph::storingOf(kernel) != graph::Storing::Rows || isa<graph::Elementwise>(op) ||
      op->getOperand(0) != argument || llvm::count(op->getOperands(), argument) != 1 ||
      cast<RankedTensorType>(argument.getType()).clone(result.getElementType()) != result)
    return false;
  Operation *root = rowRoot(*op->getBlock());
  return root && (op == root || (root->isBeforeInBlock(op) && isOnePerRow(op, result)));
}

} // namespace

bool isReadInPlace(Value argument, RankedTensorType result) {
  // Each user once: there are exponentially many paths where values are used twice.
  llvm::SmallPtrSet<Operation *, 8> seen;
  SmallVector<Operation *> users(argument.getUsers());
  while (!users.empty()) {
    Operation *user = users.pop_back_val();
    // What a loop in the kernel reads, it reads again.
    if (user->getBlock() != argument.getParentBlock())
      return false;
    if (isa<graph::YieldOp>(user) || !seen.insert(user).second)
      continue;
    if (readsRow(user, argument, result))
      continue;
    auto own = dyn_cast<RankedTensorType>(user->getResult(0).getType());
    if (!isa<graph::Elementwise>(user) || !own || own.clone(result.getElementType()) != result)
      return false;
    users.append(user->user_begin(), user->user_end());
  }
  return true;
}

bool isStoredBehindReads(Value argument, OpResult result) {
  llvm::SmallPtrSet<Value, 8> seen;
  SmallVector<Value> values{argument};
  bool isForOthers = false;
  while (!values.empty()) {
    Value value = values.pop_back_val();
    for (OpOperand &use : value.getUses()) {
      if (isa<graph::YieldOp>(use.getOwner())) {
        if (use.getOperandNumber() == result.getResultNumber())
          return true;
        isForOthers = true;
      } else if (isa<graph::Elementwise>(use.getOwner())) {
        for (Value made : use.getOwner()->getResults())
          if (seen.insert(made).second)
            values.push_back(made);
      }
    }
  }
  return !isForOthers;
}

bool isUpdateInPlace(BlockArgument argument, Value result) {
  auto kernel = result.getDefiningOp<graph::KernelOp>();
  auto type = dyn_cast<RankedTensorType>(argument.getType());
  if (!kernel || !type || result.getType() != type || kernel->getBlock() != argument.getOwner())
    return false;
  int64_t within = 0;
  for (Value alias : aliasesOf(argument))
    for (OpOperand &use : alias.getUses()) {
      Operation *here = argument.getOwner()->findAncestorOpInBlock(*use.getOwner());
      if (passesOn(use) || !here || (here != kernel && !here->isBeforeInBlock(kernel)))
        return false;
      if (here == kernel && (++within > 1 || !writesOver(kernel, use, cast<OpResult>(result))))
        return false;
    }
  return true;
}

} // namespace tensmith::vm

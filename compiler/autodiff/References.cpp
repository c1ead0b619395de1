// References to values that change: what they refer to has its change beside it.
//
// before: r = reference v          after: r = reference (v, change of v)
//         x = read r                      (x, change of x) = read r
//         write r, y                      write r, (y, change of y)
//
// Forward, the change is the tangent. In reverse it is the cotangent that reads of the value have
// given it since it was written, none until the way back begins: a read adds its own to it, and a
// write, which is passed on the way back before all that read what was there earlier, takes it away
// and leaves none. The way back knows the reference from the tape, as any value, so one that goes
// by several names, or lies in data, functions or other references, has its change with it. And no
// value has to be put back: what the way back uses of those that were written over is on the tape.
//
// That holds since all code that acts on references is differentiated, whether anything flows
// through it or not (Activity.h). Pearlmutter and Siskind, "Reverse-Mode AD in a Functional
// Framework", TOPLAS 2008, leave references out; Griewank and Walther, "Evaluating Derivatives",
// section 4.3, has the rule for what is written over.
#include "compiler/autodiff/Forward.h"
#include "compiler/autodiff/Procedures.h"

using namespace mlir;

namespace tensmith::autodiff {

/// Sizes are each value's own: another that is written may have others.
static Type withoutSizes(Type type) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked)
    return type;
  SmallVector<int64_t> shape(size_t(ranked.getRank()), ShapedType::kDynamic);
  return RankedTensorType::get(shape, ranked.getElementType());
}

program::ObjectType Changes::cellOf(Type type) {
  Type value = withoutSizes(type);
  program::ObjectType change = typeOf(value);
  auto cell =
      program::ObjectType::get(module_.getContext(), ("Cell[" + change.getText() + "]").str());
  if (!structures_.find(cell))
    structures_.add(cell, {{value, change}});
  return cell;
}

Value Changes::cell(Value value, Value change) {
  return code_.builder.create<program::ConstructOp>(code_.graph.location, cellOf(value.getType()),
                                                    ValueRange{value, change}, 0);
}

Value Changes::readCell(Value reference, Type type) {
  return code_.builder.create<program::ReadOp>(code_.graph.location, cellOf(type), reference);
}

// ---- reverse ----

/// The read gives up its cotangent to the cell. What else is there is of no use any more.
void Reverse::pullRead(program::ReadOp read, Value cotangent) {
  Value reference = read.getReference();
  Type type = read.getType(), held = withoutSizes(type);
  {
    OpBuilder::InsertionGuard guard(code_.builder);
    code_.builder.setInsertionPoint(read);
    Value value = changes().field(changes().readCell(reference, type), 0, type);
    activity_.add(value);
    read.getResult().replaceAllUsesWith(value);
  }
  activity_.retire(read);
  if (!cotangent)
    return;
  Value own = isa<TensorType>(type) ? changes().some(cotangent, held) : cotangent;
  Value cell = changes().readCell(reference, type);
  Value sum = changes().add(changes().changeIn(cell, held), own, held);
  code_.builder.create<program::WriteOp>(code_.graph.location, reference,
                                         changes().cell(changes().field(cell, 0, held), sum));
}

LogicalResult Reverse::pullReference(Operation *op, Value cotangent) {
  auto read = dyn_cast<program::ReadOp>(op);
  Value value = read ? read.getResult() : op->getOperands().back();
  Type type = value.getType();
  if (!changes().isPossible(type))
    return success();
  if (read) {
    pullRead(read, cotangent);
    return success();
  }
  {
    OpBuilder::InsertionGuard guard(code_.builder);
    code_.builder.setInsertionPoint(op);
    op->setOperand(op->getNumOperands() - 1, changes().cell(value, changes().none(type)));
  }
  auto write = dyn_cast<program::WriteOp>(op);
  Value reference = op->getNumResults() ? op->getResult(0) : op->getOperand(0);
  Value cell = changes().readCell(reference, type);
  if (write) {
    Type held = withoutSizes(type);
    Value rest = changes().cell(changes().field(cell, 0, held), changes().none(held));
    code_.builder.create<program::WriteOp>(op->getLoc(), reference, rest);
  }
  return addChange(value, changes().changeIn(cell, type));
}

// ---- forward ----

LogicalResult Forward::pushReference(Operation *op) {
  Changes &changes = pushed_->changes;
  auto read = dyn_cast<program::ReadOp>(op);
  Value value = read ? read.getResult() : op->getOperands().back();
  Type type = value.getType();
  if (!changes.isPossible(type))
    return success();
  if (!read) {
    code_.builder.setInsertionPoint(op);
    Value change = changeOf(value);
    if (change)
      op->setOperand(op->getNumOperands() - 1, changes.cell(value, change));
    return success(change != nullptr);
  }
  Value cell = changes.readCell(read.getReference(), type);
  Value own = changes.field(cell, 0, type), change = changes.changeIn(cell, type);
  activity_.add(own);
  give(own, isa<TensorType>(type) ? changes.tensor(change, own) : change);
  value.replaceAllUsesWith(own);
  activity_.retire(read);
  return success(tangent(own) != nullptr);
}

} // namespace tensmith::autodiff

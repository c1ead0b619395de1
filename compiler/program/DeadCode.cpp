// What is needed is marked from the results on, and the rest is dropped; so circles go as well: a
// reference that refers to a function that has it. (Cytron and others, "Efficiently computing
// static single assignment form and the control dependence graph", 1991, section 7.1.)
#include "compiler/program/DeadCode.h"

#include "compiler/program/Program.h"

using namespace mlir;

namespace tensmith::program {
namespace {

class Marking {
public:
  explicit Marking(func::FuncOp procedure) : procedure_(procedure) {}

  void run() {
    procedure_.walk([&](Operation *op) {
      if (isa<func::ReturnOp>(op) || actsOnOthers(op))
        mark(op);
    });
    while (!waiting_.empty())
      need(waiting_.pop_back_val());
    sweep(procedure_.getBody().front());
  }

private:
  static bool isOwn(Value reference) { return reference.getDefiningOp<ReferenceOp>() != nullptr; }

  /// Effects but for those on references that are made here.
  static bool actsOnOthers(Operation *op) {
    if (auto write = dyn_cast<WriteOp>(op))
      return !isOwn(write.getReference());
    return op->getNumRegions() == 0 && !isa<ReferenceOp, ReadOp>(op) && !isMemoryEffectFree(op);
  }

  void mark(Operation *op) {
    if (op && live_.insert(op).second)
      waiting_.push_back(op);
  }

  void need(Operation *op) {
    for (Value operand : op->getOperands())
      mark(operand.getDefiningOp());
    for (Region &region : op->getRegions())
      if (isa<MatchOp, IfOp>(op))
        mark(region.front().getTerminator());
      else // an operator of tensors
        region.walk([&](Operation *inner) { mark(inner); });
    if (Operation *around = op->getParentOp(); !isa<func::FuncOp>(around))
      mark(around);
    if (isa<ReferenceOp>(op))
      for (Operation *user : op->getUsers())
        if (auto write = dyn_cast<WriteOp>(user); write && write.getReference() == op->getResult(0))
          mark(user);
  }

  void sweep(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
      if (!live_.contains(&op)) {
        op.dropAllUses();
        op.erase();
        continue;
      }
      if (isa<MatchOp, IfOp>(op))
        for (Region &region : op.getRegions())
          sweep(region.front());
    }
  }

  func::FuncOp procedure_;
  llvm::DenseSet<Operation *> live_;
  SmallVector<Operation *> waiting_;
};

} // namespace

void dropDeadCode(func::FuncOp procedure) { Marking(procedure).run(); }

} // namespace tensmith::program

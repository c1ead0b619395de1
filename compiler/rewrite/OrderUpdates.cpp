// A state is updated after its old value was read for the last time, so that the kernel may write
// over it.
//
// before: w' = kernel(w, gradient), pack(w)      after: pack(w), w' = kernel(w, gradient)
//
// Where the two don't depend on one another nothing else decides their order; a reader that needs
// the new value keeps it, and the state is then copied. One that is updated by successful runs
// alone comes behind all that may fail, too.
#include "compiler/graph/Failing.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/States.h"
#include "compiler/rewrite/Rewrites.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// The order of a block, by numbers far enough apart for what is moved in between: the block's own
/// would be made anew after every few moves.
class Order {
public:
  explicit Order(Block &block) : block_(block) { number(); }

  bool isBefore(Operation *a, Operation *b) const {
    return numbers_.lookup(a) < numbers_.lookup(b);
  }

  void moveAfter(Operation *op, Operation *place) {
    op->moveAfter(place);
    Operation *next = op->getNextNode();
    int64_t before = numbers_.lookup(place),
            after = next ? numbers_.lookup(next) : before + 2 * kApart;
    numbers_[op] = before + (after - before) / 2;
    if (after - before < 2)
      number();
  }

private:
  static constexpr int64_t kApart = int64_t(1) << 32;

  void number() {
    int64_t last = 0;
    for (Operation &op : block_)
      numbers_[&op] = last += kApart;
  }

  Block &block_;
  llvm::DenseMap<Operation *, int64_t> numbers_;
};

/// The last operator of the block, other than the update and the function's end, that reads the
/// value or a view of it; null where there is none.
Operation *lastReader(Value value, Operation *update, const Order &order) {
  Operation *last = nullptr;
  SmallVector<Value> aliases{value};
  for (size_t next = 0; next < aliases.size(); ++next)
    for (Operation *user : aliases[next].getUsers()) {
      Operation *here = update->getBlock()->findAncestorOpInBlock(*user);
      if (!here || here == update || here->hasTrait<OpTrait::IsTerminator>())
        continue;
      if (!last || order.isBefore(last, here))
        last = here;
      if (auto view = dyn_cast<graph::ReshapeOp>(user))
        aliases.push_back(view.getY());
    }
  return last;
}

/// The last operator of the block that may end the run; null where there is none.
Operation *lastFailing(Block &block) {
  for (Operation &op : llvm::reverse(block.without_terminator()))
    if (graph::mayFail(&op))
      return &op;
  return nullptr;
}

/// The operator and all that need its results, in the order of the block; without its end.
SmallVector<Operation *> withDependents(Operation *op, const Order &order) {
  llvm::SetVector<Operation *> found;
  found.insert(op);
  for (size_t next = 0; next < found.size(); ++next)
    for (Operation *user : found[next]->getUsers())
      if (Operation *here = op->getBlock()->findAncestorOpInBlock(*user);
          here && !here->hasTrait<OpTrait::IsTerminator>())
        found.insert(here);
  SmallVector<Operation *> sorted(found.begin(), found.end());
  llvm::sort(sorted, [&](Operation *a, Operation *b) { return order.isBefore(a, b); });
  return sorted;
}

} // namespace

LogicalResult orderUpdates(func::FuncOp function, const Options &) {
  Order order(function.getBody().front());
  Operation *failing = lastFailing(function.getBody().front());
  for (BlockArgument argument : function.getArguments()) {
    Value next = graph::nextValue(function, argument);
    auto update = next ? next.getDefiningOp<graph::KernelOp>() : graph::KernelOp();
    if (!update || update->getBlock() != argument.getOwner())
      continue;
    Operation *reader = lastReader(argument, update, order);
    if (failing && function.getArgAttr(argument.getArgNumber(), graph::kOnSuccess) &&
        (!reader || order.isBefore(reader, failing)))
      reader = failing;
    if (!reader || order.isBefore(reader, update))
      continue;
    SmallVector<Operation *> moved = withDependents(update, order);
    if (llvm::is_contained(moved, reader))
      continue;
    // Those that stand behind the reader are where they should be.
    Operation *after = reader;
    for (Operation *op : moved) {
      if (order.isBefore(op, after))
        order.moveAfter(op, after);
      after = op;
    }
  }
  return success();
}

} // namespace tensmith::rewrite

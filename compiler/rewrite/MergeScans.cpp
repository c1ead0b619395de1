// What a loop stacks twice is stacked once, and what nobody reads of it isn't stacked.
//
// before: a, b = loop { yield ..., x, x }     after: a = loop { yield ..., x }, with a for b
//
// The way back of a loop stacks a cotangent for each of its readers; that they are one value shows
// once equal operators of the body are. Nor is what nobody needs carried, but its own next value:
//
// before: a, s = loop { yield ..., f(a), s + g(a) }      after: a = loop { yield ..., f(a) }
//         where nobody reads s
//
// A part of a loop that is run again for the way back has such sums (autodiff/LoopParts.h).
#include "compiler/graph/DeadCode.h"
#include "compiler/graph/Graph.h"
#include "compiler/rewrite/Rewrites.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

graph::YieldOp yieldOf(graph::LoopOp loop) {
  return cast<graph::YieldOp>(loop.getBody().front().getTerminator());
}

Value argumentOf(graph::LoopOp loop, unsigned carried) {
  return loop.getBody().getArgument(2 + carried);
}

/// All of the loop's values that are needed for these and by operators that stay whatever reads
/// them.
llvm::SetVector<Value> neededFor(graph::LoopOp loop, ArrayRef<Value> values) {
  llvm::SetVector<Value> needed(values.begin(), values.end());
  auto take = [&](Operation *op) {
    op->walk(
        [&](Operation *inner) { needed.insert(inner->operand_begin(), inner->operand_end()); });
  };
  for (Operation &op : loop.getBody().front().without_terminator())
    if (!wouldOpBeTriviallyDead(&op))
      take(&op);
  for (size_t next = 0; next < needed.size(); ++next)
    if (Operation *op = needed[next].getDefiningOp())
      if (Operation *own = loop.getBody().front().findAncestorOpInBlock(*op))
        take(own);
  return needed;
}

/// Whether something that is computed of the value has sizes that are told by name: others may go
/// by them without reading it.
bool tellsSizes(Value value) {
  llvm::SetVector<Value> computed;
  computed.insert(value);
  for (size_t next = 0; next < computed.size(); ++next) {
    Type whole = computed[next].getType();
    auto sequence = dyn_cast<graph::SequenceType>(whole);
    auto type = dyn_cast<RankedTensorType>(sequence ? sequence.getElement() : whole);
    if (!type || (sequence && !type.hasStaticShape()) || !graph::symbolNames(type).empty())
      return true;
    for (Operation *user : computed[next].getUsers()) {
      if (user->getNumRegions())
        return true;
      computed.insert(user->result_begin(), user->result_end());
    }
  }
  return false;
}

/// What is carried and needed; what isn't could as well be what it was at first.
SmallVector<unsigned> takeNeeded(graph::LoopOp loop) {
  unsigned carried = loop.getCarried().size();
  ValueRange yielded = yieldOf(loop).getValues();
  SmallVector<Value> roots{yielded[0]};
  llvm::append_range(roots, yielded.drop_front(1 + carried));
  SmallVector<unsigned> open;
  for (unsigned i = 0; i < carried; ++i) {
    bool canGo = loop.getResult(i).use_empty() &&
                 argumentOf(loop, i).getType() == loop.getCarried()[i].getType() &&
                 loop.getResult(i).getType() == argumentOf(loop, i).getType() &&
                 !tellsSizes(argumentOf(loop, i));
    if (canGo)
      open.push_back(i);
    else
      roots.push_back(yielded[1 + i]);
  }
  for (bool changed = true; changed && !open.empty();) {
    llvm::SetVector<Value> needed = neededFor(loop, roots);
    auto isNeeded = [&](unsigned i) { return needed.contains(argumentOf(loop, i)); };
    for (unsigned i : open)
      if (isNeeded(i))
        roots.push_back(yielded[1 + i]);
    size_t before = open.size();
    llvm::erase_if(open, isNeeded);
    changed = open.size() != before;
  }
  SmallVector<unsigned> kept;
  for (unsigned i = 0; i < carried; ++i)
    if (!llvm::is_contained(open, i))
      kept.push_back(i);
  return kept;
}

/// The results that stay, by number: those carried, and of those stacked one for each value that is
/// read. Readers of the others are given the one that stays.
SmallVector<unsigned> takeOnce(graph::LoopOp loop) {
  unsigned carried = loop.getCarried().size();
  ValueRange yielded = yieldOf(loop).getValues();
  SmallVector<unsigned> kept = takeNeeded(loop);
  size_t ofCarried = kept.size();
  for (unsigned i = carried; i < loop.getNumResults(); ++i) {
    auto same = llvm::find_if(ArrayRef(kept).drop_front(ofCarried), [&](unsigned other) {
      return yielded[1 + other] == yielded[1 + i] &&
             loop.getResult(other).getType() == loop.getResult(i).getType();
    });
    if (same != kept.end())
      loop.getResult(i).replaceAllUsesWith(loop.getResult(*same));
    else if (!loop.getResult(i).use_empty())
      kept.push_back(i);
  }
  return kept;
}

void rebuild(graph::LoopOp loop, ArrayRef<unsigned> kept) {
  graph::YieldOp yield = yieldOf(loop);
  unsigned carried = loop.getCarried().size();
  SmallVector<Value> yielded{yield.getValues()[0]};
  OperationState state(loop.getLoc(), graph::LoopOp::getOperationName());
  state.addOperands({loop.getTripCount(), loop.getCondition()});
  for (unsigned i : kept)
    if (i < carried)
      state.addOperands(loop.getCarried()[i]);
  for (unsigned i = carried; i-- > 0;)
    if (!llvm::is_contained(kept, i)) {
      argumentOf(loop, i).replaceAllUsesWith(loop.getCarried()[i]);
      loop.getBody().eraseArgument(2 + i);
    }
  state.addAttributes(loop->getAttrs());
  for (unsigned i : kept) {
    yielded.push_back(yield.getValues()[1 + i]);
    state.addTypes(loop.getResult(i).getType());
  }
  yield->setOperands(yielded);
  state.addRegion()->takeBody(loop.getBody());
  Operation *made = OpBuilder(loop).create(state);
  for (auto [position, i] : llvm::enumerate(kept))
    loop.getResult(i).replaceAllUsesWith(made->getResult(position));
  loop.erase();
}

} // namespace

LogicalResult mergeScans(func::FuncOp function, const Options &options) {
  if (options.keepControl)
    return success();
  // What a loop doesn't need others needn't give.
  for (bool changed = true; changed;) {
    changed = false;
    SmallVector<graph::LoopOp> loops;
    function.walk([&](graph::LoopOp loop) { loops.push_back(loop); });
    for (graph::LoopOp loop : loops)
      if (SmallVector<unsigned> kept = takeOnce(loop); kept.size() < loop.getNumResults()) {
        rebuild(loop, kept);
        changed = true;
      }
    if (changed)
      graph::eraseDead(function);
  }
  return success();
}

} // namespace tensmith::rewrite

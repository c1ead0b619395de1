// What a loop stacks twice is stacked once, and what nobody reads of it isn't stacked.
//
// before: a, b = loop { yield ..., x, x }     after: a = loop { yield ..., x }, with a for b
//
// The way back of a loop stacks a cotangent for each of its readers; that they are one value shows
// once equal operators of the body are.
#include "compiler/graph/Graph.h"
#include "compiler/rewrite/Rewrites.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

graph::YieldOp yieldOf(graph::LoopOp loop) {
  return cast<graph::YieldOp>(loop.getBody().front().getTerminator());
}

/// The results that stay, by number: those carried, and of those stacked one for each value that is
/// read. Readers of the others are given the one that stays.
SmallVector<unsigned> takeOnce(graph::LoopOp loop) {
  unsigned carried = loop.getCarried().size();
  ValueRange yielded = yieldOf(loop).getValues();
  auto kept = llvm::to_vector(llvm::seq<unsigned>(0, carried));
  for (unsigned i = carried; i < loop.getNumResults(); ++i) {
    auto same = llvm::find_if(ArrayRef(kept).drop_front(carried), [&](unsigned other) {
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
  SmallVector<Value> yielded{yield.getValues()[0]};
  OperationState state(loop.getLoc(), graph::LoopOp::getOperationName());
  state.addOperands(loop->getOperands());
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
  SmallVector<graph::LoopOp> loops;
  function.walk([&](graph::LoopOp loop) { loops.push_back(loop); });
  for (graph::LoopOp loop : loops)
    if (SmallVector<unsigned> kept = takeOnce(loop); kept.size() < loop.getNumResults())
      rebuild(loop, kept);
  return success();
}

} // namespace tensmith::rewrite

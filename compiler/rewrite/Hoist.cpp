// What a loop computes from values outside of it alone is computed once, before the loop.
//
// before: graph.loop { pack(w), ... }      after: pack(w), graph.loop { ... }
//
// Of kernels, that is what weights become which are no constants: transposed and packed for a
// product in each iteration. Not where the kernel checks indices: its message would come though
// the loop does not run.
#include "compiler/graph/Failing.h"
#include "compiler/graph/Graph.h"
#include "compiler/rewrite/Rewrites.h"

using namespace mlir;

namespace tensmith::rewrite {
LogicalResult hoist(func::FuncOp function, const Options &) {
  // Inner loops first: what leaves one may leave the next.
  function.walk<WalkOrder::PostOrder>([](graph::LoopOp loop) {
    if (loop->getParentOfType<graph::KernelOp>())
      return;
    auto isOutside = [&](Value value) {
      return !loop.getBody().isAncestor(value.getParentRegion());
    };
    for (Operation &op : llvm::make_early_inc_range(loop.getBody().front().without_terminator())) {
      auto kernel = dyn_cast<graph::KernelOp>(op);
      if (kernel && llvm::all_of(kernel.getInputs(), isOutside) && !graph::mayFail(kernel))
        kernel->moveBefore(loop);
    }
  });
  return success();
}

} // namespace tensmith::rewrite

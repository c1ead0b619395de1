// A loop whose body is small becomes a kernel: no call of the runtime between its iterations.
//
// before: graph.loop(trips, condition, carried...) over values from outside
// after:  graph.kernel(trips, condition, carried..., values from outside) { graph.loop }
#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"
#include "compiler/kernel/Template.h"
#include "compiler/rewrite/Rewrites.h"

#include "compiler/kernel/Kernel.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

bool isScalarConstant(Operation *op) {
  return isa<graph::ConstantOp>(op) &&
         cast<ShapedType>(op->getResult(0).getType()).getNumElements() == 1;
}

/// Kernels have scalar constants inside; the others are operands.
void hoistConstants(graph::LoopOp loop) {
  for (Operation &op : llvm::make_early_inc_range(loop.getBody().front()))
    if (isa<graph::ConstantOp>(op) && !isScalarConstant(&op))
      op.moveBefore(loop);
}

/// What the loop takes and what its body uses from outside.
llvm::SetVector<Value> operandsOf(graph::LoopOp loop) {
  llvm::SetVector<Value> operands;
  operands.insert(loop->operand_begin(), loop->operand_end());
  getUsedValuesDefinedAbove(loop.getBody(), operands);
  return operands;
}

graph::KernelOp kernelAround(graph::LoopOp loop, OpBuilder &builder, const Options &options) {
  Region body;
  auto *block = new Block;
  body.push_back(block);
  OpBuilder inside(loop.getContext());
  inside.setInsertionPointToEnd(block);
  SmallVector<Value> inputs;
  IRMapping map;
  for (Value value : operandsOf(loop)) {
    Operation *op = value.getDefiningOp();
    if (op && (isa<graph::NoneOp>(op) || isScalarConstant(op))) {
      map.map(value, inside.clone(*op)->getResult(0));
      continue;
    }
    inputs.push_back(value);
    map.map(value, block->addArgument(value.getType(), value.getLoc()));
  }
  Operation *copy = inside.clone(*loop, map);
  inside.create<graph::YieldOp>(loop.getLoc(), copy->getResults());
  auto kernel = builder.create<graph::KernelOp>(loop.getLoc(), loop->getResultTypes(), inputs,
                                                "loop", /*kind=*/"", /*pitch=*/IntegerAttr());
  kernel.getBody().takeBody(body);
  kernel::matchTemplate(kernel, options.machine);
  return kernel;
}

void compile(graph::LoopOp loop, const Options &options) {
  hoistConstants(loop);
  OpBuilder builder(loop);
  graph::KernelOp kernel = kernelAround(loop, builder, options);
  // An operator without code for its types would take the whole loop to the reference evaluator;
  // outside of a kernel it goes there alone.
  if (!hasKnownSizes(kernel) || !kernel::emitKernel(kernel, options.machine).ok())
    return kernel.erase();
  loop->replaceAllUsesWith(kernel->getResults());
  loop.erase();
}

} // namespace

LogicalResult compileLoops(func::FuncOp function, const Options &options) {
  if (!options.fuse || options.keepControl)
    return success();
  SmallVector<graph::LoopOp> loops;
  function.walk([&](graph::LoopOp loop) {
    if (loop.getNumResults() > 0 && kernel::templateOfLoop(loop, options.machine))
      loops.push_back(loop);
  });
  for (graph::LoopOp loop : loops)
    compile(loop, options);
  return success();
}

} // namespace tensmith::rewrite

// Tiles of a depthwise convolution (DepthwiseTile.h), spread over the cores.
#include "compiler/kernel/DepthwiseKernel.h"

#include "compiler/kernel/Blocking.h"
#include "compiler/kernel/ConvChain.h"
#include "compiler/kernel/DepthwiseTile.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

constexpr int64_t kMaxTaps = 49; // whose pointers are kept

/// A row of the output to each batch, so that no tile lies in two.
Blocking blockingOf(IndexMath &math, const SizeValues &sizes, graph::ConvOp root,
                    const MachineShape &machine, const Schedule &asked) {
  SmallVector<Value> out = dimValues(math, sizes, root.getType());
  Value one = math.constant(1), channels = out.pop_back_val(), columns = out.pop_back_val();
  // Loads bound it, so that a product weighs several of a register tile's.
  Value depth = math.constant(4 * tapCount(root));
  return Blocking::choose(math, machine,
                          {.batch = math.product(out),
                           .rows = columns,
                           .columns = channels,
                           .panels = one,
                           .depth = depth,
                           .rowBytes = math.mul(channels, 4),
                           .height = kDepthwiseHeight},
                          asked);
}

} // namespace

bool isDepthwiseRoot(graph::ConvOp conv) {
  return takesDepthwise(conv) && matchDepthwiseTaps(conv) &&
         (isa<BlockArgument>(imageInMemory(conv)) || computesImage(conv));
}

bool takesDepthwise(graph::ConvOp conv) {
  if (!conv.getChannelsLast() || !isDepthwise(conv))
    return false;
  Type accumulator = graph::kernelElementType(getElementTypeOrSelf(conv.getType()));
  return accumulator && accumulator.isF32() && tapCount(conv) <= kMaxTaps;
}

Template depthwiseTemplate(graph::KernelOp kernel, graph::ConvOp root, const MachineShape &machine,
                           const Schedule &asked) {
  int64_t vectors = asked.panelVectors.value_or(kDepthwiseVectors);
  Template parts;
  parts.summary = "depthwise";
  parts.items = [=](IndexMath &math, const SizeValues &sizes) -> WorkItems {
    Blocking blocking = blockingOf(math, sizes, root, machine, asked);
    Schedule chosen = blocking.schedule();
    chosen.panelVectors = vectors;
    return {blocking.items, blocking.grain, chosen};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    IndexMath &math = emitter.math;
    Blocking blocking = blockingOf(math, emitter.sizes, root, machine, asked);
    DepthwiseTile tiles(emitter, root, machine, vectors, [&](const Position &at, Value offset) {
      storeResults(emitter, kernel, results, at, offset);
    });
    Value one = math.constant(1);
    emitFor(math, begin, end, one, [&](Value item) {
      Value line = math.mul(math.div(item, blocking.tileBlocks), blocking.rows);
      Value tile = math.mul(math.rem(item, blocking.tileBlocks), blocking.tileBlock);
      Value last = math.min(math.add(tile, blocking.tileBlock), blocking.tiles);
      emitFor(math, tile, last, one, [&](Value number) {
        emitRowTile(math, blocking, number, [&](Value column, int64_t height) {
          tiles.emit(math.add(line, column), height);
        });
      });
    });
  };
  return parts;
}

} // namespace tensmith::kernel

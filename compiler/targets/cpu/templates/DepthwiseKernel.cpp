// Tiles of a depthwise convolution, or of one of small groups (DepthwiseTile.h), spread over the
// cores.
#include "compiler/targets/cpu/templates/DepthwiseKernel.h"

#include "compiler/targets/cpu/templates/Blocking.h"
#include "compiler/targets/cpu/templates/Companions.h"
#include "compiler/targets/cpu/templates/ConvChain.h"
#include "compiler/targets/cpu/templates/DepthwiseTile.h"
#include "compiler/targets/cpu/templates/RightOperand.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

constexpr const Choice *kChoices[] = {&choice::tileRows, &choice::panelVectors, &choice::itemTiles,
                                      &choice::itemPanels};

bool isTall(graph::ConvOp conv) {
  constexpr int64_t kFewTaps = 9;
  return hasSmallGroups(conv) || tapCount(conv) > kFewTaps;
}

/// A row of the output to each batch, so that no tile lies in two.
Blocking blockingOf(IndexMath &math, const SizeValues &sizes, graph::ConvOp root,
                    const Machine &machine, const Point &asked) {
  SmallVector<Value> out = dimValues(math, sizes, root.getType());
  Value channels = out.pop_back_val(), columns = out.pop_back_val();
  ProductExtents of{.batch = math.product(out),
                    .rows = columns,
                    .columns = channels,
                    .panels = math.constant(1),
                    // Loads bound it, so that a product weighs several of a register tile's.
                    .depth = math.constant(4 * tapCount(root)),
                    .rowBytes = math.mul(channels, 4),
                    .height = isTall(root) ? kTallHeight : kDepthwiseHeight,
                    .last = LastTile::InParts};
  if (hasSmallGroups(root)) {
    int64_t inputs = cast<RankedTensorType>(root.getW().getType()).getDimSize(1);
    int64_t lanes = machine.lanes(sizeof(float));
    of.panels = math.ceilDiv(channels, math.constant(lanes));
    of.depth = math.constant(tapCount(root) * inputs / stepOfGroups(machine, root));
    of.lineBytes = machine.vectorBytes;
  }
  return Blocking::choose(math, machine, of, asked);
}

} // namespace

bool isSmallGroupsRoot(graph::ConvOp conv) {
  Value panels = fitsSmallGroups(conv) ? matchSmallGroupPanels(conv) : Value();
  if (!panels || !isa<BlockArgument>(imageInMemory(conv)))
    return false;
  Type image = getElementTypeOrSelf(imageInMemory(conv).getType());
  Type weights = getElementTypeOrSelf(panels.getType());
  return weights.isF32() || (weights.isBF16() && image.isBF16());
}

bool isDepthwiseRoot(graph::ConvOp conv) {
  return takesDepthwise(conv) && matchDepthwiseTaps(conv) &&
         (isa<BlockArgument>(imageInMemory(conv)) || computesImage(conv));
}

static KernelParts depthwiseParts(graph::KernelOp kernel, graph::ConvOp root,
                                  const Machine &machine, const Point &asked) {
  bool grouped = hasSmallGroups(root);
  int64_t vectors = isTall(root) ? kTallVectors : kDepthwiseVectors;
  if (!grouped)
    vectors = asked[choice::panelVectors].value_or(vectors);
  KernelParts parts;
  parts.summary = grouped ? "small groups" : "depthwise";
  if (grouped && stepOfGroups(machine, root) > 1)
    parts.summary += ", products by 2";
  parts.items = [=](IndexMath &math, const SizeValues &sizes) -> WorkItems {
    Blocking blocking = blockingOf(math, sizes, root, machine, asked);
    Point chosen = blocking.point().of(kChoices);
    chosen.set(choice::panelVectors, vectors);
    return {blocking.items, blocking.grain, chosen};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    IndexMath &math = emitter.math;
    Blocking blocking = blockingOf(math, emitter.sizes, root, machine, asked);
    DepthwiseTile tiles(emitter, root, machine, vectors, [&](const Position &at, Value row) {
      storeResults(emitter, kernel, results, at, row);
    });
    Value one = math.constant(1);
    emitFor(math, begin, end, one, [&](Value item) {
      SmallVector<Value> at =
          math.delinear(item, {blocking.batch, blocking.tileBlocks, blocking.panelBlocks});
      Value line = math.mul(at[0], blocking.rows), tile = math.mul(at[1], blocking.tileBlock);
      Value last = math.min(math.add(tile, blocking.tileBlock), blocking.tiles);
      Value vector = math.mul(at[2], blocking.panelBlock);
      Value lastVector = math.min(math.add(vector, blocking.panelBlock), blocking.panels);
      emitFor(math, tile, last, one, [&](Value number) {
        emitRowTile(math, blocking, number, [&](const RowGroup &columns) {
          Value pixel = math.add(line, columns.first);
          grouped ? tiles.emitVectors(pixel, columns.height, vector, lastVector)
                  : tiles.emit(pixel, columns.height);
        });
      });
    });
  };
  return parts;
}

static void depthwiseSpace(graph::ConvOp root, const Machine &machine, Space &space) {
  constexpr int64_t kUsual = 256;
  auto shape = cast<RankedTensorType>(root.getType()).getShape();
  int64_t columns = shape.drop_back().back(), channels = shape.back();
  if (ShapedType::isDynamic(columns))
    columns = kUsual;
  int64_t vectors = llvm::divideCeil(channels, machine.lanes(sizeof(float)));
  space.addAll(choice::tileRows, columns);
  if (!hasSmallGroups(root))
    space.addAll(choice::panelVectors, vectors);
  space.addDoubling(choice::itemTiles, llvm::divideCeil(columns, kDepthwiseHeight));
  if (hasSmallGroups(root))
    space.addDoubling(choice::itemPanels, vectors);
}

static bool mayBeDepthwise(Operation *op) {
  auto conv = dyn_cast<graph::ConvOp>(op);
  if (!conv || !cast<RankedTensorType>(conv.getW().getType()).hasStaticShape() ||
      !graph::isChannelsLast(conv) || !isContraction(op))
    return false;
  bool f32 = cast<RankedTensorType>(conv.getType()).getElementType().isF32();
  return takesSmallGroups(conv) || (isDepthwise(conv) && f32);
}

const Template kDepthwise = {
    .name = "depthwise",
    .mayBeRoot = mayBeDepthwise,
    .isRoot =
        [](Operation *op) {
          auto conv = dyn_cast<graph::ConvOp>(op);
          return conv && (isDepthwiseRoot(conv) || isSmallGroupsRoot(conv));
        },
    .parts =
        [](graph::KernelOp kernel, Operation *main, const Machine &machine, const Point &asked) {
          return depthwiseParts(kernel, cast<graph::ConvOp>(main), machine, asked);
        },
    .choices = kChoices,
    .space = [](graph::KernelOp, Operation *main, const Machine &machine,
                Space &space) { depthwiseSpace(cast<graph::ConvOp>(main), machine, space); },
    .storesAtPitch = [](Operation *) { return true; },
    .distrusts = [](graph::KernelOp, Operation *op, const Machine &machine) -> const char * {
      auto conv = dyn_cast<graph::ConvOp>(op);
      return conv && isSmallGroupsRoot(conv) &&
                     cast<RankedTensorType>(matchSmallGroupPanels(conv).getType())
                             .getShape()
                             .back() != machine.lanes(sizeof(float)) * stepOfGroups(machine, conv)
                 ? "its panels are not laid out for this machine"
                 : nullptr;
    },
    .layOutRight = layOutRight,
    .companions = companionsOf,
    .multiplies = true,
};

} // namespace tensmith::kernel

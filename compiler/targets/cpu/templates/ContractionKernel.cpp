// C[rows, columns] tile by tile (RegisterTile.h): products, the operators that follow, and stores.
//
// Loops of an item: panel outside and tile inside, so that a panel of B stays in cache while the
// rows pass, which stay in cache for all panels; rows that have to be copied are copied before,
// and rows of attention's weights are made then. Where the depth is cut (Blocking.h), both loops
// pass each block of it.
#include "compiler/targets/cpu/templates/ContractionKernel.h"

#include "compiler/targets/cpu/templates/AttentionRows.h"
#include "compiler/targets/cpu/templates/Blocking.h"
#include "compiler/targets/cpu/templates/Companions.h"
#include "compiler/targets/cpu/templates/RightOperand.h"

using namespace mlir;

namespace tensmith::kernel {
namespace choice {
/// Of an item: whether each tile passes all panels before the next one does, and not each panel all
/// tiles.
static constexpr Choice tilesFirst{"tiles_first", 0, 1};
} // namespace choice

namespace {

constexpr const Choice *kChoices[] = {
    &choice::matrixUnit, &choice::tileRows,   &choice::panelVectors, &choice::depthBlock,
    &choice::steps,      &choice::linesAhead, &choice::itemTiles,    &choice::itemPanels,
    &choice::rowsApart,  &choice::tilesFirst, &choice::vectors};

/// Rows of the register tile. Where products are added by an instruction of their own, they need a
/// register on the way, which a tile that fills all of few leaves none for: one would be spilled in
/// every step.
int64_t tileRows(const Contraction &contraction, const Machine &machine) {
  const Intrinsic *products = productsOf(contraction, machine);
  // Fewer sums leave registers for what several steps load together (RegisterTile.cpp).
  if (auto burst = burstOf(contraction, machine);
      burst && rowPlace(contraction) != RowPlace::Turned)
    return burst->rows;
  // Blocks of left operands are put together in registers of their own.
  constexpr int64_t kRowsOfBlocks = 4;
  if (products && products->has(InBlocks))
    return kRowsOfBlocks;
  bool fused = products ? products->has(AddsToSum) : isa<FloatType>(contraction.accumulator);
  constexpr int64_t kFewRegisters = 16;
  return fused || machine.vectorRegisters > kFewRegisters ? kTileRows : kTileRows - 1;
}

/// Whether a matrix unit does it: not where rows of register tiles are asked for alone, or panels
/// lie as these take them. Its rows are filled up to whole tiles, so their length must be known.
bool usesMatrixUnit(const Contraction &contraction, const Machine &machine, const Point &asked) {
  int64_t lines =
      cast<RankedTensorType>(contraction.panels.getType()).getShape().drop_back().back();
  bool isKnown = !ShapedType::isDynamic(lines) && !ShapedType::isDynamic(depthOf(contraction.root));
  return isKnown && asked[choice::matrixUnit].value_or(!asked[choice::tileRows]) &&
         contraction.width <= MatrixTile::kColumns && contraction.width % MatrixTile::kLines == 0 &&
         lines % MatrixTile::kLines == 0 && suitsMatrixUnit(machine, contraction.root);
}

/// Whether the image of a convolution is made by its kernel, the rows of an item in the thread's
/// scratch.
bool computesPixels(const Contraction &contraction) {
  return contraction.conv() && !isa<BlockArgument>(contraction.left);
}

Blocking blockingOf(ElementEmitter &emitter, const Contraction &contraction, const Machine &machine,
                    const Point &asked) {
  Extents extents(emitter.math, emitter.sizes, contraction);
  bool unit = usesMatrixUnit(contraction, machine, asked);
  Point taken = asked;
  if (unit)
    taken.set(choice::tileRows, std::nullopt);
  RowSource source(emitter, contraction, unit);
  Type element = storageType(getElementTypeOrSelf(contraction.panels.getType()));
  int64_t elementBytes = std::max(element.getIntOrFloatBitWidth() / 8, 1u);
  return Blocking::choose(
      emitter.math, machine,
      {.batch = extents.batch,
       .rows = source.pads() ? source.paddedRows() : extents.rows,
       .columns = extents.columns,
       .panels = extents.panels,
       .depth = source.totalDepth(),
       .rowBytes = source.bytesPerRow(),
       .lineBytes = contraction.width * elementBytes,
       .height = unit ? MatrixTile::kRows : tileRows(contraction, machine),
       // The rows of a column that is turned are one load.
       .last = source.turns() ? LastTile::InParts : LastTile::Padded,
       .copiesRows = source.takesScratch(),
       .turnsRows = source.turns(),
       .dearRows = scoresOf(contraction.root).has_value() || computesPixels(contraction),
       .matrixUnit = unit,
       .sharedRows = source.pads() ? source.pixelsBehind() : Value(),
       .cutsDepth = !unit && (source.hasOneTap() || contraction.conv()),
       .taps = source.copies() ? 1 : source.tapCount()},
      taken);
}

struct Item {
  Value batch, tile, lastTile, panel, lastPanel;
};

/// Calls body for each item of the range.
void emitItems(IndexMath &math, const Blocking &blocking, Value begin, Value end,
               llvm::function_ref<void(const Item &)> body) {
  emitFor(math, begin, end, math.constant(1), [&](Value item) {
    auto choose = [&](Value apart, Value together) {
      return math.select(blocking.rowsApart, apart, together);
    };
    SmallVector<Value> at =
        math.delinear(item, {blocking.batch, choose(blocking.tileBlocks, blocking.panelBlocks),
                             choose(blocking.panelBlocks, blocking.tileBlocks)});
    Value tile = math.mul(choose(at[1], at[2]), blocking.tileBlock);
    Value panel = math.mul(choose(at[2], at[1]), blocking.panelBlock);
    body({at[0], tile, math.min(math.add(tile, blocking.tileBlock), blocking.tiles), panel,
          math.min(math.add(panel, blocking.panelBlock), blocking.panels)});
  });
}

/// Memory for rows that are copied, and behind them for sums that wait or for the matrix unit,
/// where there is one; returned is the latter's, null where there is none.
Value takeScratch(ElementEmitter &emitter, const Contraction &contraction, const Blocking &blocking,
                  RowSource &source, MatrixTile *unit, Value begin, Value &end) {
  IndexMath &math = emitter.math;
  if (!source.takesScratch() && !blocking.cutsDepth() && !unit)
    return {};
  constexpr int64_t kLine = 64;
  Value rows = math.mul(blocking.tileBlock, blocking.height), bytes = math.constant(0);
  if (source.takesScratch())
    bytes = math.mul(math.ceilDiv(source.scratchBytes(rows), math.constant(kLine)), kLine);
  Value sumBytes = math.constant(0);
  if (blocking.cutsDepth()) {
    int64_t width = contraction.width * contraction.accumulator.getIntOrFloatBitWidth() / 8;
    sumBytes = math.mul(math.mul(rows, blocking.panelBlock), width);
  }
  if (unit)
    sumBytes = unit->scratchBytes();
  Value scratch = emitScratch(emitter, math.add(bytes, sumBytes), begin, end);
  source.setScratch(scratch);
  source.setAhead(rows);
  if (!blocking.cutsDepth() && !unit)
    return {};
  return bytePointer(math, scratch, bytes);
}

/// Rows of a tile, from a slot of the copy on: a part of them, or their elements at k.
using CopyTile =
    std::function<void(Value batch, const RowGroup &rows, Value slotOfTile, Value k, size_t part)>;

void emitItem(IndexMath &math, const Blocking &blocking, RowSource &source, TileEmitter &tiles,
              MatrixTile *unit, const Item &item, Value sums, const CopyTile &copy,
              bool tilesFirst) {
  Value one = math.constant(1), count = math.sub(item.lastTile, item.tile);
  auto slot = [&](Value tile) { return math.mul(math.sub(tile, item.tile), blocking.height); };
  auto rowsOf = [&](Value tile) {
    return math.sub(blocking.firstRow(math, math.add(tile, 1)), blocking.firstRow(math, tile));
  };
  auto copyRows = [&](Value first, Value count, Value slot, Value k, size_t part) {
    constexpr int64_t kRowsAtOnce = 4;
    Value whole = math.mul(math.div(count, math.constant(kRowsAtOnce)), kRowsAtOnce);
    auto copySome = [&](Value begin, Value end, int64_t rows) {
      emitFor(math, begin, end, math.constant(rows), [&](Value row) {
        copy(item.batch, {.first = math.add(first, row), .height = rows}, math.add(slot, row), k,
             part);
      });
    };
    copySome(math.constant(0), whole, kRowsAtOnce);
    copySome(whole, count, 1);
  };
  auto copyTiles = [&](Value k, size_t part = 0) {
    emitFor(math, item.tile, item.lastTile, one, [&](Value t) {
      if (unit)
        return copyRows(blocking.firstRow(math, t), rowsOf(t), slot(t), k, part);
      emitRowTile(math, blocking, t,
                  [&](const RowGroup &rows) { copy(item.batch, rows, slot(t), k, part); });
    });
  };
  if (source.turns())
    emitFor(math, math.constant(0), source.totalDepth(), math.constant(source.step()),
            [&](Value k) { copyTiles(k); });
  for (size_t part = 0; source.copies() && !source.turns() && part < source.copiedParts(); ++part)
    copyTiles({}, part);
  if (source.pads()) {
    Value first = blocking.firstRow(math, item.tile);
    source.copyPadded(item.batch, first, math.sub(blocking.firstRow(math, item.lastTile), first));
  } else if (unit && !source.copies()) {
    Value last = math.sub(item.lastTile, one);
    unit->copyRest(item.batch, blocking.firstRow(math, last), rowsOf(last));
  }
  auto pass = [&](Value t, Value panel) {
    if (unit) {
      tiles.beginMatrixRows(*unit, item.batch, blocking.firstRow(math, t), rowsOf(t), slot(t));
      return tiles.emitPanel(panel);
    }
    if (tilesFirst) // the next panel is the same tile's
      tiles.beginPrefetch(math.constant(0), one, one);
    else
      tiles.beginPrefetch(math.sub(t, item.tile), count, blocking.tileBlock);
    emitRowTile(math, blocking, t, [&](const RowGroup &rows) {
      tiles.beginRows(item.batch, TileRows(math, rows, slot(t)));
      tiles.emitPanel(panel, /*masked=*/!rows.isWhole);
    });
  };
  auto overTiles = [&](auto body) { emitFor(math, item.tile, item.lastTile, one, body); };
  auto overPanels = [&](auto body) { emitFor(math, item.panel, item.lastPanel, one, body); };
  auto passPanels = [&] {
    if (tilesFirst)
      return overTiles([&](Value t) { overPanels([&](Value panel) { pass(t, panel); }); });
    overPanels([&](Value panel) { overTiles([&](Value t) { pass(t, panel); }); });
  };
  if (!sums)
    return passPanels();
  Value rows = math.mul(blocking.tileBlock, blocking.height);
  emitFor(math, math.constant(0), blocking.depthBlocks, one, [&](Value number) {
    Value begin = math.mul(number, blocking.depthBlock);
    Value end = math.min(math.add(begin, blocking.depthBlock), source.depth());
    Value isLast = math.less(blocking.depthBlocks, math.add(number, 2));
    tiles.beginPart(
        {begin, end, math.less(number, one), isLast, sums, item.panel, item.lastPanel, rows});
    passPanels();
  });
}

} // namespace

static KernelParts contractionParts(graph::KernelOp kernel, const Contraction &contraction,
                                    const Machine &machine, const Point &asked) {
  KernelParts parts;
  constexpr StringRef kPlaces[] = {"in place", "moved", "copied", "turned", "gathered", "padded"};
  bool usesUnit = usesMatrixUnit(contraction, machine, asked);
  int64_t rows = usesUnit ? MatrixTile::kRows : tileRows(contraction, machine);
  parts.usesMatrixUnit = usesUnit;
  parts.summary = "contraction, tile " +
                  std::to_string(usesUnit ? rows : asked[choice::tileRows].value_or(rows)) + "x" +
                  std::to_string(contraction.width) + (usesUnit ? " of the matrix unit" : "") +
                  ", rows " + kPlaces[size_t(rowPlace(contraction, usesUnit))].str();
  if (scoresOf(contraction.root))
    parts.summary += ", attention";
  if (contraction.step > 1)
    parts.summary += ", products by " + std::to_string(contraction.step);
  parts.items = [=](IndexMath &math, const SizeValues &sizes) -> WorkItems {
    std::vector<std::string> messages;
    ElementEmitter emitter(math.builder, math.location, sizes, {}, messages);
    Blocking blocking = blockingOf(emitter, contraction, machine, asked);
    Point chosen = blocking.point();
    int64_t lanes = machine.lanes(contraction.accumulator.getIntOrFloatBitWidth() / 8);
    chosen.set(choice::panelVectors, contraction.width / lanes);
    chosen.override(asked.of({&choice::tilesFirst}));
    if (!usesUnit)
      chosen.override(asked.of({&choice::steps, &choice::linesAhead}));
    if (scoresOf(contraction.root))
      chosen.override(asked.of({&choice::vectors}));
    if (suitsMatrixUnit(machine, contraction.root))
      chosen.set(choice::matrixUnit, usesUnit);
    if (usesUnit) { // these would ask for registers
      chosen.set(choice::tileRows, std::nullopt);
      chosen.set(choice::panelVectors, std::nullopt);
    }
    return {blocking.items, blocking.grain, chosen};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    IndexMath &math = emitter.math;
    Extents extents(math, emitter.sizes, contraction);
    RowSource source(emitter, contraction, usesUnit);
    Blocking blocking = blockingOf(emitter, contraction, machine, asked);
    std::optional<MatrixTile> unit;
    if (usesUnit)
      unit.emplace(emitter, contraction, source, machine, blocking.tileBlock, blocking.panelBlock);
    Value memory =
        takeScratch(emitter, contraction, blocking, source, unit ? &*unit : nullptr, begin, end);
    Value sums = unit ? Value() : memory;
    auto store = [&](const Position &at, Value, Value row) {
      storeResults(emitter, kernel, results, at, row);
    };
    TileEmitter tiles(emitter, kernel, contraction, machine, source, extents, store, asked);
    CopyTile copy = [&](Value batch, const RowGroup &rows, Value slot, Value k, size_t part) {
      if (k)
        source.copyColumn(batch, TileRows(math, rows, slot), k);
      else
        source.copyTile(batch, TileRows(math, rows, slot), part);
    };
    std::optional<Contraction> product;
    std::optional<AttentionRows> rows;
    if (auto scores = scoresOf(contraction.root)) {
      product = matchContraction(scores->product);
      rows.emplace(emitter, kernel, *scores, *product, contraction.left, machine, source, asked);
      copy = [&](Value batch, const RowGroup &group, Value slot, Value, size_t) {
        rows->fill(batch, group, slot);
      };
    }
    auto items = [&] {
      emitItems(math, blocking, begin, end, [&](const Item &item) {
        emitItem(math, blocking, source, tiles, unit ? &*unit : nullptr, item, sums, copy,
                 asked[choice::tilesFirst] == 1);
      });
    };
    if (!unit)
      return items();
    emitIf(math, math.less(begin, end), [&] { // else there may be no memory
      unit->begin(memory);
      items();
      unit->end();
    });
  };
  return parts;
}

/// Extents of an open size are taken for the usual ones.
static void contractionSpace(const Contraction &contraction, const Machine &machine, Space &space) {
  constexpr int64_t kUsual = 512;
  auto known = [](int64_t size) { return ShapedType::isDynamic(size) ? kUsual : size; };
  auto extents = cast<RankedTensorType>(contraction.result()).getShape();
  int64_t groups = contraction.conv() ? int64_t(contraction.conv().getGroup()) : 1;
  int64_t columns = known(extents.back()) / groups, rows = 1;
  bool isStack =
      !contraction.conv() && cast<RankedTensorType>(contraction.panels.getType()).getRank() > 3;
  for (int64_t size : isStack ? extents.drop_back().take_back() : extents.drop_back())
    rows *= known(size);
  int64_t depth =
      known(cast<RankedTensorType>(contraction.panels.getType()).getShape().drop_back().back());
  int64_t lanes = machine.lanes(contraction.accumulator.getIntOrFloatBitWidth() / 8);
  bool suitsUnit = suitsMatrixUnit(machine, contraction.root);
  if (suitsUnit)
    space.add(choice::matrixUnit, {0, 1});
  auto ofRegisters = [&](Space::Dimension *dimension) {
    if (dimension && suitsUnit) {
      dimension->guard = &choice::matrixUnit;
      dimension->guardValues = {0};
    }
  };
  ofRegisters(space.addAll(choice::tileRows, rows));
  ofRegisters(space.addAll(choice::panelVectors, llvm::divideCeil(columns, lanes)));
  // A window's sum is cut within each of its taps.
  int64_t taps = 1;
  if (graph::ConvOp conv = contraction.conv())
    for (int64_t tap : cast<RankedTensorType>(conv.getW().getType()).getShape().drop_front(2))
      taps *= tap;
  ofRegisters(space.addDoubling(choice::depthBlock, depth * contraction.step / taps));
  ofRegisters(space.addDoubling(choice::steps, choice::steps.most));
  ofRegisters(space.add(choice::linesAhead, {0, 64, 128, 256, 512}));
  space.addDoubling(choice::itemTiles, llvm::divideCeil(rows, kTileRows));
  space.addDoubling(choice::itemPanels, llvm::divideCeil(columns, lanes));
  space.addAll(choice::rowsApart, 1);
  space.addAll(choice::tilesFirst, 1);
  if (scoresOf(contraction.root))
    space.addDoubling(choice::vectors, choice::vectors.most);
}

/// Of what is depthwise or of small groups that template makes more.
static bool mayBeContraction(Operation *op) {
  if (!isa<graph::MatMulOp, graph::ConvOp>(op))
    return false;
  auto conv = dyn_cast<graph::ConvOp>(op);
  bool known = !conv || (cast<RankedTensorType>(conv.getW().getType()).hasStaticShape() &&
                         graph::isChannelsLast(conv));
  return known && isContraction(op) && !(conv && (takesSmallGroups(conv) || isDepthwise(conv)));
}

const Template kContraction = {
    .name = "contraction",
    .mayBeRoot = mayBeContraction,
    .isRoot = [](Operation *op) { return matchContraction(op).has_value(); },
    .parts =
        [](graph::KernelOp kernel, Operation *main, const Machine &machine, const Point &asked) {
          return contractionParts(kernel, *matchContraction(main), machine, asked);
        },
    .choices = kChoices,
    .space = [](graph::KernelOp, Operation *main, const Machine &machine,
                Space &space) { contractionSpace(*matchContraction(main), machine, space); },
    .storesAtPitch = [](Operation *) { return true; },
    .distrusts = [](graph::KernelOp, Operation *op, const Machine &machine) -> const char * {
      auto match = matchContraction(op);
      if (!match || match->step == 1) // which any machine multiplies, and an open depth has
        return nullptr;
      return match->step != stepOf(machine, getElementTypeOrSelf(match->left.getType()),
                                   getElementTypeOrSelf(match->panels.getType()),
                                   match->accumulator)
                 ? "its panels are not laid out for this machine"
                 : nullptr;
    },
    .layOutRight = layOutRight,
    .companions = companionsOf,
    .contracts = true,
    .multiplies = true,
};

} // namespace tensmith::kernel

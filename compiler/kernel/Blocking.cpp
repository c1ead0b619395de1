// The default choice of blocks, in closed form, so that symbolic sizes choose at run time; see
// Blocking.h.
#include "compiler/kernel/Blocking.h"

#include "compiler/kernel/KernelFrame.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tensmith::kernel {

Blocking Blocking::choose(IndexMath &math, const MachineShape &machine, Value batch, Value rows,
                          Value columns, Value panels, Value depth, Value rowBytes,
                          int64_t height) {
  constexpr int64_t kWorkOfItem = 1 << 18; // multiply-adds that are worth an item of their own
  constexpr int64_t kMaxItems = 64;
  constexpr int64_t kRowsWhileReading = 4; // that are done in the time that reading weights takes
  Blocking b;
  b.rows = rows;
  b.panels = panels;
  b.batch = batch;
  b.height = height;
  b.knownRows = constantIndex(rows);
  Value one = math.constant(1);
  if (b.knownRows) {
    int64_t tiles = std::max<int64_t>((*b.knownRows + b.height - 1) / b.height, 1);
    b.height = std::max<int64_t>((*b.knownRows + tiles - 1) / tiles, 1);
    b.highTiles = *b.knownRows - tiles * (b.height - 1);
    b.tiles = math.constant(tiles);
  } else {
    b.tiles = math.ceilDiv(rows, math.constant(b.height));
  }
  Value busyRows = math.max(rows, math.constant(kRowsWhileReading));
  Value work = math.mul(math.mul(math.mul(batch, busyRows), columns), depth);
  Value wanted =
      math.max(math.min(math.div(work, math.constant(kWorkOfItem)), math.constant(kMaxItems)), one);

  Value cached = math.max(
      math.div(math.constant(machine.l2Bytes / 2), math.max(math.mul(rowBytes, b.height), one)),
      one);
  Value tiles = math.max(b.tiles, one);
  Value tileBlocks = math.ceilDiv(tiles, math.min(cached, tiles));
  Value panelBlocks = math.min(math.max(panels, one),
                               math.ceilDiv(wanted, math.max(math.mul(batch, tileBlocks), one)));
  tileBlocks =
      math.max(tileBlocks,
               math.min(tiles, math.ceilDiv(wanted, math.max(math.mul(batch, panelBlocks), one))));
  b.tileBlock = math.ceilDiv(tiles, tileBlocks);
  b.panelBlock = math.ceilDiv(math.max(panels, one), panelBlocks);
  b.tileBlocks = math.ceilDiv(b.tiles, b.tileBlock);
  b.panelBlocks = math.ceilDiv(panels, b.panelBlock);
  b.items = math.mul(batch, math.mul(b.tileBlocks, b.panelBlocks));
  // A multiply-add in a tile costs a fraction of a scalar operation.
  Value itemWork = math.div(work, math.mul(math.max(b.items, one), math.constant(8)));
  b.grain = grainOf(math, itemWork);
  return b;
}

void emitRowTile(IndexMath &math, const Blocking &blocking, Value number,
                 llvm::function_ref<void(Value, int64_t)> tile) {
  int64_t height = blocking.height;
  if (blocking.knownRows) {
    auto tiles = *constantIndex(blocking.tiles);
    Value high = math.mul(number, height);
    if (blocking.highTiles == tiles)
      return tile(high, height);
    Value low = math.add(math.mul(number, height - 1), blocking.highTiles);
    emitIf(
        math, math.less(number, math.constant(blocking.highTiles)), [&] { tile(high, height); },
        [&] { tile(low, height - 1); });
    return;
  }
  Value first = math.mul(number, height);
  Value left = math.sub(blocking.rows, first);
  Value full = math.less(math.constant(height - 1), left);
  emitIf(
      math, full, [&] { tile(first, height); },
      [&] {
        SmallVector<int64_t> cases;
        for (int64_t rest = 1; rest < height; ++rest)
          cases.push_back(rest);
        auto choice = math.builder.create<scf::IndexSwitchOp>(math.location, TypeRange{}, left,
                                                              cases, cases.size());
        OpBuilder::InsertionGuard guard(math.builder);
        for (auto [region, rest] : llvm::zip_equal(choice.getCaseRegions(), cases)) {
          math.builder.setInsertionPointToStart(&region.emplaceBlock());
          auto end = math.builder.create<scf::YieldOp>(math.location);
          math.builder.setInsertionPoint(end);
          tile(first, rest);
        }
        math.builder.setInsertionPointToStart(&choice.getDefaultRegion().emplaceBlock());
        math.builder.create<scf::YieldOp>(math.location);
      });
}

} // namespace tensmith::kernel

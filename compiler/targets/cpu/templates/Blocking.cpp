// The default choice of blocks, in closed form, so that symbolic sizes choose at run time; see
// Blocking.h.
#include "compiler/targets/cpu/templates/Blocking.h"

#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/KernelFrame.h"

using namespace mlir;

namespace tensmith::kernel {

namespace {

constexpr int64_t kWorkOfItem = 1 << 18; // multiply-adds that are worth an item of their own
/// Of the matrix unit: what is worth an item, and an item that copies its rows; and what is worth
/// it still where items would be few.
constexpr int64_t kWorkOfUnitItem = 1 << 21, kWorkOfCopyingItem = 1 << 22;
constexpr int64_t kLeastWorkOfUnitItem = 1 << 20, kFewItems = 8, kMaxItemsOfCopies = 16;
constexpr int64_t kMaxItems = 64;
constexpr int64_t kRowsWhileReading = 4; // that are done in the time that reading weights takes
/// Of a row of A, in one block of the depth, and of one that is not worth cutting.
constexpr int64_t kDepthBlockBytes = 768 * 4, kUncutBytes = 1024 * 4;
/// That make it worth reading all panels, where items differ in their rows.
constexpr int64_t kTilesOfItem = 8;
/// That make it worth copying rows of a matrix that lies transposed, one cache line of which has
/// elements of several tiles.
constexpr int64_t kPanelsOfTurned = 16;
/// Where the depth is cut, an item's rows of A come from beyond the cache: for some panels, then.
constexpr int64_t kPanelsOfCut = 4, kMaxItemsOfCut = 16;
constexpr int64_t kMultipleOfDepth = 16; // of a block: of whole steps and cache lines
/// Tiles that take less time than their panels to arrive, and those that gain from it still.
constexpr int64_t kFewTiles = 8, kMostStreamingTiles = 24;

/// Bytes of the second-level cache that rows of A may fill: what two panels leave of it, if that is
/// no less than half.
Value bytesForRows(IndexMath &math, const Machine &machine, Value panelBytes) {
  int64_t most = machine.l2Bytes * 3 / 4, least = machine.l2Bytes / 2;
  Value panels = math.min(math.mul(panelBytes, 2), math.constant(machine.l2Bytes - least));
  return math.min(math.sub(math.constant(machine.l2Bytes), panels), math.constant(most));
}

} // namespace

void Blocking::cutRows(IndexMath &math, int64_t tileHeight, bool wholeTiles) {
  // Of few tiles, one with few rows would keep a core waiting for another's.
  constexpr int64_t kFewTiles = 16;
  height = tileHeight;
  auto known = constantIndex(rows);
  int64_t count = std::max<int64_t>(llvm::divideCeil(known.value_or(0), height), 1);
  if (wholeTiles || !known || count > kFewTiles) {
    tiles = math.ceilDiv(rows, math.constant(height));
    if (!wholeTiles && !known && last == LastTile::Padded)
      fillLastTile(math);
    return;
  }
  height = std::max<int64_t>(llvm::divideCeil(*known, count), 1);
  highTiles = *known - count * (height - 1);
  tiles = math.constant(count);
}

/// Rows of the highest code but one (emitRowTile) are as many as that takes at no loss.
static int64_t rowsOfNextCode(int64_t height) {
  return int64_t(llvm::bit_floor(uint64_t(height - 1)));
}

void Blocking::fillLastTile(IndexMath &math) {
  int64_t next = height > 1 ? rowsOfNextCode(height) : 0, most = 2 * next - height;
  if (most < 1)
    return;
  Value rest = math.rem(rows, math.constant(height)), none = math.constant(0);
  Value moved = math.select(math.less(none, rest), math.constant(height - next), none);
  moved = math.select(math.less(rest, math.constant(most + 1)), moved, none);
  rowsLeft = math.select(math.less(tiles, math.constant(2)), none, moved);
}

/// Returns the bytes of A that a row has in one block.
Value Blocking::cutDepth(IndexMath &math, const Machine &machine, const ProductExtents &of,
                         Value weights, const Point &asked) {
  Value one = math.constant(1);
  Value depth = math.div(of.depth, math.constant(of.taps)); // of a tap
  depthBlock = depth;
  depthBlocks = one;
  if (!of.cutsDepth)
    return of.rowBytes;
  if (auto size = asked[choice::depthBlock]) {
    depthBlock = math.constant(*size);
    depthBlocks = math.max(math.ceilDiv(depth, depthBlock), one);
    return math.ceilDiv(of.rowBytes, depthBlocks);
  }
  if (of.taps > 1) {
    cutLongPanels(math, machine, of, depth);
  } else {
    cutLongRows(math, machine, of);
    streamPanels(math, machine, of, weights);
  }
  return math.ceilDiv(of.rowBytes, depthBlocks);
}

void Blocking::cutLongRows(IndexMath &math, const Machine &machine, const ProductExtents &of) {
  auto known = constantIndex(of.rowBytes);
  if (constantIndex(of.rows) == 1 || (known && *known <= kUncutBytes))
    return;
  Value one = math.constant(1);
  Value blocks = math.max(math.ceilDiv(of.rowBytes, math.constant(kDepthBlockBytes)), one);
  Value block = math.ceilDiv(math.ceilDiv(of.depth, blocks), math.constant(kMultipleOfDepth));
  block = math.mul(math.max(block, one), kMultipleOfDepth);
  Value isLong = math.less(math.constant(kUncutBytes), of.rowBytes);
  Value isMuch = math.less(math.constant(machine.l2Bytes / 2), math.mul(of.rowBytes, of.rows));
  auto choose = [&](Value cut, Value whole) {
    return math.select(isLong, math.select(isMuch, cut, whole), whole);
  };
  depthBlock = choose(block, of.depth);
  depthBlocks = choose(math.ceilDiv(of.depth, block), one);
}

/// A panel that the second-level cache hardly holds would come from beyond it for each tile.
void Blocking::cutLongPanels(IndexMath &math, const Machine &machine, const ProductExtents &of,
                             Value depth) {
  auto products = constantIndex(of.depth), known = constantIndex(depth);
  if (!products || !known || constantIndex(tiles) == 1 ||
      *products * of.lineBytes <= machine.l2Bytes / 2)
    return;
  int64_t bytes = machine.l2Bytes / 4; // beside those of rows and sums
  int64_t block = bytes / (of.lineBytes * of.taps) / kMultipleOfDepth * kMultipleOfDepth;
  block = std::max(block, kMultipleOfDepth);
  depthBlock = math.constant(block);
  depthBlocks = math.constant(int64_t(llvm::divideCeil(*known, block)));
  cutsPanels = true;
}

/// A tile by itself reads a panel as it comes; several of them, from the first-level cache.
void Blocking::streamPanels(IndexMath &math, const Machine &machine, const ProductExtents &of,
                            Value weights) {
  Value one = math.constant(1), no = math.less(one, one);
  auto atMost = [&](int64_t most) { return math.less(tiles, math.constant(most + 1)); };
  auto both = [&](Value a, Value b) { return math.select(a, b, no); };
  Value isFar = math.less(math.constant(machine.l2Bytes), weights);
  streamsPanels = both(isFar, both(math.less(one, tiles), atMost(kMostStreamingTiles)));
  auto blockOf = [&](int64_t bytes) {
    int64_t multiples = std::max<int64_t>(bytes / of.lineBytes / kMultipleOfDepth, 1);
    return math.min(math.constant(multiples * kMultipleOfDepth), depthBlock);
  };
  // What is longer is worth more than what is nearer where sums of many tiles wait in between.
  Value block =
      math.select(atMost(kFewTiles), blockOf(machine.l1Bytes / 2), blockOf(machine.l1Bytes));
  depthBlock = math.select(streamsPanels, block, depthBlock);
  // There may be nothing to sum up.
  Value blocks = math.max(math.ceilDiv(of.depth, math.max(depthBlock, one)), one);
  depthBlocks = math.select(streamsPanels, blocks, depthBlocks);
}

static Value itemsFor(IndexMath &math, Value work, int64_t workOfItem) {
  Value most = math.min(math.div(work, math.constant(workOfItem)), math.constant(kMaxItems));
  return math.max(most, math.constant(1));
}

void Blocking::cutForRegisters(IndexMath &math, const Machine &machine, const ProductExtents &of,
                               Value rowBytes, Value work) {
  Value one = math.constant(1), allTiles = math.max(tiles, one), allPanels = math.max(panels, one);
  Value wanted = itemsFor(math, work, kWorkOfItem);
  Value cachedRows = math.div(bytesForRows(math, machine, math.mul(depthBlock, of.lineBytes)),
                              math.max(rowBytes, one));
  Value cached = math.max(math.div(cachedRows, math.constant(height)), one);
  tileBlocks = math.select(math.less(cachedRows, of.rows),
                           math.ceilDiv(allTiles, math.min(cached, allTiles)), one);
  Value mostPanels =
      of.turnsRows ? math.ceilDiv(allPanels, math.constant(kPanelsOfTurned)) : allPanels;
  if (cutsDepth()) {
    Value cut = math.less(one, depthBlocks);
    Value few = math.ceilDiv(allPanels, math.constant(kPanelsOfCut));
    mostPanels = math.select(cut, few, allPanels);
    wanted = math.select(cut, math.min(wanted, math.constant(kMaxItemsOfCut)), wanted);
  }
  auto divide = [&](Value a, Value b) { return math.div(a, math.max(math.mul(of.batch, b), one)); };
  Value worthwhile = math.ceilDiv(allTiles, math.constant(kTilesOfItem));
  Value apart = math.min(worthwhile, divide(wanted, one));
  tileBlocks = math.max(tileBlocks, of.turnsRows ? apart : math.select(rowsApart, apart, one));
  if (of.copiesRows && !of.turnsRows)
    tileBlocks = math.max(tileBlocks, math.min(allTiles, divide(wanted, one)));
  panelBlocks = math.min(of.dearRows ? one : mostPanels,
                         math.ceilDiv(wanted, math.max(math.mul(of.batch, tileBlocks), one)));
  if (cutsPanels) {
    panelBlocks = allPanels;
    // Sums wait in the cache, too.
    Value waiting = math.div(math.constant(machine.l2Bytes / 2), math.constant(of.lineBytes));
    tileBlocks = math.ceilDiv(math.mul(allTiles, height), math.max(waiting, one));
    tileBlocks = math.max(tileBlocks, divide(math.constant(kFewItems), panelBlocks));
    tileBlocks = math.max(math.min(tileBlocks, allTiles), one);
    return;
  }
  if (streamsPanels) {
    tileBlocks = math.select(streamsPanels, one, tileBlocks);
    panelBlocks = math.select(streamsPanels, allPanels, panelBlocks);
  }
  tileBlocks = math.max(
      tileBlocks, math.min(of.turnsRows ? worthwhile : allTiles, divide(wanted, panelBlocks)));
}

/// The unit waits for what it multiplies. So an item's rows of A stay in the first-level cache, or
/// nearly, while all panels pass, if there are items enough; those that pass panels from beyond the
/// second level are more, and stay in that. Of pixels that windows share there are at least twice
/// those that an item copies beside its own.
void Blocking::cutForMatrixUnit(IndexMath &math, const Machine &machine, const ProductExtents &of,
                                Value weights, Value work) {
  constexpr int64_t kTiles = 2, kTilesOfFar = 4;
  constexpr int64_t kPanels = 2, kPanelsOfCopies = 4, kPanelsOfWindows = 2;
  Value one = math.constant(1), allTiles = math.max(tiles, one), allPanels = math.max(panels, one);
  Value wanted = of.copiesRows ? math.min(itemsFor(math, work, kWorkOfCopyingItem),
                                          math.constant(kMaxItemsOfCopies))
                               : itemsFor(math, work, kWorkOfUnitItem);
  Value few = math.div(work, math.constant(kLeastWorkOfUnitItem));
  wanted = math.max(wanted, math.min(few, math.constant(kFewItems)));
  auto cut = [&](Value tilesOfItem, int64_t leastPanels) {
    tileBlocks = math.ceilDiv(allTiles, tilesOfItem);
    Value mostPanels = math.ceilDiv(allPanels, math.constant(leastPanels));
    Value wantedOfTiles = math.div(wanted, math.max(math.mul(of.batch, tileBlocks), one));
    panelBlocks = of.dearRows ? one : math.min(mostPanels, math.max(wantedOfTiles, one));
  };
  Value isFar = math.less(math.constant(machine.l2Bytes / 2), weights);
  Value bytesOfTile = math.mul(math.max(of.rowBytes, one), height);
  Value tilesOfFar = math.div(math.constant(machine.l2Bytes * 3 / 4), bytesOfTile);
  tilesOfFar = math.min(math.max(tilesOfFar, math.constant(kTiles)), math.constant(kTilesOfFar));
  if (of.sharedRows) {
    Value worthwhile = math.ceilDiv(math.mul(of.sharedRows, 2), math.constant(height));
    Value cached = math.div(math.constant(machine.l2Bytes / 2), bytesOfTile);
    cut(math.max(math.min(worthwhile, cached), math.constant(kTilesOfItem)), kPanelsOfWindows);
  } else if (of.copiesRows) { // which are read by the panels that come at once
    cut(math.select(isFar, tilesOfFar, one), kPanelsOfCopies);
  } else {
    cut(math.select(isFar, tilesOfFar, math.constant(kTiles)), kPanels);
  }
}

Blocking Blocking::choose(IndexMath &math, const Machine &machine, const ProductExtents &of,
                          const Point &asked) {
  Blocking b;
  b.asked = asked;
  if (!of.cutsDepth)
    b.asked.set(choice::depthBlock, std::nullopt);
  b.rows = of.rows;
  b.panels = of.panels;
  b.batch = of.batch;
  Value one = math.constant(1), panels = math.max(of.panels, one);
  b.last = of.last;
  b.cutRows(math, asked[choice::tileRows].value_or(of.height), /*wholeTiles=*/of.matrixUnit);
  Value weights = math.mul(math.mul(panels, of.depth), of.lineBytes);
  Value rowBytes = math.max(b.cutDepth(math, machine, of, weights, asked), one);
  Value busyRows = math.max(of.rows, math.constant(kRowsWhileReading));
  Value work = math.mul(math.mul(math.mul(of.batch, busyRows), of.columns), of.depth);
  b.rowsApart = math.less(
      weights, math.max(math.mul(of.rows, of.rowBytes), math.constant(machine.l2Bytes / 2)));
  if (of.matrixUnit)
    b.cutForMatrixUnit(math, machine, of, weights, work);
  else
    b.cutForRegisters(math, machine, of, rowBytes, work);
  b.tileBlock = math.ceilDiv(math.max(b.tiles, one), b.tileBlocks);
  b.panelBlock = math.ceilDiv(panels, b.panelBlocks);
  b.cutItems(math, asked);
  b.tileBlocks = math.ceilDiv(b.tiles, b.tileBlock);
  b.panelBlocks = math.ceilDiv(of.panels, b.panelBlock);
  b.items = math.mul(of.batch, math.mul(b.tileBlocks, b.panelBlocks));
  // A multiply-add in a tile costs a fraction of a scalar operation.
  constexpr int64_t kOfTile = 8, kOfMatrixUnit = 32;
  Value itemWork =
      math.div(work, math.mul(math.max(b.items, one), of.matrixUnit ? kOfMatrixUnit : kOfTile));
  b.grain = grainOf(math, itemWork);
  return b;
}

Blocking Blocking::ofRows(IndexMath &math, Value rows, int64_t height) {
  Blocking b;
  b.rows = rows;
  b.cutRows(math, height);
  return b;
}

Value Blocking::firstRow(IndexMath &math, Value tile) const {
  if (!highTiles) {
    Value first = math.min(math.mul(tile, height), rows);
    if (!rowsLeft)
      return first;
    Value none = math.constant(0), ofLast = math.select(math.less(tile, tiles), rowsLeft, none);
    return math.sub(first, math.select(math.less(math.add(tile, 1), tiles), none, ofLast));
  }
  return math.add(math.mul(tile, height - 1), math.min(tile, math.constant(*highTiles)));
}

void Blocking::cutItems(IndexMath &math, const Point &asked) {
  auto bounded = [&](std::optional<int64_t> size, Value most, Value chosen) {
    return size ? math.min(math.constant(*size), math.max(most, math.constant(1))) : chosen;
  };
  tileBlock = bounded(asked[choice::itemTiles], tiles, tileBlock);
  panelBlock = bounded(asked[choice::itemPanels], panels, panelBlock);
  if (auto apart = asked[choice::rowsApart])
    rowsApart = math.less(math.constant(0), math.constant(*apart));
}

Point Blocking::point() const {
  Point result;
  result.set(choice::tileRows, height);
  // What is asked for holds for all sizes; other choices over symbolic ones are made by the run.
  auto told = [](Value value, std::optional<int64_t> asked) {
    auto known = constantIndex(value);
    return known ? known : asked;
  };
  result.set(choice::itemTiles, told(tileBlock, asked[choice::itemTiles]));
  result.set(choice::itemPanels, told(panelBlock, asked[choice::itemPanels]));
  result.set(choice::depthBlock, asked[choice::depthBlock]);
  if (cutsDepth())
    result.set(choice::depthBlock, told(depthBlock, asked[choice::depthBlock]));
  if (auto apart = constantIndex(rowsApart))
    result.set(choice::rowsApart, *apart != 0);
  return result;
}

static void emitInParts(IndexMath &math, Value first, Value left, int64_t highest,
                        llvm::function_ref<void(RowGroup)> emit) {
  Value within = math.constant(0);
  for (int64_t part = highest; part > 0; part /= 2) {
    Value end = math.sub(left, math.rem(left, math.constant(part)));
    emitIf(math, math.less(within, end), [&] {
      emit({.first = math.add(first, within), .height = part, .within = within, .isWhole = false});
    });
    within = end;
  }
}

/// `left` rows, which are at most `height`, by code for so many or for half of them.
static void emitPadded(IndexMath &math, Value first, Value left, int64_t height,
                       llvm::function_ref<void(RowGroup)> emit) {
  int64_t half = height / 2;
  auto emitAll = [&] {
    bool isExact = half + 1 == height || constantIndex(left) == height;
    emit({.first = first,
          .height = height,
          .count = isExact ? Value() : left,
          .least = isExact ? height : half + 1,
          .isWhole = false});
  };
  if (half == 0)
    return emitAll();
  emitIf(math, math.less(math.constant(half), left), emitAll,
         [&] { emitPadded(math, first, left, half, emit); });
}

void emitRowTile(IndexMath &math, const Blocking &blocking, Value number,
                 llvm::function_ref<void(const RowGroup &)> emit) {
  int64_t height = blocking.height;
  auto known = constantIndex(blocking.rows);
  Value first = blocking.rowsLeft ? blocking.firstRow(math, number) : math.mul(number, height);
  auto emitFull = [&] { emit({.first = first, .height = height}); };
  if (known == 0)
    return;
  if ((known && *known % height == 0) || height == 1)
    return emitFull();
  if (blocking.highTiles) {
    Value low = math.add(math.mul(number, height - 1), *blocking.highTiles);
    return emitIf(math, math.less(number, math.constant(*blocking.highTiles)), emitFull,
                  [&] { emit({.first = low, .height = height - 1, .rowsOfSums = height}); });
  }
  int64_t power = rowsOfNextCode(height);
  // Of known sizes, of which there are many tiles, the height of the last one.
  auto rest = known ? std::optional(*known % height) : std::nullopt;
  Value left =
      rest ? math.constant(*rest) : math.sub(blocking.firstRow(math, math.add(number, 1)), first);
  if (blocking.last == LastTile::Padded && !known) {
    auto emitAlmostFull = [&] {
      emit({.first = first, .height = height, .count = left, .least = power + 1});
    };
    return emitIf(math, math.less(math.constant(power), left), emitAlmostFull,
                  [&] { emitPadded(math, first, left, power, emit); });
  }
  auto emitPart = [&](RowGroup part) {
    if (known)
      part.rowsOfSums = height;
    emit(part);
  };
  Value isFull = known ? math.less(number, math.constant(*known / height))
                       : math.less(math.constant(height - 1), left);
  emitIf(math, isFull, emitFull, [&] {
    if (blocking.last == LastTile::InParts)
      emitInParts(math, first, left, power, emitPart);
    else
      emitPart({.first = first, .height = *rest, .isWhole = false});
  });
}

TileRows::TileRows(IndexMath &math, const RowGroup &group, Value slotOfTile)
    : rowsOfSums(group.rowsOfSums) {
  Value slot = group.within ? math.add(slotOfTile, group.within) : slotOfTile;
  for (int64_t row = 0; row < group.height; ++row) {
    Value place = math.constant(row), there;
    if (group.count && row >= group.least) {
      there = math.less(place, group.count);
      place = math.min(place, math.sub(group.count, math.constant(1)));
    }
    numbers.push_back(math.add(group.first, place));
    slots.push_back(math.add(slot, place));
    isThere.push_back(there);
  }
}

} // namespace tensmith::kernel

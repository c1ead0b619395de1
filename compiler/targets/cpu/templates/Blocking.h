// How a contraction's rows and panels are cut: into register tiles, and tiles into the parallel
// work items.
//
// Rows are cut into tiles of `height` and `height - 1` rows that cover a known number of rows
// exactly (49 rows are 4 tiles of 6 and 5 of 5, not 8 of 6 and a slow one of 1). An item is a block
// of tiles by a block of panels: its rows of A stay in the second-level cache while the panels
// pass, and there are enough items for the cores to share. Neighbouring items, which mostly are one
// core's, share panels where B is larger than A, so that each core reads its own part of B;
// otherwise they share rows, so that a core has rows of its own, which it also wrote if the layer
// before was cut in the same way.
//
// Where the rows are too long for the cache, the sum is cut as well: all tiles and panels of an
// item pass one block of the depth, then the next (Goto and van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication", 2008). Sums are kept in between, and where the depth
// is cut doesn't depend on the number of threads.
//
// Where there are few tiles, and more weights than a core's cache holds, these arrive more slowly
// than they are multiplied. An item is then one panel, of which all tiles pass a block of the depth
// that the first-level cache holds, while the next one arrives.
//
// A window over many channels has panels that the second-level cache hardly holds: these are cut
// likewise, each tap's part of them.
//
// A schedule may ask for other blocks (Schedule.h).
#pragma once

#include "compiler/kernel/IndexMath.h"
#include "compiler/kernel/Machine.h"
#include "compiler/kernel/Space.h"

namespace tensmith::kernel {

namespace choice {
/// Products of a sum that are done at a time, over all of an item's tiles.
inline constexpr Choice depthBlock{"depth_block", 16, kAny, 16};
/// A work item's tiles and panels, and whether neighbouring items differ in their tiles first.
inline constexpr Choice itemTiles{"item_tiles", 1, kAny};
inline constexpr Choice itemPanels{"item_panels", 1, kAny};
inline constexpr Choice rowsApart{"rows_apart", 0, 1};
} // namespace choice

/// What becomes of a tile that isn't full where sizes are open, so that it may have any height.
/// Code for each height would be more than twice as long as that of a full tile.
enum class LastTile {
  /// The code for the next higher power of 2, or for a full tile, in which the last row stands for
  /// those that are missing (5 rows of 6: the fifth is computed twice, and stored once). What the
  /// rows are multiplied with is read once.
  Padded,
  /// Parts of 2^n rows each: for what can't be computed twice.
  InParts,
};

/// What is to be cut.
struct ProductExtents {
  mlir::Value batch, rows, columns, panels;
  mlir::Value depth;     // products summed for one element
  mlir::Value rowBytes;  // of A, distinct for each row
  int64_t lineBytes = 0; // of a panel, for each unit of depth
  int64_t height;        // of a tile
  LastTile last = LastTile::Padded;
  bool copiesRows = false; // each item makes a copy of its rows
  bool turnsRows = false;  // whose elements lie side by side in memory, each k's for itself
  bool dearRows = false;   // which takes as long as the product: no two items make the same
  /// Which multiplies tiles faster than they arrive: rows that the last one lacks cost as much as
  /// those it has.
  bool matrixUnit = false;
  mlir::Value sharedRows =
      {};                 // so many of those that an item copies are another's, too; may be null
  bool cutsDepth = false; // whether the sum may be cut: A's rows are then `depth` elements each,
  int64_t taps = 1;       // or pieces of so many taps, each of which is cut
};

struct Blocking {
  int64_t height; // of a tile, at most
  LastTile last = LastTile::Padded;
  /// Where rows are known and tiles few: so many tiles of `height`, the others of one row less.
  /// Else all but the last one are of `height` rows: of an open size tiles of one height would cost
  /// more, since code that is a little higher computes them (13 rows: 6, 6 and 1, not 5, 5 and 3).
  std::optional<int64_t> highTiles;
  /// Rows that the last tile but one leaves to the last, where this would have few; null where that
  /// is never so. Of an open size (8 rows: 4 and 4, not 6 and 2): a tile of few rows asks for the
  /// next panel faster than that arrives, and has few sums under way. Not where it would be
  /// computed in parts, of which there were more.
  mlir::Value rowsLeft;
  mlir::Value rows, tiles, panels, batch; // extents
  mlir::Value tileBlock, panelBlock;      // of an item
  mlir::Value tileBlocks, panelBlocks;    // their numbers
  mlir::Value depthBlock, depthBlocks;    // of the sum, and their number
  mlir::Value rowsApart;                  // whether neighbouring items share rows, and not panels
  /// Whether all tiles pass a block of one panel, then the next, as it comes from memory; null
  /// where the depth isn't cut.
  mlir::Value streamsPanels;
  bool cutsPanels =
      false; // whether, of windows, all tiles pass a block of one panel, then the next
  mlir::Value items, grain;
  Point asked;

  static Blocking choose(IndexMath &math, const Machine &machine, const ProductExtents &of,
                         const Point &asked = {});
  /// Of rows alone, which are cut into tiles of at most `height`, the last one padded.
  static Blocking ofRows(IndexMath &math, mlir::Value rows, int64_t height);
  /// Where a tile begins, or, behind the last one, where the rows end.
  mlir::Value firstRow(IndexMath &math, mlir::Value tile) const;
  /// As a point says it, as far as the compilation knows.
  Point point() const;
  /// Whether sums may have to be kept; a run may turn out to need one block.
  bool cutsDepth() const { return constantIndex(depthBlocks) != 1; }

private:
  void cutRows(IndexMath &math, int64_t height, bool wholeTiles = false);
  void fillLastTile(IndexMath &math);
  /// Sets tileBlocks and panelBlocks.
  void cutForRegisters(IndexMath &math, const Machine &machine, const ProductExtents &of,
                       mlir::Value rowBytes, mlir::Value work);
  void cutForMatrixUnit(IndexMath &math, const Machine &machine, const ProductExtents &of,
                        mlir::Value weights, mlir::Value work);
  void cutItems(IndexMath &math, const Point &asked);
  mlir::Value cutDepth(IndexMath &math, const Machine &machine, const ProductExtents &of,
                       mlir::Value weights, const Point &asked);
  void cutLongRows(IndexMath &math, const Machine &machine, const ProductExtents &of);
  void cutLongPanels(IndexMath &math, const Machine &machine, const ProductExtents &of,
                     mlir::Value depth);
  void streamPanels(IndexMath &math, const Machine &machine, const ProductExtents &of,
                    mlir::Value weights);
};

/// Rows of a tile that one piece of code computes: `height` of them, or fewer.
struct RowGroup {
  mlir::Value first; // row
  int64_t height;
  /// Fewer may be there: `count`, or null, but at least so many.
  mlir::Value count = {};
  int64_t least = height;
  mlir::Value within = {}; // rows of the tile before it; null: none
  bool isWhole = true;     // whether most tiles are computed by it
  /// The rows by which a sum is cut into parts that go side by side: of known sizes those of most
  /// tiles, so that all rows are summed in one order.
  int64_t rowsOfSums = height;
};

/// Calls `emit` for the rows of tile `number`, once for each group that occurs.
void emitRowTile(IndexMath &math, const Blocking &blocking, mlir::Value number,
                 llvm::function_ref<void(const RowGroup &)> emit);

/// The rows of a group, and their places among those that a thread has in its memory.
struct TileRows {
  TileRows() = default;
  TileRows(IndexMath &math, const RowGroup &group, mlir::Value slotOfTile);

  size_t size() const { return numbers.size(); }

  llvm::SmallVector<mlir::Value> numbers, slots; // the last one's also of those that are missing
  llvm::SmallVector<mlir::Value> isThere;        // null: it is
  int64_t rowsOfSums = 1;
};

} // namespace tensmith::kernel

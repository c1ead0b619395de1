// How a contraction's rows and panels are cut: into register tiles, and tiles into the parallel
// work items.
//
// Rows are cut into tiles of `height` and `height - 1` rows that cover a known number of rows
// exactly (49 rows are 4 tiles of 6 and 5 of 5, not 8 of 6 and a slow one of 1). An item is a block
// of tiles by a block of panels: its rows of A stay in half of the second-level cache while the
// panels pass, and there are enough items for the cores to share.
#pragma once

#include "compiler/kernel/IndexMath.h"
#include "compiler/kernel/Kernel.h"

namespace tensmith::kernel {

struct Blocking {
  int64_t height; // of a full tile
  std::optional<int64_t> knownRows;
  int64_t highTiles = 0; // where rows are known: so many tiles of `height`, the rest of height - 1
  mlir::Value rows, tiles, panels, batch; // extents
  mlir::Value tileBlock, panelBlock;      // of an item
  mlir::Value tileBlocks, panelBlocks;    // their numbers
  mlir::Value items, grain;

  /// `rowBytes`: of A, distinct for each row; `depth`: products summed for one element.
  static Blocking choose(IndexMath &math, const MachineShape &machine, mlir::Value batch,
                         mlir::Value rows, mlir::Value columns, mlir::Value panels,
                         mlir::Value depth, mlir::Value rowBytes, int64_t height);
};

/// Calls `tile(first row, height)` for row tile `number`: once for each height that occurs.
void emitRowTile(IndexMath &math, const Blocking &blocking, mlir::Value number,
                 llvm::function_ref<void(mlir::Value, int64_t)> tile);

} // namespace tensmith::kernel

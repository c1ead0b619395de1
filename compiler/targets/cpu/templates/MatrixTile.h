// Sums of products by a matrix unit whose registers are tiles (Intrinsic.h).
//
// A tile has 16 lines of 64 bytes. Of A they are rows, of 64 bytes of the depth; of B, the depth's
// `step` rows that lie side by side, for 16 columns: a part of a panel's line. One instruction adds
// the product of two such tiles to 16 x 16 sums. Four tiles of sums, of 32 rows by 32 columns, take
// two of A and two of B for four products, which is as much as caches bring meanwhile.
//
// Rows of A have to be evenly apart (RowSource.h). A tile reads all of its rows: those that a
// matrix has behind its last whole tile are copied, to where there is memory behind them. What sums
// they give is not looked at.
#pragma once

#include "compiler/kernel/Contraction.h"
#include "compiler/targets/cpu/templates/RowSource.h"

namespace tensmith::kernel {

class MatrixTile {
public:
  static constexpr int64_t kLines = MatrixUnit::kLines, kLineBytes = MatrixUnit::kLineBytes;
  static constexpr int64_t kRows = 2 * kLines, kColumns = 2 * kLines;
  /// For items of so many tiles and panels at most.
  MatrixTile(ElementEmitter &emitter, const Contraction &contraction, RowSource &source,
             const Machine &machine, mlir::Value tiles, mlir::Value panels);

  /// Of the thread.
  mlir::Value scratchBytes();
  /// Sets the unit up for the thread; what follows until `end` may use it.
  void begin(mlir::Value scratch);
  void end();

  /// Of a matrix; of an item whose last tile has so many rows from `first` on.
  void copyRest(mlir::Value batch, mlir::Value first, mlir::Value count);
  /// Rows of A: so many of a batch, from `first` on, at most kRows; an item's from `slot` on.
  void beginRows(mlir::Value batch, mlir::Value first, mlir::Value count, mlir::Value slot);
  /// The sums of the rows begun and a panel's first `columns` / kLines tiles of columns. `start`:
  /// the panel's first element. The tiles that pass a panel prefetch the next one together, and an
  /// item's tiles on all panels the next item's rows, where either doesn't come from near.
  void emitSums(mlir::Value panel, mlir::Value start, int64_t columns);
  /// A vector of kLines sums of a row, counted from the first, where `emitSums` has put them.
  mlir::Value sums(mlir::Value row, int64_t column);

private:
  void emitDepth(mlir::Value panel, mlir::Value start, int64_t columns, bool both);
  /// From a row's first byte to what it has for the products from the `k`th on.
  mlir::Value bytesToProduct(mlir::Value k);
  /// Lines of the next panel, in the step of the depth at `k`.
  void prefetchPanel(mlir::Value start, mlir::Value k);
  /// Lines of the next item's rows.
  void prefetchRows(mlir::Value panel, mlir::Value k);
  mlir::Value stepsBefore(mlir::Value tiles, mlir::Value k);
  void prefetchLines(mlir::Value pointer, mlir::Value begin, int64_t count);
  /// Adds the product of two tiles to a third.
  void multiply(int64_t sum, int64_t left, int64_t right);
  mlir::Value scratch(mlir::Value bytes);
  mlir::Value bytesFrom(mlir::Value pointer, mlir::Value bytes);
  int64_t elementBytes() const;

  ElementEmitter &emitter_;
  IndexMath &math_;
  const Contraction &contraction_;
  RowSource &source_;
  const MatrixUnit &unit_;
  const Intrinsic &multiplication_;
  int64_t products_;
  int64_t fetchedLines_ = 0, fetchedLinesOfRows_ = 0; // in a step of the depth
  int64_t tiles_ = 0; // of an item whose next one's rows are fetched
  mlir::Value scratch_, batch_, first_, count_, slot_;
};

} // namespace tensmith::kernel

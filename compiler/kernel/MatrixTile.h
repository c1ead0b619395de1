// Sums of products by a matrix unit whose registers are tiles: Intel's AMX ("Intel 64 and IA-32
// Architectures Software Developer's Manual", volume 1, "Programming with Intel AMX").
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
#include "compiler/kernel/RowSource.h"

namespace tensmith::kernel {

class MatrixTile {
public:
  static constexpr int64_t kLines = 16, kLineBytes = 64; // of a tile
  static constexpr int64_t kRows = 2 * kLines, kColumns = 2 * kLines;

  MatrixTile(ElementEmitter &emitter, const Contraction &contraction, RowSource &source,
             const MachineShape &machine)
      : emitter_(emitter), math_(emitter.math), contraction_(contraction), source_(source),
        l2Bytes_(machine.l2Bytes) {}

  /// Of the thread, for a tile at a time.
  mlir::Value scratchBytes();
  /// Sets the unit up for the thread; what follows until `end` may use it.
  void begin(mlir::Value scratch);
  void end();

  /// The tile is number `tile` of those that pass a panel, at most `most`, which together prefetch
  /// the next one.
  void beginPrefetch(mlir::Value tile, mlir::Value most);

  /// Of a matrix; of an item whose last tile has so many rows from `first` on.
  void copyRest(mlir::Value batch, mlir::Value first, mlir::Value count);
  /// Rows of A: so many of a batch, from `first` on, at most kRows.
  void beginRows(mlir::Value batch, mlir::Value first, mlir::Value count, mlir::Value slot);
  /// Sums of the rows begun and a panel's first `columns` / kLines tiles of columns. `start`: the
  /// panel's first element.
  void emitSums(mlir::Value start, int64_t columns);
  /// A vector of kLines sums of a row, counted from the first, where `emitSums` has put them.
  mlir::Value sums(mlir::Value row, int64_t column);

private:
  struct Rows {
    mlir::Value first, pitch; // pointer; bytes from one to the next
  };
  void emitTaps(mlir::Value start, int64_t columns, bool both);
  /// Of products that are `before` others of the panel.
  void emitDepth(mlir::Value start, mlir::Value before, const Rows &rows, int64_t columns,
                 bool both);
  /// Lines of the next panel, in the step of the depth that begins `done` products from its start.
  void prefetch(mlir::Value start, mlir::Value done);
  void call(llvm::StringRef instruction, llvm::ArrayRef<int64_t> tiles, mlir::Value pointer = {},
            mlir::Value pitch = {});
  mlir::Value scratch(mlir::Value bytes);
  mlir::Value bytesFrom(mlir::Value pointer, mlir::Value bytes);
  int64_t elementBytes() const;

  ElementEmitter &emitter_;
  IndexMath &math_;
  const Contraction &contraction_;
  RowSource &source_;
  int64_t l2Bytes_;
  mlir::Value scratch_, batch_, first_, count_, slot_, tile_;
  int64_t fetchedLines_ = 0; // in a step of the depth
};

} // namespace tensmith::kernel

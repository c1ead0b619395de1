// Where a register tile finds its rows of A: in memory as they lie, or in a copy that it makes.
//
// A row of a tile is a pointer to `depth` consecutive elements for each tap. They are read in place
// where the left operand is a buffer: the rows of a matrix, the pixels under a window
// (ImageRows.h). Otherwise (an element-wise chain or a transposition before it, few channels) the
// tile's rows are computed into scratch, all taps side by side, and read from there.
#pragma once

#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/ImageRows.h"

namespace tensmith::kernel {

class RowSource {
public:
  RowSource(ElementEmitter &emitter, const Contraction &contraction);

  /// Whether rows are copied; then the tile has one tap, of all the depth.
  bool copies() const { return copies_; }
  mlir::Value scratchBytes(int64_t rows);
  void setScratch(mlir::Value scratch) { scratch_ = scratch; }

  /// Starts a tile: computes the rows' places, and copies them where it must. `rows` are row
  /// numbers, of the same batch.
  void beginTile(mlir::Value batch, llvm::ArrayRef<mlir::Value> rows);

  /// The extents of the loops over taps, and of the loop over k inside.
  llvm::ArrayRef<int64_t> taps() const { return taps_; }
  mlir::Value depth() { return copies_ ? totalDepth() : depth_; }
  /// Pointers to the rows of the tile for one tap.
  llvm::SmallVector<mlir::Value> rowPointers(mlir::ValueRange tap);

  /// Products summed for one element, and distinct bytes of A that a row adds.
  mlir::Value totalDepth();
  mlir::Value bytesPerRow();

private:
  void copyMatrixRows(mlir::Value batch, llvm::ArrayRef<mlir::Value> rows);
  void copyImageRows(mlir::Value batch);
  void copyPixel(size_t row, mlir::Value batch, mlir::ValueRange tap, mlir::Value place);
  llvm::SmallVector<mlir::Value> matrixIndices(mlir::Value batch, mlir::Value row);
  mlir::Value copyStride();
  int64_t elementBytes() const;

  ElementEmitter &emitter_;
  IndexMath &math_;
  const Contraction &contraction_;
  mlir::Type element_; // of the left operand
  std::optional<ImageRows> image_;
  llvm::SmallVector<int64_t> taps_;
  mlir::Value depth_;
  bool copies_;
  mlir::Value scratch_, batch_;
  llvm::SmallVector<mlir::Value> bases_;
};

} // namespace tensmith::kernel

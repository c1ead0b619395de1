// Where a register tile finds its rows of A: in memory as they lie, or in a copy that it makes.
//
// A row of a tile is a pointer to `depth` consecutive elements for each tap. They are read in place
// where the left operand lies in memory: the rows of a matrix, the pixels under a window
// (ImageRows.h; a whole row of the window at once where nothing of it is padding), and rows that
// are only moved out of a buffer in pieces (heads that a transposition puts side by side are taps;
// a row of a table that is gathered is one piece). Otherwise (an element-wise chain before it, few
// channels) an item's rows are computed into scratch, all taps side by side, and read from there.
// So are those of a pointwise convolution whose image is joined or scaled on the way
// (RowPrologue.h), in vectors of channels.
//
// Of a matrix that lies transposed (a gradient of weights is a product of two matrices whose rows
// are samples, one of them transposed) rows are far apart in memory, but the elements of a tile's
// rows at one k lie side by side: so they are copied, and so the tile reads them. An item's tiles
// are filled together, k by k, since they share cache lines of which each k has its own. Pairs
// or fours of bf16 are made of so many k on the way.
//
// A matrix unit takes rows that are evenly apart in memory, and whole tiles of the depth. Those of
// a matrix are, and pixels under a window of one. Under a larger one that goes on pixel by pixel
// they are once the image has its padding around it, if rows are counted through all of that: some,
// at the ends of lines, are no result's. So an item copies its part of the image, and is spared a
// copy for each tap. All others, and those of which that would take more (a window whose taps lie
// far apart), are gathered, each tap's piece in its place.
#pragma once

#include "compiler/kernel/Contraction.h"
#include "compiler/targets/cpu/templates/Blocking.h"
#include "compiler/targets/cpu/templates/ImageRows.h"

#include <numeric>

namespace tensmith::kernel {

/// Where the rows of a contraction's left operand are read.
enum class RowPlace : uint8_t { InPlace, Moved, Copied, Turned, Gathered, Padded };
/// `evenly`: as a matrix unit takes them.
RowPlace rowPlace(const Contraction &contraction, bool evenly = false);

class RowSource {
public:
  RowSource(ElementEmitter &emitter, const Contraction &contraction, bool evenly = false);

  /// Whether rows are copied; then the tile has one tap, of all the depth.
  bool copies() const {
    return place_ == RowPlace::Copied || place_ == RowPlace::Gathered || turns();
  }
  /// Whether rows are pixels of a copy of a part of the padded image.
  bool pads() const { return place_ == RowPlace::Padded; }
  /// Whether either takes scratch.
  bool takesScratch() const { return copies() || pads(); }
  /// How many such rows there are, and pixels behind a row's first that it reads as well; the
  /// result's row of one, and whether it has one.
  mlir::Value paddedRows();
  mlir::Value pixelsBehind();
  mlir::Value resultRow(mlir::Value row, mlir::Value &inside);
  /// Copies the pixels that so many of them, from `first` on, read.
  void copyPadded(mlir::Value batch, mlir::Value first, mlir::Value count);
  /// From the first tap's pixel to this one's, in bytes.
  mlir::Value tapBytes(mlir::ValueRange tap);
  /// Whether they are copied from a transposed matrix, by `copyColumn`.
  bool turns() const { return place_ == RowPlace::Turned; }
  mlir::Value scratchBytes(mlir::Value rows);
  void setScratch(mlir::Value scratch) { scratch_ = scratch; }
  /// What is joined is read in short pieces from many places, far apart: the rows so many after
  /// those that are copied are asked for on the way.
  void setAhead(mlir::Value rows) { ahead_ = rows; }
  /// Computes rows of a batch into the scratch, where they are its rows `rows.slots`.
  void copyTile(mlir::Value batch, const TileRows &rows, size_t part = 0);
  /// In so many parts, for each of which all tiles of an item should be passed: rows of what a
  /// concatenation joins follow one another in memory, part by part.
  size_t copiedParts() const;

  /// The same of the rows' elements of the step of the sum at `k` alone.
  void copyColumn(mlir::Value batch, const TileRows &rows, mlir::Value k);

  /// Where row `slot` of the copy lies.
  mlir::Value copiedRow(mlir::Value slot);

  /// Rows are read from memory of the thread's own, where the kernel has put them: of a tile's slot
  /// from `first` + slot * `apart` on, with elements `distance` apart; all in elements.
  void hold(mlir::Value first, mlir::Value apart, mlir::Value distance) {
    held_ = {first, apart, distance};
  }

  /// Starts a tile of such rows.
  void beginTile(mlir::Value batch, const TileRows &rows);

  /// The extents of the loops over taps, and of the loop over k inside.
  llvm::ArrayRef<int64_t> taps() const { return taps_; }
  int64_t tapCount() const {
    return std::accumulate(taps_.begin(), taps_.end(), int64_t(1), std::multiplies<>());
  }
  mlir::Value depth() { return copies() ? total_ : depth_; }
  /// Whether a row of the tile reads the image at the tap, and not its padding alone; null where
  /// taps lie so near that this is not worth asking.
  mlir::Value reaches(mlir::ValueRange tap);
  /// Pointers to the rows of the tile for one tap.
  llvm::SmallVector<mlir::Value> rowPointers(mlir::ValueRange tap);

  /// Of rows that are evenly apart: where one is, by its slot where it is copied, and the bytes
  /// from one to the next.
  mlir::Value evenRow(mlir::Value batch, mlir::Value row, mlir::Value slot);
  mlir::Value pitch();
  /// Bytes in memory that rows are, or are copied from, one row's behind the other's.
  struct Run {
    mlir::Value first; // of the row asked for
    int64_t bytesOfRow, bytes;
  };
  /// Where there are such, of a known number.
  std::optional<Run> runFrom(mlir::Value row);
  /// Copies so many elements, a known number, from memory to memory.
  void copyPiece(mlir::Value to, mlir::Value from, int64_t count);

  /// So many elements of a row from its first, in the tile begun; of steps of several, parts of
  /// those from one step to the next. And whether elements lie side by side.
  mlir::Value along(mlir::Value elements) {
    return held_.distance ? math_.mul(elements, held_.distance)
                          : math_.mul(elements, turns() ? int64_t(rows_.size()) : 1);
  }
  bool liesSideBySide() const {
    return held_.distance ? constantIndex(held_.distance) == 1 : !turns() || rows_.size() == 1;
  }

  /// Products of a step of the sum.
  int64_t step() const { return contraction_.step; }
  /// Products summed for one element (of whole steps), and distinct bytes of A that a row adds.
  mlir::Value totalDepth() { return total_; }
  mlir::Value bytesPerRow();
  /// Whether the sum can be cut anywhere: there is one tap, that of all the depth.
  bool hasOneTap() const {
    return copies() || llvm::all_of(taps_, [](int64_t extent) { return extent == 1; });
  }

private:
  void readMatrix();
  void readPixels(graph::ConvOp conv);
  void copyMatrixRows(mlir::Value batch, const TileRows &rows);
  void copyImageRows(mlir::Value batch, llvm::ArrayRef<mlir::Value> slots);
  llvm::SmallVector<mlir::Value> paddedSizes();
  mlir::Value pixelOfTap(mlir::ValueRange tap);
  void gatherRows(mlir::Value batch, const TileRows &rows);
  void copyRun(mlir::Value to, mlir::Value from, int64_t count);
  void copyWindowRows(mlir::Value batch, llvm::ArrayRef<mlir::Value> slots);
  struct Part {
    mlir::Value input; // of the concatenation; null without one
    int64_t first, count;
  };
  Part partOfCopy(size_t number) const;
  mlir::Value loadPart(const Part &part, mlir::Value place, mlir::Value mask);
  void copySinglePixels(llvm::ArrayRef<mlir::Value> slots, size_t number);
  void copyPixel(size_t row, mlir::Value batch, mlir::ValueRange tap, mlir::Value place,
                 mlir::Value slot);
  mlir::Value column(mlir::Value batch, mlir::Value row, int64_t count, mlir::Value k,
                     mlir::Type element);
  mlir::Value rowNumber(mlir::Value batch, mlir::Value row);
  llvm::SmallVector<mlir::Value> matrixIndices(mlir::Value batch, mlir::Value row);
  mlir::Value copyStride();
  void fillMultiple(mlir::Value base);
  int64_t elementBytes() const;

  ElementEmitter &emitter_;
  IndexMath &math_;
  const Contraction &contraction_;
  mlir::Type element_; // of the left operand
  std::optional<ImageRows> image_;
  llvm::SmallVector<int64_t> taps_;
  mlir::Value depth_, products_, total_; // total: products, rounded up to whole steps
  RowPlace place_;
  struct {
    mlir::Value first, apart, distance; // null where rows are not held
  } held_;
  mlir::Value scratch_, ahead_, batch_;
  llvm::SmallVector<mlir::Value> rows_, bases_;
};

} // namespace tensmith::kernel

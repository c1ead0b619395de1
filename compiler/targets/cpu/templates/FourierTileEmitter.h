// What the kernels of Fourier's transforms share (FourierKernel.h): one tile of one vector of
// channels. Its pixels are copied into the thread's memory, where a loop over rows transforms each
// in place, and one over columns takes them from there: straight code for a row and for a column,
// whatever the tile's size. What is done with a column's frequencies at once is what the operators
// differ in (base/Fourier.h). Rows beside the image, and outputs beside the tile, take no time.
#pragma once
#include "base/Fourier.h"
#include "compiler/graph/Graph.h"
#include "compiler/kernel/ElementEmitter.h"
#include "compiler/kernel/KernelFrame.h"
#include "compiler/kernel/Machine.h"

namespace tensmith::kernel {

/// Sums and products of vectors, as code.
class VectorArithmetic {
public:
  using Number = mlir::Value;

  VectorArithmetic(IndexMath &math, mlir::VectorType type) : math_(math), type_(type) {}

  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value negate(mlir::Value a);
  mlir::Value scale(double factor, mlir::Value a);
  mlir::Value scaleAdd(double factor, mlir::Value a, mlir::Value b) {
    return multiplyAdd(splat(factor), a, b);
  }
  mlir::Value multiply(mlir::Value a, mlir::Value b);
  mlir::Value multiplyAdd(mlir::Value a, mlir::Value b, mlir::Value to);
  mlir::Value splat(double number);

private:
  IndexMath &math_;
  mlir::VectorType type_;
};

/// How an operator's channels-last image lies under its tiles. Weights are images of one tile, one
/// for each channel that they read.
struct FourierShape {
  FourierTile tile;
  llvm::SmallVector<int64_t> outputs; // along one or two dimensions
  llvm::SmallVector<int64_t> pads;    // before the image, along each
  int64_t group = 1;

  static FourierShape of(mlir::Operation *root);
  /// Tiles of an image.
  int64_t tiles() const { return tile.tilesOf(outputs); }
};

/// The channels' vectors, none of which lies in two groups.
struct FourierChannels {
  int64_t each, group, lanes;

  int64_t vectorsOfGroup() const { return llvm::divideCeil(each, lanes); }
  int64_t vectors() const { return group * vectorsOfGroup(); }
};

/// The image that the operator reads, or makes of planes.
mlir::Value fourierImage(mlir::Operation *root);
/// Its channels.
int64_t fourierChannels(mlir::Operation *root);

class FourierTileEmitter {
public:
  /// `tilesApart`: tiles of all images, where neighbouring items differ in them first; null: where
  /// they differ in their channels.
  FourierTileEmitter(ElementEmitter &emitter, graph::KernelOp kernel, mlir::Operation *root,
                     const Machine &machine, mlir::ValueRange results, mlir::Value scratch,
                     mlir::Value tilesApart);

  /// Numbers of a tile, of which a row and the next don't begin at places of a cache that are the
  /// same.
  static int64_t pitch(const FourierTile &tile) { return tile.columns | 1; }
  /// Bytes of a tile in the thread's memory.
  static int64_t bytes(const FourierTile &tile, const Machine &machine) {
    return tile.rows * pitch(tile) * machine.vectorBytes;
  }

protected:
  using Value = mlir::Value;
  using Transform = Fourier<VectorArithmetic>;
  using Complex = Transform::Complex;
  using Complexes = std::vector<Complex>;

  /// Takes an item's tile and vector of channels.
  void begin(Value item);
  void takeVector(Value vector);
  void takeTile(Value number);

  // --- the thread's memory ---

  Value placeOf(Value row, Value column);
  Value placeOnLine(Value at);
  Value load(Value place, int64_t columns = 0);
  void store(Value place, Value value, int64_t columns = 0);
  void forEach(Value begin, Value end, llvm::function_ref<void(Value)> body);
  void forEach(int64_t begin, int64_t end, llvm::function_ref<void(Value)> body);

  // --- rows of pixels ---

  /// Of `count` places along a dimension, from `start` of the padded image on, those inside.
  struct Span {
    Value begin, end;
  };
  Span inside(Value start, int64_t count, int64_t low, Value size);

  /// The tile's pixels of the image x, as rows of half spectra; zeros behind so many rows and
  /// columns.
  void transformImage(Value x, int64_t rows, int64_t columns);
  void clearColumns(Value row, Value begin, Value end);
  Value pixel(Value x, llvm::ArrayRef<Value> dims, llvm::ArrayRef<Value> at);
  /// In place; a complex frequency takes the place of two pixels.
  void transformRow(Value row);
  void turnRowBack(Value row, int64_t wanted);

  // --- columns of frequencies ---

  /// A column of the half spectrum: where its first number is, and its first plane.
  struct Column {
    Value place, plane;
    bool isReal;
  };
  void forColumns(int64_t parts, llvm::function_ref<void(const Column &)> body);
  /// The kept frequencies of a column.
  Complexes frequenciesOf(const Column &column);
  /// And back, of so many rows.
  void storeColumn(const Column &column, const Complexes &frequencies, int64_t wanted);
  /// take(plane, whether it is real), of all that are kept of a column; planes count from its own.
  template <typename Take> void forFrequencies(const Column &column, int64_t parts, Take take) {
    int64_t plane = 0;
    for (int64_t row = 0; row < tile_.keptRows(column.isReal ? 0 : 1); ++row) {
      bool isReal = column.isReal && tile_.isReal(row, 0);
      take(plane, isReal);
      plane += isReal ? 1 : parts;
    }
  }

  // --- the image of outputs ---

  /// Rows that are wanted of outputs: all of a line's.
  int64_t rowsOfOutputs() const { return tile_.isLine ? tile_.rows : tile_.down; }
  /// Rows of half spectra to pixels, with all that follows.
  void storeImage(Value y, Value bias);
  /// A vector of the root's result, pixels or planes, with all that follows in the kernel.
  void storeElements(Value y, Value made, llvm::ArrayRef<Value> at);

  // --- planes [plane * group, tiles, channels / group] ---

  Value planePlace(Value tiles, Value plane);
  Value planeStep(Value tiles);
  /// Stores the tile's frequencies as planes of thirds: put(re, im) gives a complex one's.
  void storePlanes(llvm::function_ref<std::array<Value, 3>(const Complex &)> put);
  /// Makes columns of frequencies of planes of thirds, and turns back so many of their rows.
  void turnPlanesBack(llvm::function_ref<Complex(llvm::ArrayRef<Value>)> take, int64_t wanted);

  ElementEmitter &emitter_;
  IndexMath &math_;
  graph::KernelOp kernel_;
  mlir::Operation *root_;
  FourierShape shape_;
  FourierTile tile_;
  int64_t lanes_;
  FourierChannels channels_;
  mlir::Type element_;
  mlir::VectorType type_;
  mlir::ValueRange results_;
  Value scratch_, tiles_;
  VectorArithmetic do_;
  Transform transform_;
  // Of the item.
  Value number_, group_, within_, channel_, mask_, image_, top_, left_;

private:
  void copyLine(Value x, llvm::ArrayRef<Value> dims, const Span &inside);
  void storeLine(Value y, Value addend, Value columns);
};

} // namespace tensmith::kernel

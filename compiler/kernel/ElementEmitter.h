// Any value of a kernel's region, one element or one vector of elements at a time.
//
// An element is computed where it is needed: of a block argument by a load, of an operator by its
// interface (Elementwise, Indexed), recursively. What was already emitted in an enclosing block for
// the same value and position is used again. A template takes over the values that it holds in
// registers or keeps in a buffer (`define`).
#pragma once

#include "compiler/graph/Graph.h"
#include "compiler/kernel/IndexMath.h"

namespace tensmith::kernel {

/// Where an element is: its indices, and for vectors the lanes that follow along the last
/// dimension.
struct Position {
  llvm::SmallVector<mlir::Value> indices;
  int64_t lanes = 1;     // 1: a scalar
  mlir::Value mask = {}; // of the lanes, where the last vector of a row is cut off
  /// Equal constants are equal wherever they were made: else no broadcast element would be found
  /// again.
  bool operator==(const Position &other) const;
};

/// Memory of a few lines of a channels-last image, which are what its second dimension counts: line
/// l, counted through all pictures, lies at l modulo their number.
struct LineBuffer {
  mlir::Value pointer;
  int64_t lines;
};

/// Whether the operator reduces other dimensions than the last, or windows of them: then its lanes
/// are reduced side by side.
bool reducesLanesApart(mlir::Operation *op);
/// Whether the operator moves elements, and leaves those that follow along the last dimension side
/// by side: so do its lanes.
bool keepsLanes(mlir::Operation *op);

class ElementEmitter {
public:
  using Definition = std::function<mlir::Value(const Position &)>;

  ElementEmitter(mlir::OpBuilder &builder, mlir::Location location, const SizeValues &sizes,
                 mlir::Value call, std::vector<std::string> &messages)
      : math(builder, location), sizes(sizes), call(call), messages(messages) {}

  /// The element of a value of the region, in its kernel element type (compiler/graph/Lowering.h).
  mlir::Value element(mlir::Value value, const Position &position);

  /// Elements of `value` come from memory at `pointer`, dense and row-major.
  void defineBuffer(mlir::Value value, mlir::Value pointer);
  /// That pointer; null for a value that is in no buffer.
  mlir::Value buffer(mlir::Value value) const { return buffers_.lookup(value); }
  /// Lines of an image come from there.
  void defineLines(mlir::Value image, LineBuffer lines) { lines_[image] = lines; }
  /// The place in memory of an element of an image that is in a buffer or has a line buffer, in
  /// which its line must be.
  mlir::Value pixel(mlir::Value image, mlir::ValueRange indices);
  /// That of the first channel of the pixel with that number.
  mlir::Value pixel(mlir::Value image, mlir::Value number);
  /// The place in memory of an element of a value that has a contiguous run.
  mlir::Value address(mlir::Value value, mlir::ValueRange indices);
  void define(mlir::Value value, Definition definition) {
    definitions_[value] = std::move(definition);
  }

  // Between memory (storage types: booleans as bytes, 16-bit floats) and kernel element types;
  // `offset` in elements.
  mlir::Value load(mlir::Value pointer, mlir::Type tensorElement, mlir::Value offset,
                   int64_t lanes = 1, mlir::Value mask = {});
  void store(mlir::Value pointer, mlir::Type tensorElement, mlir::Value offset, mlir::Value value,
             mlir::Value mask = {});

  mlir::Value splat(mlir::Value scalar, int64_t lanes);
  /// The lanes below `count` (an index, which may be greater than `lanes`).
  mlir::Value maskBelow(mlir::Value count, int64_t lanes);
  llvm::SmallVector<mlir::Value> dims(mlir::Value value) {
    return dimValues(math, sizes, value.getType());
  }
  /// Reports `message` (through the kernel's `fail`) where `condition` is false; execution goes on.
  /// `{}` in it stands for `detail`, an index.
  void check(mlir::Value condition, mlir::StringRef message, mlir::Value detail = {});
  /// The same with one of the ABI's own codes.
  void reportUnless(mlir::Value condition, int32_t code, mlir::Value detail = {});
  mlir::OpBuilder &builder() { return math.builder; }

  IndexMath math;
  const SizeValues &sizes;
  mlir::Value call; // the kernel's TensmithCall
  std::vector<std::string> &messages;
  bool failed = false; // some operator had no code

private:
  mlir::Value compute(mlir::Value value, const Position &position);
  mlir::Value fromElementwise(mlir::Operation *op, const Position &position);
  mlir::Value fromConstant(mlir::Operation *op, const Position &position);
  mlir::Value fromIndexed(mlir::OpResult value, const Position &position);
  mlir::Value fromLanes(mlir::OpResult value, const Position &position);
  mlir::Value fromIota(graph::IotaOp op, const Position &position);
  mlir::Value gatherLanes(mlir::OpResult value, const Position &position);
  mlir::Value noCode(mlir::Value value, int64_t lanes);
  mlir::Value roundToStorage(mlir::Value value, mlir::Type tensorElement);

  llvm::DenseMap<mlir::Value, Definition> definitions_;
  llvm::DenseMap<mlir::Value, mlir::Value> buffers_;
  llvm::DenseMap<mlir::Value, LineBuffer> lines_;
  struct Emitted {
    mlir::Value value;
    Position position;
    mlir::Value result;
  };
  llvm::DenseMap<mlir::Block *, std::vector<Emitted>> emitted_;
};

/// Of a kernel's operand, or of a value that operators only move out of one: so many of its
/// elements, from each multiple of that number on, lie side by side in memory. Otherwise 0.
int64_t contiguousRun(mlir::Value value);

/// The position in an operand that an element-wise operator reads for its result's at `position`:
/// NumPy's broadcasting.
Position broadcastPosition(IndexMath &math, const Position &position,
                           mlir::RankedTensorType operand);

/// The type of an element in memory; null where kernels can't hold it.
mlir::Type storageType(mlir::Type tensorElement);
/// `scalar`, or a vector of so many.
mlir::Type withLanes(mlir::Type scalar, int64_t lanes);
/// Address of element `offset` of a buffer of tensor elements.
mlir::Value elementPointer(IndexMath &math, mlir::Type tensorElement, mlir::Value base,
                           mlir::Value offset);
/// Address of what lies so many bytes behind, in the same memory.
mlir::Value bytePointer(IndexMath &math, mlir::Value base, mlir::Value bytes);
/// Of a vector of floats, whose number of lanes is a power of 2: halves are added until one is
/// left. What has no lanes is its own sum.
mlir::Value sumOfLanes(IndexMath &math, mlir::Value vector);
/// The field of a C struct of pointers, so many `bytes` from `base` on this machine: its number is
/// the same where pointers are shorter.
mlir::Value loadPointerField(IndexMath &math, mlir::Value base, int64_t bytes);

} // namespace tensmith::kernel

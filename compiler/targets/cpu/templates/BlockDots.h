// A row of numbers in 8 bits times rows of blocks of few bits, by an instruction that adds up
// products of bytes (vpdpbusd): a quarter of the instructions that floats take, which is what a
// core needs to keep up with its memory.
//
// x is rounded once for all rows of weights, each group of numbers to 8 bits by its own scale, and
// put into scratch in the order in which codes come out of blocks: a chunk is a vector of bytes of
// a format's main plane with one digit of each. So codes are masked and shifted, and never moved.
//
//   sum over k of x w = sum over groups of  sx sw (sum of codes qx qw) + ow (sx sum of qx)
//
// since w = sw qw + ow and x = sx qx. Several blocks that are shorter than a vector make a strip.
//
// Of many rows of x each code is read many times, and so is unpacked once: BlockPanels.h.
#pragma once

#include "compiler/kernel/Intrinsic.h"
#include "compiler/targets/cpu/templates/BlockCodes.h"

namespace tensmith::kernel {

class BlockDots {
public:
  using Value = mlir::Value;

  /// Whether it has code for that: null where not.
  static std::optional<BlockDots> of(IndexMath &math, const BlockFormat &format, int64_t columns,
                                     int64_t vectorBytes, const Intrinsic *products);

  int64_t strips() const { return columns_ / elements(); }
  int64_t stripBytes() const { return blocks_ * format_->bytes; }
  int64_t scratchBytes() const { return columns_ + columns_ / format_->group * 8 + 128; }

  /// In which order a rounded row has its numbers: in that of chunks, or in their own.
  enum class Order { Chunks, Elements };
  /// How the sums of x's groups are kept where the bias of codes is all that they are for: as
  /// numbers, or as the i32 that the bias adds to the products.
  enum class Bias { Scaled, Whole };
  /// Rounds x, f32 in memory, into the scratch.
  void round(Value x, Value scratch, Order order = Order::Chunks, Bias bias = Bias::Scaled);

  /// Sums of one row of weights, so far.
  struct Sums {
    Value products, offsets; // vectors of f32
  };
  Sums zeros();
  /// Adds strip number `index` of each row, whose bytes begin at those pointers.
  void add(llvm::ArrayRef<Value> rows, Value index, Value scratch,
           llvm::MutableArrayRef<Sums> sums);
  Value total(const Sums &sums);
  /// A vector whose lanes add up to the total.
  Value lanesOf(const Sums &sums);

private:
  friend class BlockPanels;

  /// A vector of codes: for each byte the block of the strip and the element in it.
  struct Place {
    int64_t block, element;
  };
  using Chunk = llvm::SmallVector<Place>;

  BlockDots(IndexMath &math, const BlockFormat &format, int64_t columns, const Intrinsic *products)
      : math_(&math), format_(&format), columns_(columns), products_(products),
        codes_(math, format, 1) {}
  bool plan(int64_t vectorBytes);
  int64_t elements() const { return blocks_ * format_->elements; }
  int64_t groups() const { return elements() / format_->group; }
  int64_t lanes() const { return int64_t(chunks_[0].size()) / 4; }
  void roundGroup(Value x, Value scratch, Value strip, int64_t group, Order order, Bias bias);
  Value scales(Value row, Value &offsets);
  Value scalesOfBlocks(llvm::ArrayRef<Value> blocks, Value &offsets);
  bool hasHalves() const;
  Value inUnits(Value scale);
  int64_t elementAt(int64_t place) const;
  Value halves(llvm::ArrayRef<Value> blocks, int64_t bytes);
  Value codes(Value row, const Chunk &chunk);
  Value multiplied(Value code);
  Value digits(Value row, const BitPlane &plane, llvm::ArrayRef<Place> places);
  Value packed(Value row, const BitPlane &plane, llvm::ArrayRef<Place> places);
  int64_t startOf(const BitPlane &plane, const Place &place) const;
  Value parted(Value packed, const BitPlane &plane, int64_t digit);
  Value levels(Value codes);
  Value at(Value pointer, Value bytes);
  Value load(mlir::Type type, Value pointer, Value bytes);
  void store(Value value, Value pointer, Value bytes);
  Value joined(llvm::ArrayRef<Value> parts);
  Value bytes(int64_t value, Value like);
  Value reals(double value, mlir::Type like);
  mlir::VectorType f32s(int64_t lanes) const;
  Value multiplyAdd(Value a, Value b, Value sum);
  mlir::OpBuilder &builder() { return math_->builder; }
  template <typename Op, typename... Operands> Value create(Operands... operands) {
    return math_->builder.create<Op>(math_->location, operands...);
  }
  /// Whether offsets are the bias alone, which is the same for all rows of weights.
  bool hasBiasAlone() const { return !format_->hasOffset() && bias_ != 0; }
  /// Of each lane of a chunk's products the group of the strip.
  llvm::SmallVector<int64_t> groupsOf(const Chunk &chunk) const;
  // In the scratch, behind the codes: scales of x, then what its groups add up to (Bias).
  int64_t scalesAt() const { return int64_t(llvm::alignTo(columns_, 64)); }
  int64_t sumsAt() const { return scalesAt() + columns_ / format_->group * 4; }

  IndexMath *math_;
  const BlockFormat *format_;
  int64_t columns_, blocks_ = 1;
  const Intrinsic *products_;
  BlockCodes codes_;
  llvm::SmallVector<Chunk> chunks_;
  llvm::SmallVector<int64_t> order_; // of an element of the strip: its byte among the chunks'
  int64_t bias_ = 0;                 // of the bytes that are multiplied
  double unit_ = 1;                  // of their levels
};

} // namespace tensmith::kernel

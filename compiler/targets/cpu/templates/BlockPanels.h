// Rows in 8 bits times panels of rows of blocks of few bits: for several rows of x, which wait for
// arithmetic.
//
// A panel has as many rows of weights as a vector has lanes. Its codes are unpacked once, to bytes
// of which each four of a row lie beside the same four of the other rows, so that one instruction
// (vpdpbusd) multiplies four numbers of x, which all lanes share, by those of all rows. Where all
// bits of a code are in one byte, bytes are moved there first, and parted into codes behind that. A
// group's products are whole numbers, which are converted and scaled once for it: of a group of 32
// eight instructions multiply, and three or four do the rest, where by rows (BlockDots.h) three
// follow each. No lanes are added up at the end, and results that lie side by side are stored
// together.
//
// A few rows of x are not worth unpacking for: each is multiplied by the bytes as they are stored.
// A group's products stand in lanes of one row then, and are added up while the vectors of all rows
// are transposed, which takes less than to convert and scale what each instruction gives.
//
// Invariant: each row of x is multiplied in the same order, however many there are and by either
// way: products of a group are whole numbers, and groups are added up one behind the other. So its
// results depend on that row alone.
#pragma once

#include "compiler/targets/cpu/templates/BlockDots.h"

namespace tensmith::kernel {

class BlockPanels {
public:
  using Value = mlir::Value;

  BlockPanels(const BlockDots &dots, int64_t lanes) : dots_(dots), lanes_(lanes) {}

  int64_t lanes() const { return lanes_; } // rows of weights
  int64_t rowBytes() const;                // of a rounded row of x
  int64_t bytes() const;                   // of a panel in the scratch

  /// Rounds a row of x, f32 in memory, for `multiply`.
  void round(Value x, Value to) {
    dots_.round(x, to, BlockDots::Order::Elements, BlockDots::Bias::Whole);
  }
  /// Fills the panel with rows of weights, whose bytes begin at `rowOf` their lane.
  void unpack(llvm::function_ref<Value(Value lane)> rowOf, Value panel);
  /// Of each rounded row the products with all rows of the panel, a vector of f32.
  llvm::SmallVector<Value> multiply(llvm::ArrayRef<Value> rows, Value panel);

  /// Rounds a row of x, f32 in memory, for `multiplyStored`.
  void roundForStored(Value x, Value to) {
    dots_.round(x, to, BlockDots::Order::Chunks, BlockDots::Bias::Whole);
  }
  /// The products of one rounded row with rows of weights whose bytes begin there, one for each
  /// lane: the very numbers that `multiply` gives. `before` is called for each strip.
  Value multiplyStored(llvm::ArrayRef<Value> starts, Value row,
                       llvm::function_ref<void(Value strip)> before);
  int64_t stripBytes() const { return dots_.stripBytes(); }

private:
  using Values = llvm::SmallVector<Value>;
  Values productsOfStrip(llvm::ArrayRef<Value> rows, Value strip, Value row);
  Values scalesOfStrip(llvm::ArrayRef<Value> rows, Values &offsets);
  void addTurned(Values rows, llvm::ArrayRef<int64_t> groupOf, llvm::MutableArrayRef<Value> sums);
  void codesOfRows(llvm::ArrayRef<Value> rows, Value begin, Value to, Value panel);
  void takeScales(Value row, Value place, Value panel);
  void giveScales(Value to, Value panel);
  void scalesOfRows(llvm::ArrayRef<Value> rows, Value begin, Value to, Value panel);
  void turn(int64_t from, Value to, Value panel);
  llvm::SmallVector<Value> interleaved(llvm::SmallVector<Value> vectors);
  int64_t group() const { return dots_.format_->group; }
  /// Whether bytes are turned before their digits are parted: fewer of them are moved.
  bool isPacked() const { return dots_.format_->planes.size() == 1; }
  // In the panel: codes, scales of groups, their offsets, and of one strip, row by row, the last
  // two.
  int64_t scalesAt() const { return dots_.columns_ * lanes_; }
  int64_t offsetsAt() const { return scalesAt() + dots_.columns_ / group() * lanes_ * 4; }
  int64_t stripScalesAt() const { return 2 * offsetsAt() - scalesAt(); }
  int64_t stripOffsetsAt() const { return stripScalesAt() + dots_.groups() * lanes_ * 4; }
  Value splat(mlir::Type element, Value pointer, Value bytes);
  template <typename Op, typename... Operands> Value create(Operands... operands) {
    return dots_.create<Op>(operands...);
  }

  BlockDots dots_;
  int64_t lanes_;
};

} // namespace tensmith::kernel

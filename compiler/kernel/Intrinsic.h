// Hardware instructions as data: what each computes, and how it is emitted.
//
// What templates ask for is sums of products of small numbers, of which an instruction adds up
// several at once:
//
//   sums[n] += sum over k of extend(left[n, k]) * extend(right[n, k])
//
// with a lane for each n. Others multiply each of a few rows by each of a few columns:
//
//   sums[m, n] += sum over k of extend(left[m, k]) * extend(right[n, k])
//
// Their operands are vectors, too, of which `sums` has a row behind the other; or they are tiles of
// a matrix unit, which have registers of their own.
//
// A template asks by the types of the numbers, never by a name, and packs its operands by the depth
// that it finds. Targets have tables of them (targets/cpu/intrinsics), whose rows are tested
// against their meaning where there is a machine or an emulator that has them: of tiles there is
// none yet.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Builders.h"

namespace tensmith::kernel {

/// Of an operand's elements, or of the sums. Of U1 a byte has eight, the first in its lowest bit.
enum class Number { U8, I8, I16, BF16, I32, F32, U1, I64 };

int64_t bitsOf(Number number);

/// Whether elements of the type are such numbers.
bool isNumber(mlir::Type type, Number number);

/// What else is true of an instruction; traits are added up.
enum Trait : unsigned {
  AddsToSum = 1,         // itself: the products need no register on the way
  FlushesSubnormals = 2, // takes subnormal operands for zero
  /// Takes a left operand that all lanes share from a lane of a register, so that none has to be
  /// filled with it.
  TakesLane = 4,
  OfTiles = 8, // operands and sums are tiles of a matrix unit
  /// A vector has as many as fit, of whose sums and right operands each lies behind the one before;
  /// the left one is the same for all of them.
  InBlocks = 16,
  /// Loads of its operands reach a few steps alone, and of a panel's none: pointers go along from
  /// step to step.
  ShortReach = 32,
};

struct Intrinsic {
  llvm::StringLiteral name; // of the instruction, for people
  /// Names of all features that a machine must have, with commas between.
  llvm::StringLiteral features;
  Number left, right, sum;
  int64_t rows;  // of the left operand; 1: each lane has its own
  int64_t lanes; // sums of a row; 0: as many as make a vector
  int64_t depth; // products that are added up in each
  /// Products in the time that one of f32 takes, about.
  double rate;
  unsigned traits;
  /// Of vectors: `right` has the bits of lanes * depth elements, whatever its type is, so has
  /// `left` where rows are 1, else of rows * depth; `sum` has rows * lanes. In blocks `right` and
  /// `sum` have those of each block. Gives the new sum. Of tiles: the numbers of the three, as
  /// constants of i8; null.
  mlir::Value (*emit)(mlir::OpBuilder &builder, mlir::Location location, mlir::Value left,
                      mlir::Value right, mlir::Value sum);

  /// Of sums in bytes, which hold those of a few steps alone: each eight neighbours added up, as
  /// i64.
  mlir::Value (*widen)(mlir::OpBuilder &builder, mlir::Location location,
                       mlir::Value sums) = nullptr;

  /// Steps whose sum a byte holds, if it starts at zero.
  int64_t steps() const { return 255 / depth; }
  bool has(Trait trait) const { return traits & trait; }
};

/// What an instruction of vectors computes, of operands in memory: left and right [lanes, depth],
/// sums [lanes]; of several rows left [rows, depth] and sums [rows, lanes]. All of them are memrefs
/// of its numbers (bytes without a sign in their type); of bits they are [lanes, depth / 8] bytes.
mlir::linalg::GenericOp emitMeaning(mlir::OpBuilder &builder, mlir::Location location,
                                    const Intrinsic &intrinsic, mlir::Value left, mlir::Value right,
                                    mlir::Value sums);

/// The same sums as any machine makes them, of vectors of any number of lanes: for tests of what is
/// packed by a depth. Of one row or two; null where none is written.
const Intrinsic *portableIntrinsic(Number left, Number right, Number sum, int64_t rows = 1);

/// What surrounds the products of a matrix unit. Its tiles have numbers; pitches are the bytes from
/// line to line.
struct MatrixUnit {
  static constexpr int64_t kLines = 16, kLineBytes = 64; // of a tile

  /// Makes the first `tiles` ready for the thread; it may write to 64 bytes from `scratch` on.
  void (*begin)(mlir::OpBuilder &, mlir::Location, mlir::Value scratch, int64_t tiles);
  void (*end)(mlir::OpBuilder &, mlir::Location);
  void (*zero)(mlir::OpBuilder &, mlir::Location, int64_t tile);
  void (*load)(mlir::OpBuilder &, mlir::Location, int64_t tile, mlir::Value pointer,
               mlir::Value pitch);
  void (*store)(mlir::OpBuilder &, mlir::Location, int64_t tile, mlir::Value pointer,
                mlir::Value pitch);
};

/// Puts values in the place of those given that are the same, of which the optimiser doesn't know
/// how they were made.
using Hold = void (*)(mlir::OpBuilder &, mlir::Location, llvm::MutableArrayRef<mlir::Value>);

/// An instruction that looks numbers up in a vector of them, or in two.
struct Lookup {
  /// Of the narrowest numbers that it takes: 8 or 16; 0: the machine has none.
  int64_t bits = 0;
  /// For each lane the number of `table` in the place that the same lane of `places` says, whose
  /// bits above those that the table needs count for nothing. All are whole vectors of numbers that
  /// have `bits` at least, and at most 16, and of the table 1, 2, 4, ... of them.
  mlir::Value (*emit)(mlir::OpBuilder &, mlir::Location, llvm::ArrayRef<mlir::Value> table,
                      mlir::Value places) = nullptr;
};

} // namespace tensmith::kernel

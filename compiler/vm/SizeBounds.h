// How large the values of a function are at most, over the sizes that are known when it begins.
//
// A size that an instruction tells when it runs (how many elements are not zero) has a bound where
// the operator's shape function gives one, and so have the sizes that are computed from it. What
// has a bound lies in the arena, in as much memory as the bound says; its own size is less, or the
// same.
#pragma once

#include "compiler/graph/Graph.h"
#include "compiler/vm/Expressions.h"

namespace tensmith::vm {

class SizeBounds {
public:
  explicit SizeBounds(Expressions &expressions) : expressions_(expressions) {}

  /// The symbols that are known now are those that are known at entry.
  void begin();
  /// Takes note of the bounds that the operator's shape function gives; whether there are any that
  /// the arena can be laid out by.
  bool learn(mlir::Operation *op);
  /// Whether the size is known at entry.
  bool isExact(mlir::RankedTensorType type) const;
  /// An expression, over what is known at entry, of bytes that are enough for the value, in
  /// multiples of 64; nothing where there is none, or where memory would be wasted: a bound may be
  /// `kMostOfOperand` times the bytes of the largest value of an exact size that the value is
  /// computed from. (Two bounds multiply up where their sizes are those of one matrix.) A bound
  /// of more than `kMostBytes`, or one that overflows, is none; where only the run tells that, the
  /// expression's value is 0.
  std::optional<uint32_t> bytesAtMost(mlir::Value result);

  static constexpr int64_t kMostOfOperand = 8, kMostBytes = int64_t(64) << 20;

private:
  std::optional<uint32_t> elementsAtMost(mlir::Type type);
  std::optional<uint32_t> atMost(mlir::AffineExpr size, llvm::ArrayRef<mlir::StringAttr> names);
  std::optional<uint32_t> bytes(mlir::Type type);
  int64_t exactBytes(mlir::Value value);
  int64_t exactBytesBehind(mlir::Operation *op);
  bool isWorthwhile(mlir::Operation *op, uint32_t bytes);
  std::optional<uint32_t> upToMost(uint32_t bytes);

  Expressions &expressions_;
  llvm::DenseSet<mlir::StringAttr> entry_;
  llvm::DenseMap<mlir::StringAttr, uint32_t> bounds_; // of symbols that are told later
  llvm::DenseMap<mlir::Value, int64_t> exactBytes_;
};

} // namespace tensmith::vm

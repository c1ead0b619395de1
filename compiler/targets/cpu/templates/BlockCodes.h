// Vector code that reads numbers in blocks of few bits (base/BlockFormats.h): one emitter for all
// formats, which are data to it.
//
// A vector of codes takes each plane's bytes by one load, where they lie side by side and share a
// digit, and by a shuffle with a shift for each lane elsewhere. The integers of all groups of a
// block are one vector, too: the bytes that they lie in, shuffled, shifted and masked. Everything
// is vector and arith, so any machine has it.
#pragma once

#include "base/BlockFormats.h"
#include "compiler/kernel/ElementEmitter.h"

namespace tensmith::kernel {

class BlockCodes {
public:
  /// `lanes`: of vectors; divides the elements of a group.
  BlockCodes(IndexMath &math, const BlockFormat &format, int64_t lanes)
      : math_(math), format_(format), lanes_(lanes) {}

  /// What numbers of a block are scaled by, scalars of f32, one for each group: number = code *
  /// scale + offset. Offsets hold the bias of the codes; null: 0.
  struct Scales {
    llvm::SmallVector<mlir::Value> scale, offset;
  };
  /// Of the block at a pointer.
  Scales scales(mlir::Value block);
  /// The same as vectors of a lane for each group, and without the bias of codes.
  struct Vectors {
    mlir::Value scale, offset;
  };
  Vectors vectors(mlir::Value block);
  /// A vector of f32: the codes of the elements from `first` on, or their levels.
  mlir::Value codes(mlir::Value block, int64_t first);
  /// A scalar in each lane.
  mlir::Value splat(mlir::Value scalar);

private:
  using Value = mlir::Value;

  Value digits(Value block, const BitPlane &plane, int64_t first);
  Value levels(Value codes);
  Value integers(Value block, std::span<const GroupInteger> groups);
  Value bitsOf(Value bytes, int64_t at, llvm::ArrayRef<ScaleBits> bits);
  Value blockScale(Value block);
  Value shuffled(Value bytes, llvm::ArrayRef<int64_t> lanes);
  Value load(mlir::Type type, Value block, int64_t bytes);
  Value halfAt(Value block, int64_t bytes);
  Value offset(Value block);
  Value constants(llvm::ArrayRef<int32_t> values);
  Value integer(int64_t value, mlir::Type like);
  Value real(double value, mlir::Type like);
  Value splatOf(mlir::Attribute one, mlir::Type like);
  mlir::OpBuilder &builder() { return math_.builder; }
  template <typename Op, typename... Operands> Value create(Operands... operands) {
    return math_.builder.create<Op>(math_.location, operands...);
  }

  IndexMath &math_;
  const BlockFormat &format_;
  int64_t lanes_;
};

} // namespace tensmith::kernel

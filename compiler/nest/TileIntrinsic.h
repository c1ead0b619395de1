// What an instruction computes of a tile, in a nest's terms, and how it is emitted.
//
// A declaration is a linalg.generic over memrefs of known shapes: its iterators are the dimensions
// of the tile, its maps say which of them each operand has, and its body is the value that is
// accumulated. It is read once into expressions, so that matching (Tensorize.h) knows of nests
// alone. Dimensions of one element are left out.
//
//   dot4: sums[n] += int32(left[n, k]) * int32(right[n, k])   for n of 16, k of 4
#pragma once

#include "compiler/kernel/Intrinsic.h"
#include "compiler/kernel/Machine.h"
#include "compiler/nest/Schedule.h"

namespace tensmith::nest {

struct TileIntrinsic {
  struct Operand {
    DataType type = DataType::Undefined;
    std::vector<size_t> dims = {}; // of the tile, as they lie in memory, from outside in
    /// Its rows, which the outermost of them counts, may lie apart in memory.
    bool hasPitch = false;
  };
  using Emit = std::function<mlir::Value(mlir::OpBuilder &, mlir::Location,
                                         llvm::ArrayRef<mlir::Value> inputs, mlir::Value sum)>;

  std::string name;
  std::vector<int64_t> sizes; // of the dimensions
  std::vector<Operand> inputs;
  Operand output; // the last of its dimensions are the lanes of a vector
  Reduction reduction = Reduction::None;
  Expr value; // of loads, whose tensor is the number of an input: "0"
  /// Of vectors with all elements of the operands, bytes and 16-bit floats as integers of as many
  /// bits; gives the new sum.
  Emit emit = {};

  int64_t elements(const Operand &operand) const;
  int64_t lanes() const { return sizes[output.dims.back()]; }
};

/// Reads a declaration. InvalidArgument names what has no form here.
Result<TileIntrinsic> readDeclaration(std::string name, mlir::linalg::GenericOp meaning,
                                      TileIntrinsic::Emit emit);

/// A target's instruction, of vectors of so many bytes. Unsupported: tiles of a matrix unit, and
/// sums of bits.
Result<TileIntrinsic> tileIntrinsic(const kernel::Intrinsic &instruction, int64_t vectorBytes);

/// All of a target's that can be matched.
TileIntrinsics tileIntrinsics(llvm::ArrayRef<const kernel::Intrinsic *> instructions,
                              int64_t vectorBytes);

/// Of a target whose schedule is the text: declarations take a while to read, and are read only for
/// one that may name them.
TargetUnits targetUnits(const kernel::Machine &machine, const std::string &text);

} // namespace tensmith::nest

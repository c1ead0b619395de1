// The classes of operators on bit planes (BitOps.td), for who looks for them, and what they are
// made of.
#pragma once

#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"

#define GET_OP_CLASSES
#include "compiler/graph/BitOps.h.inc"

namespace tensmith::graph {

/// What codes of so many bits stand for: factor * code - offset.
struct Codes {
  int64_t bits, factor = 1, offset = 0;

  static Codes unipolar(int64_t bits) { return {bits, 1, 0}; }
  static Codes bipolar(int64_t bits) { return {bits, 2, (int64_t(1) << bits) - 1}; }
  bool isBipolar() const { return factor == 2 && offset == (int64_t(1) << bits) - 1; }
  /// The largest magnitude of a number.
  int64_t largest() const { return std::max(offset, factor * ((int64_t(1) << bits) - 1) - offset); }
};

/// The shape of a bit_conv, all of whose sizes but those of the image are known.
struct BitWindow {
  llvm::ArrayRef<int64_t> strides, pads, dilations;
  llvm::SmallVector<int64_t> kernel;
  int64_t groups, blocks, width, words, wordBits, channels, filters;
  Codes x, w;

  int64_t spatial() const { return int64_t(kernel.size()); }
  int64_t taps() const;
  bool isPadded() const;
};
/// Of an operator whose types are as its shape function wants them; nothing of another.
std::optional<BitWindow> bitWindowOf(BitConvOp op);

/// The filters of a block, wherever this project packs them: a vector of every machine is a divisor
/// of it.
inline constexpr int64_t kBitFilters = 16;

struct BitConvolution {
  llvm::SmallVector<int64_t> strides, pads, dilations;
  int64_t groups = 1;
  Codes x, w;
};
/// The sums, as i32, of an image of codes [N, C, spatial...] and filters of codes
/// [M, C / groups, kernel...], whose sizes but the first and those of the image are known:
/// [N, M, out...]. Null after an error.
mlir::Value convolveBits(GraphBuilder &graph, mlir::Value x, mlir::Value w,
                         const BitConvolution &as);
/// The same of matrices [..., K] and [K, N].
mlir::Value multiplyBits(GraphBuilder &graph, mlir::Value a, mlir::Value b, const Codes &ofA,
                         const Codes &ofB);

} // namespace tensmith::graph

// The tile of a depthwise convolution: vectors of channels of a few output pixels, one tap after
// the other.
//
// There is one product for each tap: it is bound by loads. So a tile is neighbouring pixels of one
// row of the output, which share the vectors of weights, and the input pixels where their windows
// overlap; the pointers to these are found once for all channels. An image of bf16 is widened as it
// is loaded.
#pragma once

#include "compiler/kernel/ImageRows.h"
#include "compiler/kernel/Kernel.h"

namespace tensmith::kernel {

inline constexpr int64_t kDepthwiseVectors =
    2;                                         // of channels at a time, unless others are asked for
inline constexpr int64_t kDepthwiseHeight = 4; // output pixels of a tile

/// Taps of the window.
int64_t tapCount(graph::ConvOp conv);

class DepthwiseTile {
public:
  /// What is done with a vector of the result, which the root's result is defined as; `offset` is
  /// its place in a dense result.
  using Finish = std::function<void(const Position &at, mlir::Value offset)>;

  DepthwiseTile(ElementEmitter &emitter, graph::ConvOp root, const MachineShape &machine,
                int64_t vectors, Finish finish);

  /// The output pixels from number `first` on, which lie in one row of the output.
  void emit(mlir::Value first, int64_t height);

private:
  /// An input pixel, and the products that it is in.
  struct Pixel {
    mlir::Value pointer;
    llvm::SmallVector<std::pair<int64_t, size_t>> uses; // tap, row of the tile
  };

  void findPixels();
  llvm::SmallVector<mlir::Value> tapIndices(int64_t tap);
  void emitChannels(mlir::Value channel, int64_t vectors, bool masked);
  void finishVector(mlir::Value row, mlir::Value channel, mlir::Value sum, mlir::Value mask);

  ElementEmitter &emitter_;
  IndexMath &math_;
  graph::ConvOp root_;
  ImageRows image_;
  Finish finish_;
  int64_t vectors_;
  mlir::Type accumulator_;
  int64_t lanes_;
  llvm::SmallVector<mlir::Value> outDims_, rows_;
  std::vector<Pixel> pixels_;
};

} // namespace tensmith::kernel

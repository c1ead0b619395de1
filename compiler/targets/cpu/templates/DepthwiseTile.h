// The tile of a depthwise convolution, or of one of small groups: vectors of channels of a few
// output pixels, one tap after the other.
//
// There is one product for each tap and channel of a group: it is bound by loads. So a tile is
// neighbouring pixels of one row of the output, which share the vectors of weights, and the input
// pixels where their windows overlap; the pointers to these are found once for all channels. An
// image of bf16 is widened as it is loaded. Windows of many taps are loops over their lines, and
// pieces of long ones, which find the pixels anew: one pointer for as many products as the tile has
// pixels.
//
// Of small groups a vector of output channels has several: their inputs are as many channels of the
// pixel, of which each group's lanes take the same one at a time, by a permutation of the vector.
// No product is of a zero, as it would be in a matrix of all these groups. Of a group that fills
// vectors each input is broadcast. Where the machine adds up products of bf16 by pairs, and both
// operands are that, an input is two neighbouring channels. An image that the second-level cache
// doesn't hold is prefetched a tile ahead.
#pragma once

#include "compiler/kernel/Machine.h"
#include "compiler/targets/cpu/templates/ImageRows.h"

namespace tensmith::kernel {

inline constexpr int64_t kDepthwiseVectors =
    2;                                         // of channels at a time, unless others are asked for
inline constexpr int64_t kDepthwiseHeight = 4; // output pixels of a tile
/// The same of small groups and of large windows: these have so many weights that a tile of few
/// pixels mostly reads them.
inline constexpr int64_t kTallVectors = 1, kTallHeight = 8;

/// Whether there is a tile for the depthwise convolution: channels-last, of f32.
bool takesDepthwise(graph::ConvOp conv);

class DepthwiseTile {
public:
  /// What is done with a vector of the result, which the root's result is defined as; `row` is the
  /// number of its pixel.
  using Finish = std::function<void(const Position &at, mlir::Value row)>;

  DepthwiseTile(ElementEmitter &emitter, graph::ConvOp root, const Machine &machine,
                int64_t vectors, Finish finish);

  /// The output pixels from number `first` on, which lie in one row of the output.
  void emit(mlir::Value first, int64_t height);
  /// Of small groups, of so many vectors of channels alone.
  void emitVectors(mlir::Value first, int64_t height, mlir::Value firstVector,
                   mlir::Value lastVector);

private:
  /// An input pixel, and the products that it is in.
  struct Pixel {
    mlir::Value pointer;
    llvm::SmallVector<std::pair<int64_t, size_t>> uses; // tap, row of the tile
  };

  using Line = llvm::SmallVector<Pixel>; // of the window

  bool isLooped() const { return tapCount(root_) > kMostStraightTaps; }
  void beginPixels(mlir::Value first, int64_t height);
  void findPixels();
  /// The same under `columns` taps of a line from the one at `first` on, whose taps are counted
  /// from it.
  Line pixelsOf(llvm::ArrayRef<mlir::Value> first, int64_t columns);
  /// Adds the products of all taps to the sums, in loops.
  llvm::SmallVector<mlir::Value> overLines(mlir::Value channel, int64_t vectors, mlir::Value mask,
                                           llvm::ArrayRef<mlir::Value> sums);
  llvm::SmallVector<mlir::Value> overPiece(mlir::Value line, mlir::Value column, int64_t columns,
                                           mlir::Value channel, int64_t vectors, mlir::Value mask,
                                           llvm::ArrayRef<mlir::Value> sums);
  llvm::SmallVector<mlir::Value> tapIndices(int64_t tap);
  void emitChannels(mlir::Value channel, int64_t vectors, mlir::Value mask);
  llvm::SmallVector<mlir::Value> beginnings(mlir::Value channel, int64_t vectors, mlir::Value mask);
  /// Of the tile beside this one, what no tile before has read.
  void prefetchNext(mlir::Value channel);
  mlir::Value maskFrom(mlir::Value channel);

  /// Adds the products of a line with the inputs of that number to the sums.
  void emitLine(const Line &line, mlir::Value channel, int64_t vectors, int64_t input,
                mlir::Value mask, llvm::MutableArrayRef<mlir::Value> loaded,
                llvm::MutableArrayRef<mlir::Value> sums);
  /// Input `input` (a pair of them, where these are multiplied) of the group of each lane, of
  /// output channels from `channel` on; `loaded`: the vector that they are in, if it was loaded
  /// before.
  mlir::Value inputOf(const Pixel &pixel, mlir::Value channel, int64_t input, mlir::Value mask,
                      mlir::Value &loaded);
  mlir::Value weightsOf(int64_t tap, int64_t input, mlir::Value channel, mlir::Value mask);
  /// Of as many elements as lanes, the bits of each pair.
  mlir::Value asPairs(mlir::Value elements);
  void finishVector(mlir::Value row, mlir::Value channel, mlir::Value sum, mlir::Value mask);

  ElementEmitter &emitter_;
  IndexMath &math_;
  graph::ConvOp root_;
  ImageRows image_;
  Finish finish_;
  int64_t vectors_, step_, inputs_; // inputs: of a group, each of `step_` channels
  const Intrinsic *products_;       // of pairs of bf16
  mlir::Value weights_;             // taps, or panels of small groups
  bool prefetches_;                 // the image comes from beyond the second-level cache
  mlir::Type accumulator_;
  int64_t lanes_;
  mlir::Value firstTap_; // of the piece of a line whose products are added up
  llvm::SmallVector<mlir::Value> outDims_, rows_;
  std::vector<Line> lines_;
};

} // namespace tensmith::kernel

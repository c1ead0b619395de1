// The pixels that the windows of a convolution touch, for a handful of output pixels at a time.
//
// The input is channels-last and in memory, all of it or a few lines (LineBuffer): a pixel is a
// pointer to its channels. A row of zeros
// stands for every pixel in the padding, so that padding costs nothing in the inner loop (the
// indirect convolution of Dukhan, 2019).
#pragma once

#include "compiler/graph/Graph.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/ElementEmitter.h"

namespace tensmith::kernel {

/// A constant row of zeros, as long as a pixel of a channels-last image, in the kernel's own
/// module.
mlir::Value zeroPixel(IndexMath &math, mlir::Type imageElement, int64_t channels);

class ImageRows {
public:
  ImageRows(ElementEmitter &emitter, graph::ConvOp conv);

  llvm::ArrayRef<int64_t> window() const { return window_; }
  size_t count() const { return pixels_.size(); }

  /// Takes output pixels by their row-major numbers.
  void begin(llvm::ArrayRef<mlir::Value> outputPixels);

  /// Input indices [image, spatial...] that output pixel `number` reads at a tap; `inside` is
  /// whether they exist (null: always).
  llvm::SmallVector<mlir::Value> indices(size_t number, mlir::ValueRange tap, mlir::Value &inside);
  /// The same with those outside replaced by 0.
  llvm::SmallVector<mlir::Value> clampedIndices(size_t number, mlir::ValueRange tap,
                                                mlir::Value &inside);
  /// Of a window of one pixel without padding: the number of that one in the image.
  mlir::Value number(size_t number);
  /// A pointer to the pixel's channels from `channel` on, or to zeros. The input must be in a
  /// buffer.
  mlir::Value pointer(size_t number, mlir::ValueRange tap, mlir::Value channel);

  /// The same of the pixel with these indices [image, spatial...], which wrap below zero in the low
  /// padding.
  mlir::Value pixel(llvm::ArrayRef<mlir::Value> indices, mlir::Value channel);

private:
  struct Pixel {
    mlir::Value image;
    llvm::SmallVector<mlir::Value> start; // of the window; wraps below zero in the low padding
  };

  mlir::Value zeros();

  ElementEmitter &emitter_;
  IndexMath &math_;
  /// As it lies in memory.
  mlir::Value image() { return imageInMemory(conv_); }

  graph::ConvOp conv_;
  llvm::SmallVector<int64_t> window_;
  bool padded_, pointwise_; // pointwise: a pixel's image pixel has its number
  llvm::SmallVector<mlir::Value> numbers_;
  llvm::SmallVector<Pixel> pixels_;
};

} // namespace tensmith::kernel

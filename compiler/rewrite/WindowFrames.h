// A convolution of a video is one of its frames, with sums over neighbouring ones: for each frame
// of the result the frames under the window lie side by side as channels.
//
//   y[f] = sum over k of conv2d(x[f + k], w[k])
//
// So what computes a convolution of images from products of matrices (Winograd.cpp) computes this
// one from products that are as many times as long. Their rows are only moved, and so are read
// where they lie (targets/cpu/templates/RowSource.h).
#pragma once

#include "compiler/graph/GraphBuilder.h"

namespace tensmith::rewrite {

/// Frames along the first dimension of a channels-last video [N, F, H, W, C], and the window's taps
/// along them, in steps of one frame.
struct WindowFrames {
  int64_t taps = 1, dilation = 1, pad = 0; // of the window; before the first frame
  int64_t input = 1, output = 1;           // frames of the video and of the result

  /// Whether windows reach beyond the video.
  bool isPadded() const { return pad > 0 || output - 1 + (taps - 1) * dilation - pad >= input; }
  /// Whether the rows of a frame are others than those of its image.
  bool isNeeded() const { return taps > 1 || isPadded(); }
  /// Frames that become images: with an empty one where windows reach beyond the video.
  int64_t images() const { return input + (isPadded() ? 1 : 0); }

  /// The images [N * images, H, W, C] of a video.
  mlir::Value split(graph::GraphBuilder &graph, mlir::Value video) const;
  /// Of planes of rows [P, N * images * rows, C], as many of each image, those of each frame of the
  /// result: [P, N * output * rows, taps * C].
  mlir::Value rowsUnderWindows(graph::GraphBuilder &graph, mlir::Value planes,
                               int64_t rowsOfImage) const;
  /// Weights [M, C, taps, window...] as those of the images: [M, taps * C, window...].
  mlir::Value weights(graph::GraphBuilder &graph, mlir::Value weights) const;
  /// The video [N, output, H, W, M] of its frames [N * output, H, W, M].
  mlir::Value join(graph::GraphBuilder &graph, mlir::Value images) const;
};

} // namespace tensmith::rewrite

// A window that slides over an image: the geometry that convolution, its transpose, pooling and
// col2im share.
//
// Along each spatial dimension, element k of the window at grid position o lies on the image's
// element o * stride - low + k * dilation, if there is one. Convolution and pooling read the image
// and write the grid; transposed convolution and col2im read the grid and add to the image.
#pragma once

#include "reference/Workspace.h"

namespace tensmith::reference {

struct Window {
  Shape image, grid, kernel;
  std::vector<int64_t> strides, dilations, lows, highs;

  size_t rank() const { return kernel.size(); }
  int64_t imageSize() const { return extent(image, 0, image.size()); }
  int64_t gridSize() const { return extent(grid, 0, grid.size()); }
  int64_t kernelSize() const { return extent(kernel, 0, kernel.size()); }

  /// Extent of the window, dilated, along a dimension.
  int64_t reach(size_t axis) const { return dilations[axis] * (kernel[axis] - 1) + 1; }

  /// The grid positions [first, last) at which element k of the window is within the image, along a
  /// dimension.
  std::pair<int64_t, int64_t> valid(size_t axis, int64_t k) const;
};

/// A window of `kernel` with the attributes `strides`, `dilations` and `pads` (all lows, then all
/// highs), each of which may be empty: 1, 1 and 0. Image and grid are left to the caller.
Window windowOf(Workspace &workspace, const Invocation &invocation, Shape kernel);

/// The grid of a window over the image, where windows that reach out of the padded image are left
/// out, or where `ceilMode`, only those that start beyond the image and its low padding.
void placeOnImage(Workspace &workspace, Window &window, Shape image, bool ceilMode);

/// Calls `row(gridOffset, imageOffset, count, imageStep)` for each run along the last dimension of
/// grid positions that see the image through the window's element at `k` (of `rank` coordinates).
template <typename Row> void forEachRow(const Window &window, const Shape &k, Row row) {
  const size_t rank = window.rank();
  Shape first(rank), counts(rank);
  for (size_t axis = 0; axis < rank; ++axis) {
    auto [low, high] = window.valid(axis, k[axis]);
    first[axis] = low;
    counts[axis] = high - low;
  }
  const int64_t run = counts.back();
  if (run <= 0)
    return;
  counts.back() = 1;
  forEachPosition(counts, [&](const Shape &at) {
    int64_t gridOffset = 0, imageOffset = 0;
    for (size_t axis = 0; axis < rank; ++axis) {
      const int64_t position = first[axis] + at[axis];
      gridOffset = gridOffset * window.grid[axis] + position;
      imageOffset = imageOffset * window.image[axis] + position * window.strides[axis] -
                    window.lows[axis] + k[axis] * window.dilations[axis];
    }
    row(gridOffset, imageOffset, run, window.strides.back());
  });
}

/// [N, spatial..., C] as [N, C, spatial...], and back.
Shape channelsFirst(const Shape &shape);
Shape channelsLast(const Shape &shape);
template <typename T>
std::span<T> toChannelsFirst(Workspace &workspace, std::span<const T> x, const Shape &shape) {
  std::span<T> y = workspace.zeros<T>(channelsFirst(shape));
  if (!workspace.ok())
    return {};
  const int64_t images = shape.front(), channels = shape.back();
  const int64_t positions = extent(shape, 1, shape.size() - 1);
  for (int64_t n = 0; n < images; ++n)
    for (int64_t p = 0; p < positions; ++p)
      for (int64_t c = 0; c < channels; ++c)
        y[size_t((n * channels + c) * positions + p)] =
            x[size_t((n * positions + p) * channels + c)];
  return y;
}
template <typename T>
std::span<T> toChannelsLast(Workspace &workspace, std::span<const T> x, const Shape &shape) {
  std::span<T> y = workspace.zeros<T>(channelsLast(shape));
  if (!workspace.ok())
    return {};
  const int64_t images = shape[0], channels = shape[1], positions = extent(shape, 2, shape.size());
  for (int64_t n = 0; n < images; ++n)
    for (int64_t p = 0; p < positions; ++p)
      for (int64_t c = 0; c < channels; ++c)
        y[size_t((n * positions + p) * channels + c)] =
            x[size_t((n * channels + c) * positions + p)];
  return y;
}

/// The part of the convolution family's table that is in Pooling.cpp.
std::span<const Entry> poolingEntries();

} // namespace tensmith::reference

// Reference evaluation of pooling and of what undoes it: max_pool, average_pool, lp_pool,
// max_pool_indices, max_unpool and col2im.
//
// A pool visits the window's elements in row-major order, each over the whole grid; so the first
// largest element is the one found first. A NaN in a window is its maximum, as for the reductions.
#include "reference/Window.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tensmith::reference {

namespace {

/// What a pool works on: planes (an image's channel each), channels before the spatial dimensions.
template <typename T> struct Pool {
  Window window;
  Shape shape; // of the result, channels first
  int64_t planes = 0;
  std::span<T> x, y;
};

template <typename T>
Pool<T> poolOf(Workspace &workspace, const Invocation &invocation, const HostTensor &x) {
  Pool<T> pool;
  workspace.require(x.rank() >= 3, "x", "must have a batch, channels and spatial dimensions");
  if (!workspace.ok())
    return pool;
  const bool last = workspace.isChannelsLast();
  const Shape shape = last ? channelsFirst(x.shape()) : x.shape();
  pool.window = windowOf(workspace, invocation, invocation.attributes.integers("kernel"));
  placeOnImage(workspace, pool.window, Shape(shape.begin() + 2, shape.end()),
               invocation.attributes.integer("ceil_mode") != 0);
  pool.shape = {shape[0], shape[1]};
  pool.shape.insert(pool.shape.end(), pool.window.grid.begin(), pool.window.grid.end());
  pool.x = workspace.widen<T>(x);
  if (workspace.ok() && last)
    pool.x = toChannelsFirst<T>(workspace, pool.x, x.shape());
  pool.y = workspace.zeros<T>(pool.shape);
  pool.planes = pool.y.empty() ? 0 : shape[0] * shape[1];
  return pool;
}

/// Calls `combine(y, x)` with offsets of each result and each element of its window, in the
/// window's order.
template <typename T, typename Combine> void forEachPair(const Pool<T> &pool, Combine combine) {
  const int64_t imageSize = pool.window.imageSize(), gridSize = pool.window.gridSize();
  if (pool.planes == 0)
    return;
  forEachPosition(pool.window.kernel, [&](const Shape &k) {
    for (int64_t plane = 0; plane < pool.planes; ++plane)
      forEachRow(pool.window, k, [&](int64_t to, int64_t from, int64_t count, int64_t step) {
        for (int64_t i = 0; i < count; ++i)
          combine(plane * gridSize + to + i, plane * imageSize + from + i * step);
      });
  });
}

template <typename T>
Outcome finishPool(Workspace &workspace, const Invocation &invocation, Pool<T> &pool,
                   DataType type) {
  if (workspace.ok() && workspace.isChannelsLast()) {
    pool.y = toChannelsLast<T>(workspace, pool.y, pool.shape);
    pool.shape = channelsLast(pool.shape);
  }
  return workspace.finish(workspace.narrow<T>(pool.y, type, pool.shape, 0));
}

// ---- max_pool, max_pool_indices
// -------------------------------------------------------------------------

template <typename T> bool exceeds(T value, T best) {
  if constexpr (std::is_same_v<T, double>)
    return value > best || (std::isnan(value) && !std::isnan(best));
  else
    return value > best;
}

/// The least value of `type`, for a window that sees nothing but padding.
template <typename T> T least(DataType type) {
  if constexpr (std::is_same_v<T, double>)
    return -std::numeric_limits<double>::infinity();
  else
    return std::is_same_v<T, uint64_t> ? T(0) : T(uint64_t(-1) << (info(type).bits - 1));
}

Outcome evaluateMaxPool(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x");
  return withWideType(x.type(), [&](auto wide) {
    using T = decltype(wide);
    Pool<T> pool = poolOf<T>(workspace, invocation, x);
    std::ranges::fill(pool.y, least<T>(x.type()));
    forEachPair(pool, [&](int64_t y, int64_t from) {
      if (exceeds(pool.x[size_t(from)], pool.y[size_t(y)]))
        pool.y[size_t(y)] = pool.x[size_t(from)];
    });
    return finishPool(workspace, invocation, pool, x.type());
  });
}

/// The flat index with the spatial dimensions numbered in reverse order (ONNX's storage_order 1).
int64_t columnMajor(int64_t flat, const Shape &image) {
  const int64_t plane = extent(image, 0, image.size());
  int64_t rest = flat % plane, place = plane, index = flat - rest;
  for (size_t axis = image.size(); axis-- > 0; rest /= image[axis]) {
    place /= image[axis];
    index += rest % image[axis] * place;
  }
  return index;
}

Outcome evaluateMaxPoolIndices(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x");
  return withWideType(x.type(), [&](auto wide) -> Outcome {
    using T = decltype(wide);
    Pool<T> pool = poolOf<T>(workspace, invocation, x);
    std::span<int64_t> indices = workspace.zeros<int64_t>(pool.shape);
    if (!workspace.ok())
      return workspace.status();
    std::ranges::fill(indices, -1);
    forEachPair(pool, [&](int64_t y, int64_t from) {
      const T value = pool.x[size_t(from)];
      if (indices[size_t(y)] < 0 || exceeds(value, pool.y[size_t(y)])) {
        pool.y[size_t(y)] = value;
        indices[size_t(y)] = from;
      }
    });
    if (invocation.attributes.integer("column_major"))
      for (int64_t &index : indices)
        index = index < 0 ? index : columnMajor(index, pool.window.image);
    return workspace.finish(workspace.narrow<int64_t>(indices, DataType::I64, pool.shape, 0));
  });
}

// ---- average_pool, lp_pool
// ------------------------------------------------------------------------------

/// How many elements of the window at a grid position count: those in the image, or in the padded
/// image.
double countedElements(const Window &window, const Shape &position, bool padding) {
  double count = 1;
  for (size_t axis = 0; axis < window.rank(); ++axis) {
    const int64_t dilation = window.dilations[axis];
    const int64_t start = position[axis] * window.strides[axis] - window.lows[axis];
    const int64_t low = padding ? -window.lows[axis] : 0;
    const int64_t high = window.image[axis] + (padding ? window.highs[axis] : 0);
    const int64_t first = start >= low ? 0 : (low - start + dilation - 1) / dilation;
    const int64_t last = high <= start ? 0 : (high - start + dilation - 1) / dilation;
    count *= double(std::max<int64_t>(0, std::min(last, window.kernel[axis]) - first));
  }
  return count;
}

Outcome evaluateAveragePool(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x");
  Pool<double> pool = poolOf<double>(workspace, invocation, x);
  if (!workspace.ok())
    return workspace.status();
  forEachPair(pool, [&](int64_t y, int64_t from) { pool.y[size_t(y)] += pool.x[size_t(from)]; });
  const bool padding = invocation.attributes.integer("count_include_pad") != 0;
  const int64_t gridSize = pool.window.gridSize();
  int64_t position = 0;
  forEachPosition(pool.window.grid, [&](const Shape &at) {
    const double count = std::max(1.0, countedElements(pool.window, at, padding));
    for (int64_t plane = 0; plane < pool.planes; ++plane)
      pool.y[size_t(plane * gridSize + position)] /= count;
    ++position;
  });
  return finishPool(workspace, invocation, pool, x.type());
}

Outcome evaluateLpPool(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x");
  const double p = double(invocation.attributes.integer("p", 2));
  if (p < 1)
    workspace.rejectAttribute("p", "must be at least 1");
  Pool<double> pool = poolOf<double>(workspace, invocation, x);
  if (!workspace.ok())
    return workspace.status();
  forEachPair(pool, [&](int64_t y, int64_t from) {
    pool.y[size_t(y)] += std::pow(std::abs(pool.x[size_t(from)]), p);
  });
  for (double &value : pool.y)
    value = std::pow(value, 1 / p);
  return finishPool(workspace, invocation, pool, x.type());
}

// ---- max_unpool
// -----------------------------------------------------------------------------------------

/// The shape that x was pooled from: (in - 1) * stride + kernel - low - high.
Shape unpooledShape(Workspace &workspace, const Invocation &invocation, const HostTensor &x) {
  Window window = windowOf(workspace, invocation, invocation.attributes.integers("kernel"));
  if (workspace.ok() && x.rank() != int64_t(window.rank()) + 2)
    workspace.reject("x", "has shape " + toString(x.shape()) + ", which doesn't fit the kernel");
  if (!workspace.ok())
    return {};
  Shape shape{x.shape()[0], x.shape()[1]};
  for (size_t axis = 0; axis < window.rank(); ++axis) {
    const int64_t size = x.shape()[axis + 2];
    shape.push_back(size > kLargestExtent
                        ? -1
                        : (size - 1) * window.strides[axis] + window.kernel[axis] -
                              window.lows[axis] - window.highs[axis]);
    if (shape.back() < 0)
      workspace.reject("x", "of shape " + toString(x.shape()) +
                                " is unpooled to an impossible size; check kernel and pads");
  }
  return shape;
}

/// Indices number the elements of the inferred shape, also where `output_shape` asks for a larger
/// tensor around it: so ONNX's definition and its conformance test have it.
Outcome evaluateMaxUnpool(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x"), &indices = workspace.operand(1, "indices");
  Shape inferred = unpooledShape(workspace, invocation, x), shape = inferred;
  if (workspace.ok())
    workspace.expectShape(indices, "indices", x.shape());
  if (invocation.present(2))
    shape = workspace.integers(2, "output_shape");
  auto strides = broadcastStrides(shape, shape);
  if (workspace.ok() && (shape.size() != inferred.size() ||
                         !std::ranges::equal(inferred, shape, std::ranges::less_equal())))
    workspace.reject("output_shape",
                     "is smaller than what x is unpooled to, " + toString(inferred));
  HostTensor y = workspace.allocate(x.type(), shape);
  const int64_t count = elementCount(inferred).value_or(0);
  for (int64_t i = 0; workspace.ok() && i < x.size(); ++i) {
    int64_t index = indices.getInt(i), offset = 0;
    if (index < 0 || index >= count) {
      workspace.reject("indices", "has " + std::to_string(index) + ", outside of a result of " +
                                      std::to_string(count) + " elements");
      break;
    }
    for (size_t axis = shape.size(); axis-- > 0; index /= inferred[axis])
      offset += index % inferred[axis] * (*strides)[axis];
    if (isFloat(x.type()))
      y.setDouble(offset, x.getDouble(i));
    else
      y.setInt(offset, x.getInt(i));
  }
  return workspace.finish(y);
}

// ---- col2im
// ---------------------------------------------------------------------------------------------

void checkColumns(Workspace &workspace, const HostTensor &x, const Window &window) {
  if (!workspace.ok())
    return;
  if (window.kernelSize() < 1 || x.shape()[1] % window.kernelSize() != 0 ||
      x.shape()[2] != window.gridSize())
    workspace.reject("x", "has shape " + toString(x.shape()) + ", which doesn't fit blocks of " +
                              toString(window.kernel) + " at " + toString(window.grid) +
                              " positions");
}

template <typename T>
Outcome columnsToImage(Workspace &workspace, const HostTensor &x, const Window &window) {
  const int64_t elements = window.kernelSize(), planes = x.shape()[0] * (x.shape()[1] / elements);
  Shape shape{x.shape()[0], x.shape()[1] / elements};
  shape.insert(shape.end(), window.image.begin(), window.image.end());
  std::span<T> columns = workspace.widen<T>(x), y = workspace.zeros<T>(shape);
  if (!workspace.ok())
    return workspace.status();
  const int64_t gridSize = window.gridSize(), imageSize = window.imageSize();
  int64_t element = 0;
  if (!columns.empty())
    forEachPosition(window.kernel, [&](const Shape &k) {
      for (int64_t plane = 0; plane < planes; ++plane)
        forEachRow(window, k, [&](int64_t from, int64_t to, int64_t count, int64_t step) {
          const T *line = columns.data() + (plane * elements + element) * gridSize + from;
          T *sums = y.data() + plane * imageSize + to;
          for (int64_t i = 0; i < count; ++i)
            sums[i * step] = multiplyAdd(line[i], T(1), sums[i * step]);
        });
      ++element;
    });
  return workspace.finish(workspace.narrow<T>(y, x.type(), shape));
}

Outcome evaluateCol2Im(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x", 3);
  Shape image = workspace.integers(1, "image_shape"), block = workspace.integers(2, "block_shape");
  for (int64_t size : image)
    workspace.require(size >= 0, "image_shape", "has a negative size");
  if (!workspace.ok())
    return workspace.status();
  Window window = windowOf(workspace, invocation, block);
  placeOnImage(workspace, window, image, false);
  checkColumns(workspace, x, window);
  if (!workspace.ok())
    return workspace.status();
  return withWideType(
      x.type(), [&](auto wide) { return columnsToImage<decltype(wide)>(workspace, x, window); });
}

constexpr Entry kPools[] = {
    {"max_pool", evaluateMaxPool},     {"average_pool", evaluateAveragePool},
    {"lp_pool", evaluateLpPool},       {"max_pool_indices", evaluateMaxPoolIndices},
    {"max_unpool", evaluateMaxUnpool}, {"col2im", evaluateCol2Im}};

} // namespace

std::span<const Entry> poolingEntries() { return kPools; }

} // namespace tensmith::reference

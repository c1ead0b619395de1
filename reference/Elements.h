// Runs of elements: converted in bulk to the type that an operator computes in and back, or copied
// as they are.
//
// One switch over the element types is paid for each run instead of for each element. Offsets and
// strides count elements; a stride may be zero or negative. Nothing here checks bounds: the
// operators have done so.
#pragma once

#include "reference/Reference.h"

#include <algorithm>
#include <array>

namespace tensmith::reference {

/// The run that operators compute at a time: its buffers stay in the first-level cache.
inline constexpr int64_t kRun = 512;

/// T: double, int64_t or uint64_t. Floats are truncated where T is an integer.
template <typename T>
void loadRun(const HostTensor &tensor, int64_t offset, int64_t stride, int64_t count, T *values);

/// Rounds once to the element type; integers wrap.
template <typename T>
void storeRun(HostTensor &tensor, int64_t offset, int64_t count, const T *values);

/// Copies elements of any type, strings included, between tensors of the same type.
void copyRun(HostTensor &to, int64_t toOffset, int64_t toStride, const HostTensor &from,
             int64_t fromOffset, int64_t fromStride, int64_t count);

/// The positions of a shape with strides for each of N tensors; dimensions that all of them walk
/// alike are merged.
template <size_t N> struct StridedLoop {
  Shape shape;
  std::array<std::vector<int64_t>, N> strides;

  void append(int64_t size, const std::array<int64_t, N> &step);
};

/// Copies a box of `shape` from one tensor to another. A transposition goes by tiles that fit the
/// cache.
void copyStrided(HostTensor &to, int64_t toOffset, std::span<const int64_t> toStrides,
                 const HostTensor &from, int64_t fromOffset, std::span<const int64_t> fromStrides,
                 std::span<const int64_t> shape);

/// Row-major strides of a shape.
std::vector<int64_t> rowMajorStrides(std::span<const int64_t> shape);

/// Whether an element differs from zero (a string: from the empty one).
bool isNonZero(const HostTensor &tensor, int64_t index);

template <size_t N> void StridedLoop<N>::append(int64_t size, const std::array<int64_t, N> &step) {
  if (size == 1)
    return;
  bool merges = !shape.empty();
  for (size_t k = 0; k < N && merges; ++k)
    merges = strides[k].back() == step[k] * size;
  if (!merges)
    shape.push_back(size);
  else
    shape.back() *= size;
  for (size_t k = 0; k < N; ++k) {
    if (merges)
      strides[k].back() = step[k];
    else
      strides[k].push_back(step[k]);
  }
}

template <size_t N>
StridedLoop<N> mergeDimensions(std::span<const int64_t> shape,
                               const std::array<std::vector<int64_t>, N> &strides) {
  StridedLoop<N> loop;
  for (int64_t size : shape)
    if (size <= 0) { // strides of an empty tensor mean nothing
      loop.append(0, {});
      return loop;
    }
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    std::array<int64_t, N> step;
    for (size_t k = 0; k < N; ++k)
      step[k] = strides[k][axis];
    loop.append(shape[axis], step);
  }
  return loop;
}

/// `visit(offsets, steps, count)` for each run along the last dimension, in row-major order.
template <size_t N, typename Visit> void forEachRow(const StridedLoop<N> &loop, Visit visit) {
  std::array<int64_t, N> offsets{}, steps{};
  if (loop.shape.empty())
    return visit(offsets, steps, int64_t(1));
  for (int64_t size : loop.shape)
    if (size <= 0)
      return;
  size_t outer = loop.shape.size() - 1;
  for (size_t k = 0; k < N; ++k)
    steps[k] = loop.strides[k][outer];
  Shape index(outer, 0);
  for (;;) {
    visit(offsets, steps, loop.shape[outer]);
    size_t axis = outer;
    for (; axis > 0; --axis) {
      bool wraps = ++index[axis - 1] == loop.shape[axis - 1];
      int64_t move = wraps ? 1 - loop.shape[axis - 1] : 1;
      for (size_t k = 0; k < N; ++k)
        offsets[k] += move * loop.strides[k][axis - 1];
      if (!wraps)
        break;
      index[axis - 1] = 0;
    }
    if (axis == 0)
      return;
  }
}

/// The same in runs of at most kRun.
template <size_t N, typename Visit> void forEachRun(const StridedLoop<N> &loop, Visit visit) {
  forEachRow(loop, [&](std::array<int64_t, N> offsets, const std::array<int64_t, N> &steps,
                       int64_t count) {
    for (; count > 0; count -= kRun) {
      visit(std::as_const(offsets), steps, std::min(count, kRun));
      for (size_t k = 0; k < N; ++k)
        offsets[k] += kRun * steps[k];
    }
  });
}

} // namespace tensmith::reference

// Broadcasting and the loops of the elementwise operators: see Elementwise.h.
#include "reference/Elementwise.h"

namespace tensmith::reference {

Shape broadcastShape(Workspace &workspace, std::span<const HostTensor *const> tensors,
                     std::span<const std::string_view> names) {
  Shape shape;
  for (size_t k = 0; k < tensors.size(); ++k) {
    const Shape &other = tensors[k]->shape();
    if (other.size() > shape.size())
      shape.insert(shape.begin(), other.size() - shape.size(), 1);
    for (size_t i = 1; i <= other.size(); ++i) {
      int64_t &size = shape[shape.size() - i];
      int64_t here = other[other.size() - i];
      if (size != 1 && here != 1 && size != here)
        workspace.reject(names[k], "of shape " + toString(other) +
                                       " can't be broadcast together with " + toString(shape));
      size = size == 1 ? here : size;
    }
  }
  return shape;
}

template <typename T>
Outcome mapUnary(Workspace &workspace, const HostTensor &x, DataType type, UnaryKernel<T> kernel) {
  HostTensor y = workspace.allocate(type, x.shape());
  if (!workspace.ok())
    return workspace.status();
  std::array<T, kRun> from, to;
  for (int64_t offset = 0; offset < x.size(); offset += kRun) {
    int64_t count = std::min(kRun, x.size() - offset);
    loadRun<T>(x, offset, 1, count, from.data());
    kernel(from.data(), to.data(), count);
    storeRun<T>(y, offset, count, to.data());
  }
  return workspace.finish(std::move(y));
}

template <typename T>
Outcome mapBinary(Workspace &workspace, const HostTensor &a, const HostTensor &b, DataType type,
                  BinaryKernel<T> kernel) {
  const HostTensor *tensors[] = {&a, &b};
  constexpr std::string_view kNames[] = {"a", "b"};
  Shape shape = broadcastShape(workspace, tensors, kNames);
  HostTensor c = workspace.allocate(type, shape);
  if (!workspace.ok())
    return workspace.status();
  StridedLoop<2> loop = mergeDimensions<2>(
      shape, {*broadcastStrides(a.shape(), shape), *broadcastStrides(b.shape(), shape)});
  std::array<T, kRun> left, right, result;
  int64_t next = 0;
  forEachRun(loop, [&](const auto &offsets, const auto &steps, int64_t count) {
    loadRun<T>(a, offsets[0], steps[0], count, left.data());
    loadRun<T>(b, offsets[1], steps[1], count, right.data());
    kernel(left.data(), right.data(), result.data(), count);
    storeRun<T>(c, next, count, result.data());
    next += count;
  });
  return workspace.finish(std::move(c));
}

#define TENSMITH_MAPS(T)                                                                           \
  template Outcome mapUnary<T>(Workspace &, const HostTensor &, DataType, UnaryKernel<T>);         \
  template Outcome mapBinary<T>(Workspace &, const HostTensor &, const HostTensor &, DataType,     \
                                BinaryKernel<T>);
TENSMITH_MAPS(double)
TENSMITH_MAPS(int64_t)
TENSMITH_MAPS(uint64_t)
#undef TENSMITH_MAPS

} // namespace tensmith::reference

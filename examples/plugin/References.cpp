// What the operators mean, in slow and plain C++: the oracle of tests, and what runs where there is
// no kernel.
#include "Example.h"

using namespace tensmith;

namespace example {
namespace {

using Outcome = Result<std::vector<HostTensor>>;

/// The row-major place in a tensor of `shape` of the element that stands at `place` of the result,
/// by NumPy's broadcasting.
int64_t broadcastPlace(int64_t place, const Shape &result, const Shape &shape) {
  int64_t at = 0, step = 1;
  for (size_t back = 1; back <= result.size(); ++back) {
    int64_t size = result[result.size() - back], index = place % size;
    place /= size;
    if (back > shape.size())
      continue;
    int64_t own = shape[shape.size() - back];
    at += own == 1 ? 0 : index * step;
    step *= own;
  }
  return at;
}

Shape broadcastShape(const Shape &a, const Shape &b) {
  Shape shape(std::max(a.size(), b.size()), 1);
  for (const Shape *each : {&a, &b})
    for (size_t back = 1; back <= each->size(); ++back)
      if (int64_t size = (*each)[each->size() - back]; size != 1)
        shape[shape.size() - back] = size;
  return shape;
}

Outcome softThreshold(const reference::Invocation &invocation) {
  const HostTensor &x = invocation.operands[0], &threshold = invocation.operands[1];
  HostTensor y(x.type(), broadcastShape(x.shape(), threshold.shape()));
  if (!y.valid())
    return Status(StatusCode::ResourceExhausted, "soft_threshold: no memory");
  for (int64_t i = 0; i < y.size(); ++i) {
    double value = x.getDouble(broadcastPlace(i, y.shape(), x.shape()));
    double least = threshold.getDouble(broadcastPlace(i, y.shape(), threshold.shape()));
    y.setDouble(i, std::max(value - least, 0.0) - std::max(-value - least, 0.0));
  }
  return std::vector<HostTensor>{std::move(y)};
}

Outcome difference(const reference::Invocation &invocation) {
  const HostTensor &x = invocation.operands[0];
  int64_t shift = invocation.attributes.integer("shift", 1);
  int64_t axis = invocation.attributes.integer("axis", -1);
  axis += axis < 0 ? x.rank() : 0;
  if (axis < 0 || axis >= x.rank() || shift < 0 || shift > x.shape()[size_t(axis)])
    return invalidArgument("difference: (D2) the shift is more than the size of the dimension");
  Shape shape = x.shape();
  int64_t inner = 1, size = shape[size_t(axis)], kept = size - shift;
  for (size_t dim = size_t(axis) + 1; dim < shape.size(); ++dim)
    inner *= shape[dim];
  shape[size_t(axis)] = kept;
  HostTensor y(x.type(), shape);
  if (!y.valid())
    return Status(StatusCode::ResourceExhausted, "difference: no memory");
  for (int64_t i = 0; i < y.size(); ++i) {
    int64_t outer = i / (kept * inner), rest = i % (kept * inner);
    int64_t at = outer * size * inner + rest;
    y.setDouble(i, x.getDouble(at + shift * inner) - x.getDouble(at));
  }
  return std::vector<HostTensor>{std::move(y)};
}

} // namespace

std::span<const reference::Entry> references() {
  static constexpr reference::Entry kRows[] = {{"example.soft_threshold", softThreshold},
                                               {"example.difference", difference}};
  return kRows;
}

} // namespace example

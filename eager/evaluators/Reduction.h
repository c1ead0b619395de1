// Reductions over any axes, one element after the other in the operand's order: what sums of
// complex numbers and counts of truths have in common.
#pragma once

#include "reference/Elements.h"
#include "reference/Workspace.h"

#include <optional>

namespace tensmith::eager {

/// total = combine(total, load(x, i)) for each element i of operand 0, from `initial` on; then
/// store(y, j, total) for each of the result's, which has the type (none: the operand's).
template <typename Total, typename Load, typename Combine, typename Store>
reference::Outcome reduceOver(const reference::Invocation &invocation, std::optional<DataType> type,
                              Total initial, Load load, Combine combine, Store store) {
  using namespace reference;
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  std::vector<bool> isReduced(size_t(x.rank()), false);
  for (int64_t axis : invocation.attributes.integers("axes"))
    isReduced[workspace.axis("axes", axis, x.rank())] = true;
  if (!workspace.ok())
    return workspace.status();
  Shape shape, full;
  for (size_t axis = 0; axis < isReduced.size(); ++axis) {
    full.push_back(isReduced[axis] ? 1 : x.shape()[axis]);
    if (!isReduced[axis] || invocation.attributes.integer("keepdims"))
      shape.push_back(full.back());
  }
  std::vector<int64_t> strides = denseStrides(full);
  for (size_t axis = 0; axis < isReduced.size(); ++axis)
    strides[axis] = isReduced[axis] ? 0 : strides[axis];
  HostTensor y = workspace.allocate(type.value_or(x.type()), shape);
  std::vector<Total> totals(size_t(y.size()), initial);
  int64_t next = 0;
  forEachRow(mergeDimensions<1>(x.shape(), {strides}),
             [&](const auto &offsets, const auto &steps, int64_t count) {
               for (int64_t i = 0; i < count; ++i) {
                 Total &total = totals[size_t(offsets[0] + i * steps[0])];
                 total = combine(total, load(x, next++));
               }
             });
  for (int64_t i = 0; i < y.size(); ++i)
    store(y, i, totals[size_t(i)]);
  return workspace.finish(std::move(y));
}

} // namespace tensmith::eager

// Reference evaluation of what yields or takes booleans: comparisons, logic, and the choice between
// two operands.
//
// `equal` and `where` also take strings, `where` any type at all: it moves elements and computes
// nothing.
#include "reference/Elementwise.h"
#include "reference/ScalarFunctions.h"

#include <functional>

namespace tensmith::reference {
namespace {

template <typename F> Outcome compared(const Invocation &invocation) {
  return evaluateBinary<F>(invocation, DataType::Bool);
}

Outcome compareStrings(Workspace &workspace, const HostTensor &a, const HostTensor &b) {
  const HostTensor *tensors[] = {&a, &b};
  constexpr std::string_view kNames[] = {"a", "b"};
  Shape shape = broadcastShape(workspace, tensors, kNames);
  HostTensor c = workspace.allocate(DataType::Bool, shape);
  if (!workspace.ok())
    return workspace.status();
  StridedLoop<2> loop = mergeDimensions<2>(
      shape, {*broadcastStrides(a.shape(), shape), *broadcastStrides(b.shape(), shape)});
  int64_t next = 0;
  forEachRow(loop, [&](const auto &offsets, const auto &steps, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      c.setInt(next++,
               a.getString(offsets[0] + i * steps[0]) == b.getString(offsets[1] + i * steps[1]));
  });
  return workspace.finish(std::move(c));
}

Outcome evaluateEqual(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &a = workspace.anyOperand(0, "a"), &b = workspace.anyOperand(1, "b");
  requireSameType(workspace, a, b);
  if (!workspace.ok())
    return workspace.status();
  if (a.type() == DataType::String)
    return compareStrings(workspace, a, b);
  return evaluateBinary<std::equal_to<>>(invocation, DataType::Bool);
}

/// c's next `count` elements from a or b, in stretches of one and the same choice.
void chooseRun(HostTensor &c, int64_t next, const HostTensor &a, const HostTensor &b,
               std::span<const int64_t> offsets, std::span<const int64_t> steps,
               const uint64_t *condition, int64_t count) {
  for (int64_t begin = 0, end = 0; begin < count; begin = end) {
    bool first = condition[begin] != 0;
    while (end < count && (condition[end] != 0) == first)
      ++end;
    size_t k = first ? 1 : 2;
    copyRun(c, next + begin, 1, first ? a : b, offsets[k] + begin * steps[k], steps[k],
            end - begin);
  }
}

Outcome evaluateWhere(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &condition = workspace.operand(0, "condition");
  const HostTensor &a = workspace.anyOperand(1, "a"), &b = workspace.anyOperand(2, "b");
  requireSameType(workspace, a, b);
  const HostTensor *tensors[] = {&condition, &a, &b};
  constexpr std::string_view kNames[] = {"condition", "a", "b"};
  Shape shape = broadcastShape(workspace, tensors, kNames);
  HostTensor c = workspace.allocate(a.type(), shape);
  if (!workspace.ok())
    return workspace.status();
  StridedLoop<3> loop = mergeDimensions<3>(shape, {*broadcastStrides(condition.shape(), shape),
                                                   *broadcastStrides(a.shape(), shape),
                                                   *broadcastStrides(b.shape(), shape)});
  std::array<uint64_t, kRun> chosen;
  int64_t next = 0;
  forEachRun(loop, [&](const auto &offsets, const auto &steps, int64_t count) {
    loadRun<uint64_t>(condition, offsets[0], steps[0], count, chosen.data());
    chooseRun(c, next, a, b, offsets, steps, chosen.data(), count);
    next += count;
  });
  return workspace.finish(std::move(c));
}

constexpr Entry kEntries[] = {
    {"and", compared<LogicalAnd>},
    {"or", compared<LogicalOr>},
    {"xor", compared<LogicalXor>},
    {"equal", evaluateEqual},
    {"less", compared<std::less<>>},
    {"less_or_equal", compared<std::less_equal<>>},
    {"greater", compared<std::greater<>>},
    {"greater_or_equal", compared<std::greater_equal<>>},
    {"where", evaluateWhere},
};

} // namespace

std::span<const Entry> comparisonEntries() { return kEntries; }

} // namespace tensmith::reference

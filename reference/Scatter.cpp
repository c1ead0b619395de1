// Reference evaluation of writing at indices: scatter_elements, scatter_nd and tensor_scatter.
//
// Updates are combined in the order of `indices`, in the wide type, and rounded once at the end;
// where they only replace, elements of any type are copied as they are.
#include "reference/Indexing.h"

#include <algorithm>

namespace tensmith::reference {
namespace {

enum class Combine { Replace, Add, Multiply, Minimum, Maximum };

Combine parseReduction(Workspace &workspace, const Invocation &invocation) {
  std::string text = invocation.attributes.string("reduction", "none");
  if (text == "add")
    return Combine::Add;
  if (text == "mul")
    return Combine::Multiply;
  if (text == "min")
    return Combine::Minimum;
  if (text == "max")
    return Combine::Maximum;
  if (text != "none")
    workspace.rejectAttribute("reduction", "'" + text + "' is unknown");
  return Combine::Replace;
}

template <typename T> T combined(Combine how, T a, T b) {
  switch (how) {
  case Combine::Add:
    return multiplyAdd(b, T(1), a);
  case Combine::Multiply:
    return multiplyAdd(a, b, T(0));
  case Combine::Minimum:
    return a != a || a < b ? a : b;
  case Combine::Maximum:
    return a != a || a > b ? a : b;
  case Combine::Replace:
    break;
  }
  return b;
}

/// A run of `count` updates and the place where it goes.
struct Target {
  int64_t offset, update, count;
};

/// Runs of elements that are as wide as T.
template <typename T, typename ForEachTarget>
void replaceRuns(HostTensor &y, const HostTensor &updates, ForEachTarget forEachTarget) {
  T *to = reinterpret_cast<T *>(y.mutableData());
  const T *from = reinterpret_cast<const T *>(updates.data());
  forEachTarget([&](Target t) { std::copy_n(from + t.update, t.count, to + t.offset); });
}

/// A single element of a width that is known is one move; a call of copyRun takes several times as
/// long.
template <typename ForEachTarget>
void replace(HostTensor &y, const HostTensor &updates, ForEachTarget forEachTarget) {
  switch (y.type() == DataType::String ? 0 : byteSize(y.type())) {
  case 1:
    return replaceRuns<uint8_t>(y, updates, forEachTarget);
  case 2:
    return replaceRuns<uint16_t>(y, updates, forEachTarget);
  case 4:
    return replaceRuns<uint32_t>(y, updates, forEachTarget);
  case 8:
    return replaceRuns<uint64_t>(y, updates, forEachTarget);
  default:
    forEachTarget([&](Target t) { copyRun(y, t.offset, 1, updates, t.update, 1, t.count); });
  }
}

/// x with the runs of `updates` that `forEachTarget` gives to its argument combined into it.
template <typename ForEachTarget>
Outcome scatter(Workspace &workspace, const HostTensor &x, const HostTensor &updates, Combine how,
                ForEachTarget forEachTarget) {
  if (!workspace.ok())
    return workspace.status();
  if (how == Combine::Replace) {
    HostTensor y = workspace.allocate(x.type(), x.shape());
    if (!workspace.ok())
      return workspace.status();
    copyRun(y, 0, 1, x, 0, 1, x.size());
    replace(y, updates, forEachTarget);
    return workspace.finish(std::move(y));
  }
  return withWideType(x.type(), [&](auto wide) {
    using T = decltype(wide);
    std::span<T> values = workspace.widen<T>(x), changes = workspace.widen<T>(updates);
    if (workspace.ok())
      forEachTarget([&](Target t) {
        for (int64_t i = 0; i < t.count; ++i) {
          T &value = values[size_t(t.offset + i)];
          value = combined(how, value, changes[size_t(t.update + i)]);
        }
      });
    return workspace.finish(workspace.narrow<T>(values, x.type(), x.shape()));
  });
}

/// x or the updates: of any type if they only move.
const HostTensor &scatterOperand(Workspace &workspace, Combine how, size_t index,
                                 std::string_view name) {
  return how == Combine::Replace ? workspace.anyOperand(index, name)
                                 : workspace.operand(index, name);
}

/// Gives each index's target, row by row of the last dimension.
template <typename Visit>
void forEachElement(Workspace &workspace, const HostTensor &indices, const Shape &x, size_t axis,
                    Visit visit) {
  std::vector<int64_t> strides = rowMajorStrides(x);
  const int64_t along = strides[axis], size = x[axis];
  strides[axis] = 0;
  const int64_t step = strides.back(), count = indices.shape().back();
  std::span<const int64_t> places = workspace.widen<int64_t>(indices);
  if (!workspace.ok())
    return;
  int64_t next = 0;
  Shape rows(indices.shape().begin(), indices.shape().end() - 1);
  forEachPosition(rows, [&](const Shape &row) {
    const int64_t base = dot(row, strides);
    for (int64_t i = 0; i < count; ++i, ++next) {
      int64_t index = places[size_t(next)];
      index = index < 0 ? index + size : index;
      if (uint64_t(index) < uint64_t(size))
        visit(Target{base + i * step + index * along, next, 1});
      else
        (void)checkedIndex(workspace, indices, next, size); // says so
    }
  });
}

Outcome evaluateScatterElements(const Invocation &invocation) {
  Workspace workspace(invocation);
  Combine how = parseReduction(workspace, invocation);
  const HostTensor &x = scatterOperand(workspace, how, 0, "x");
  const HostTensor &indices = indexOperand(workspace, 1, "indices", x.rank());
  const HostTensor &updates = scatterOperand(workspace, how, 2, "updates");
  size_t axis = workspace.axis("axis", invocation.attributes.integer("axis"), x.rank());
  if (workspace.ok())
    workspace.expectShape(updates, "updates", indices.shape());
  workspace.require(x.type() == updates.type(), "updates", "are not of x's type");
  for (size_t k = 0; workspace.ok() && k < x.shape().size(); ++k)
    workspace.require(k == axis || indices.shape()[k] <= x.shape()[k], "indices",
                      "are larger than x beside the axis");
  return scatter(workspace, x, updates, how,
                 [&](auto visit) { forEachElement(workspace, indices, x.shape(), axis, visit); });
}

Outcome evaluateScatterND(const Invocation &invocation) {
  Workspace workspace(invocation);
  Combine how = parseReduction(workspace, invocation);
  const HostTensor &x = scatterOperand(workspace, how, 0, "x");
  const HostTensor &indices = indexOperand(workspace, 1, "indices");
  const HostTensor &updates = scatterOperand(workspace, how, 2, "updates");
  workspace.require(x.type() == updates.type(), "updates", "are not of x's type");
  workspace.require(indices.rank() >= 1, "indices", "must not be a scalar");
  if (!workspace.ok())
    return workspace.status();
  int64_t length = indices.shape().back();
  workspace.require(length <= x.rank(), "indices", "are longer than x has dimensions");
  if (!workspace.ok())
    return workspace.status();
  Shape expected(indices.shape().begin(), indices.shape().end() - 1);
  expected.insert(expected.end(), x.shape().begin() + length, x.shape().end());
  workspace.expectShape(updates, "updates", expected);
  const bool hasTuples = extent(indices.shape(), 0, indices.shape().size() - 1) > 0;
  workspace.require(!hasTuples || extent(x.shape(), 0, size_t(length)) > 0, "indices",
                    "are there, but no places that they could be of");
  return scatter(workspace, x, updates, how, [&](auto visit) {
    if (updates.size() == 0)
      return;
    int64_t slice = extent(x.shape(), size_t(length), x.shape().size());
    for (int64_t i = 0; i < updates.size() / slice; ++i) {
      int64_t offset = tupleOffset(workspace, indices, i * length, length, x.shape(), 0);
      if (!workspace.ok())
        return;
      visit(Target{offset, i * slice, slice});
    }
  });
}

/// Where in the cache the step goes that is `step` after the batch's write index.
int64_t cachePosition(Workspace &workspace, int64_t index, int64_t step, int64_t size,
                      bool circular) {
  if (circular)
    return ((index % size + size) % size + step) % size;
  if (index < 0 || index > size - step - 1)
    workspace.reject("write_indices", "holds " + std::to_string(index) +
                                          ", from where the update leaves the cache's " +
                                          std::to_string(size) + " positions");
  return index + step;
}

void expectCacheShape(Workspace &workspace, const HostTensor &past, const HostTensor &update,
                      size_t axis) {
  for (size_t k = 0; workspace.ok() && k < past.shape().size(); ++k)
    workspace.require(k == axis ? update.shape()[k] <= past.shape()[k]
                                : update.shape()[k] == past.shape()[k],
                      "update", "doesn't fit the cache");
  workspace.require(past.type() == update.type(), "update", "is not of the cache's type");
}

Outcome evaluateTensorScatter(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &past = workspace.anyOperand(0, "past");
  const HostTensor &update = workspace.anyOperand(1, "update", past.rank());
  size_t axis = workspace.axis("axis", invocation.attributes.integer("axis", -2), past.rank());
  std::string mode = invocation.attributes.string("mode", "linear");
  if (mode != "linear" && mode != "circular")
    workspace.rejectAttribute("mode", "'" + mode + "' is unknown");
  if (workspace.ok() && axis == 0)
    workspace.rejectAttribute("axis", "is the batch");
  expectCacheShape(workspace, past, update, axis);
  HostTensor none;
  const HostTensor &indices =
      invocation.present(2) ? indexOperand(workspace, 2, "write_indices", 1) : none;
  workspace.require(!workspace.ok() || indices.type() == DataType::Undefined ||
                        indices.size() == past.shape()[0],
                    "write_indices", "must be one for each entry of the batch");
  return scatter(workspace, past, update, Combine::Replace, [&](auto visit) {
    if (update.size() == 0)
      return;
    int64_t inner = extent(past.shape(), axis + 1, past.shape().size());
    int64_t size = past.shape()[axis], steps = update.shape()[axis];
    int64_t outer = extent(past.shape(), 0, axis), perBatch = outer / past.shape()[0];
    for (int64_t row = 0; row < outer * steps; ++row) {
      int64_t block = row / steps;
      int64_t index = indices.size() ? indices.getInt(block / perBatch) : 0;
      int64_t position = cachePosition(workspace, index, row % steps, size, mode == "circular");
      if (!workspace.ok())
        return;
      visit(Target{(block * size + position) * inner, row * inner, inner});
    }
  });
}

constexpr Entry kEntries[] = {{"scatter_elements", evaluateScatterElements},
                              {"scatter_nd", evaluateScatterND},
                              {"tensor_scatter", evaluateTensorScatter}};

} // namespace

std::span<const Entry> scatterEntries() { return kEntries; }

} // namespace tensmith::reference

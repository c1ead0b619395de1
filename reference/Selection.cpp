// Reference evaluation of choosing elements by their values: nonzero, compress, topk and unique.
//
// Orders are total, so that results are determined: NaN is above every number, as NumPy sorts it,
// and equal elements stay in the order of their indices.
#include "reference/Selection.h"
#include "reference/Elements.h"

#include <numeric>

namespace tensmith::reference {
namespace {

Outcome evaluateNonZero(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  std::vector<int64_t> found;
  for (int64_t i = 0; workspace.ok() && i < x.size(); ++i)
    if (isNonZero(x, i))
      found.push_back(i);
  int64_t count = int64_t(found.size());
  HostTensor y = workspace.allocateResult(0, DataType::I64, {x.rank(), count});
  if (!workspace.ok())
    return workspace.status();
  for (size_t axis = x.shape().size(); axis-- > 0;)
    for (size_t i = 0; i < found.size(); ++i) {
      y.setInt(int64_t(axis) * count + int64_t(i), found[i] % x.shape()[axis]);
      found[i] /= x.shape()[axis];
    }
  return workspace.finish(std::move(y));
}

/// A tensor seen as [outer, size, inner], of which slices are chosen along the middle.
struct Slices {
  int64_t outer = 1, size = 0, inner = 1;
};

/// Along `axis`, or of the flattened tensor without one.
Slices slicesOf(const HostTensor &x, std::optional<size_t> axis) {
  if (!axis)
    return {1, x.size(), 1};
  return {extent(x.shape(), 0, *axis), x.shape()[*axis],
          extent(x.shape(), *axis + 1, x.shape().size())};
}

std::optional<size_t> optionalAxis(Workspace &workspace, const Invocation &invocation,
                                   const HostTensor &x) {
  if (!invocation.attributes.has("axis"))
    return std::nullopt;
  return workspace.axis("axis", invocation.attributes.integer("axis"), x.rank());
}

/// x's slices of those numbers, one after the other.
HostTensor chosenSlices(Workspace &workspace, const HostTensor &x, std::optional<size_t> axis,
                        std::span<const int64_t> chosen) {
  Shape shape{int64_t(chosen.size())};
  if (axis) {
    shape = x.shape();
    shape[*axis] = int64_t(chosen.size());
  }
  HostTensor y = workspace.allocateResult(0, x.type(), shape);
  if (!workspace.ok() || y.size() == 0)
    return y;
  Slices slices = slicesOf(x, axis);
  int64_t next = 0;
  for (int64_t block = 0; block < slices.outer; ++block)
    for (int64_t row : chosen) {
      copyRun(y, next, 1, x, (block * slices.size + row) * slices.inner, 1, slices.inner);
      next += slices.inner;
    }
  return y;
}

Outcome evaluateCompress(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  const HostTensor &condition = workspace.operand(1, "condition", 1);
  std::optional<size_t> axis = optionalAxis(workspace, invocation, x);
  if (!workspace.ok())
    return workspace.status();
  int64_t size = slicesOf(x, axis).size;
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < condition.size(); ++i)
    if (isNonZero(condition, i))
      chosen.push_back(i);
  if (!chosen.empty() && chosen.back() >= size)
    workspace.reject("condition", "is true at " + std::to_string(chosen.back()) +
                                      ", but there are " + std::to_string(size) + " slices");
  HostTensor y = workspace.ok() ? chosenSlices(workspace, x, axis, chosen) : HostTensor();
  return workspace.finish(std::move(y));
}

// ---- topk

template <typename T> bool isBelow(T a, T b) {
  return a < b || (b != b && a == a); // NaN is above every number
}

/// The first k positions in the order asked for; equal values by position.
template <typename T>
void orderFirst(std::span<int64_t> positions, int64_t k, std::span<const T> values, bool largest) {
  auto precedes = [&](int64_t a, int64_t b) {
    T x = values[size_t(a)], y = values[size_t(b)];
    if (largest ? isBelow(y, x) : isBelow(x, y))
      return true;
    if (largest ? isBelow(x, y) : isBelow(y, x))
      return false;
    return a < b;
  };
  std::iota(positions.begin(), positions.end(), 0);
  std::partial_sort(positions.begin(), positions.begin() + k, positions.end(), precedes);
}

Outcome evaluateTopK(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x");
  int64_t k = workspace.integer(1, "k");
  size_t axis = workspace.axis("axis", invocation.attributes.integer("axis", -1), x.rank());
  if (workspace.ok() && (k < 0 || k > x.shape()[axis]))
    workspace.reject("k", "is " + std::to_string(k) + ", but x has " +
                              std::to_string(x.shape()[axis]) + " elements along the axis");
  if (!workspace.ok())
    return workspace.status();
  bool largest = invocation.attributes.integer("largest", 1) != 0;
  Shape shape = x.shape();
  shape[axis] = k;
  HostTensor y = workspace.allocateResult(0, x.type(), shape);
  HostTensor indices = workspace.allocateResult(1, DataType::I64, shape);
  Slices slices = slicesOf(x, axis);
  return withWideType(x.type(), [&](auto wide) -> Outcome {
    using T = decltype(wide);
    std::span<T> values = workspace.zeros<T>({slices.size});
    std::span<int64_t> positions = workspace.zeros<int64_t>({slices.size});
    if (!workspace.ok())
      return workspace.status();
    for (int64_t line = 0; y.size() > 0 && line < slices.outer * slices.inner; ++line) {
      int64_t block = line / slices.inner, column = line % slices.inner;
      int64_t from = block * slices.size * slices.inner + column;
      loadRun<T>(x, from, slices.inner, slices.size, values.data());
      orderFirst<T>(positions, k, values, largest);
      for (int64_t i = 0; i < k; ++i) {
        int64_t to = (block * k + i) * slices.inner + column;
        copyRun(y, to, 1, x, from + positions[size_t(i)] * slices.inner, 1, 1);
        indices.setInt(to, positions[size_t(i)]);
      }
    }
    return workspace.finish(std::move(y), std::move(indices));
  });
}

// ---- unique

template <typename T> int compareValues(T a, T b) {
  return isBelow(a, b) ? -1 : isBelow(b, a) ? 1 : 0;
}

int compareElements(const HostTensor &x, int64_t a, int64_t b) {
  if (x.type() == DataType::String)
    return x.getString(a).compare(x.getString(b));
  if (isFloat(x.type()))
    return compareValues(x.getDouble(a), x.getDouble(b));
  if (x.type() == DataType::U64)
    return compareValues(uint64_t(x.getInt(a)), uint64_t(x.getInt(b)));
  return compareValues(x.getInt(a), x.getInt(b));
}

/// Lexicographically, in the order in which the slices' elements lie in memory.
int compareSlices(const HostTensor &x, const Slices &slices, int64_t a, int64_t b) {
  for (int64_t block = 0; block < slices.outer; ++block)
    for (int64_t i = 0; i < slices.inner; ++i) {
      int64_t base = block * slices.size;
      if (int order =
              compareElements(x, (base + a) * slices.inner + i, (base + b) * slices.inner + i))
        return order;
    }
  return 0;
}

/// The groups of equal slices: for each its first member and size, for each slice its group.
struct Groups {
  std::vector<int64_t> first, count, groupOf;
};

Groups groupSlices(const HostTensor &x, const Slices &slices, bool sorted) {
  std::vector<int64_t> order(size_t(slices.size));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    int difference = compareSlices(x, slices, a, b);
    return difference != 0 ? difference < 0 : a < b;
  });
  Groups groups;
  groups.groupOf.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || compareSlices(x, slices, order[i - 1], order[i]) != 0) {
      groups.first.push_back(order[i]);
      groups.count.push_back(0);
    }
    ++groups.count.back();
    groups.groupOf[size_t(order[i])] = int64_t(groups.first.size()) - 1;
  }
  if (sorted)
    return groups;
  std::vector<int64_t> byFirst(groups.first.size()), rank(groups.first.size());
  std::iota(byFirst.begin(), byFirst.end(), 0);
  std::sort(byFirst.begin(), byFirst.end(), [&](int64_t a, int64_t b) {
    return groups.first[size_t(a)] < groups.first[size_t(b)];
  });
  Groups result;
  for (size_t i = 0; i < byFirst.size(); ++i) {
    rank[size_t(byFirst[i])] = int64_t(i);
    result.first.push_back(groups.first[size_t(byFirst[i])]);
    result.count.push_back(groups.count[size_t(byFirst[i])]);
  }
  for (int64_t group : groups.groupOf)
    result.groupOf.push_back(rank[size_t(group)]);
  return result;
}

HostTensor vectorOf(Workspace &workspace, size_t result, std::span<const int64_t> values) {
  HostTensor y = workspace.allocateResult(result, DataType::I64, {int64_t(values.size())});
  if (workspace.ok())
    std::copy(values.begin(), values.end(), y.as<int64_t>().begin());
  return y;
}

Outcome evaluateUnique(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  std::optional<size_t> axis = optionalAxis(workspace, invocation, x);
  if (!workspace.ok())
    return workspace.status();
  if (info(x.type()).kind == TypeClass::Complex)
    return unsupported("unique: complex numbers have no order");
  Groups groups =
      groupSlices(x, slicesOf(x, axis), invocation.attributes.integer("sorted", 1) != 0);
  HostTensor y = chosenSlices(workspace, x, axis, groups.first);
  HostTensor indices = vectorOf(workspace, 1, groups.first);
  HostTensor inverse = vectorOf(workspace, 2, groups.groupOf);
  HostTensor counts = vectorOf(workspace, 3, groups.count);
  return workspace.finish(std::move(y), std::move(indices), std::move(inverse), std::move(counts));
}

constexpr Entry kEntries[] = {{"nonzero", evaluateNonZero},
                              {"compress", evaluateCompress},
                              {"topk", evaluateTopK},
                              {"unique", evaluateUnique},
                              {"non_max_suppression", evaluateNonMaxSuppression}};

} // namespace

std::span<const Entry> selectionEntries() { return kEntries; }

} // namespace tensmith::reference

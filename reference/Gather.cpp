// Reference evaluation of reading at indices: gather, gather_elements, gather_nd, and one_hot,
// which reads a table of two values.
#include "reference/Indexing.h"
#include "reference/Trees.h"

namespace tensmith::reference {

const HostTensor &indexOperand(Workspace &workspace, size_t operand, std::string_view name,
                               int64_t rank) {
  const HostTensor &indices = workspace.operand(operand, name, rank);
  workspace.require(!workspace.ok() || isInteger(indices.type()), name, "must be integers");
  return indices;
}

std::string indexRefusal(std::string_view index, std::optional<int64_t> size) {
  std::string text = "holds " + std::string(index) + ", outside of the dimension";
  if (size)
    text += ": [-" + std::to_string(*size) + ", " + std::to_string(*size) + ")";
  return text;
}

int64_t checkedIndex(Workspace &workspace, const HostTensor &indices, int64_t position,
                     int64_t size) {
  int64_t index = indices.getInt(position);
  if (index >= -size && index < size)
    return index < 0 ? index + size : index;
  if (workspace.ok())
    workspace.reject("indices", indexRefusal(std::to_string(index), size) + ", at position " +
                                    std::to_string(position));
  return 0;
}

int64_t tupleOffset(Workspace &workspace, const HostTensor &indices, int64_t position,
                    int64_t length, const Shape &shape, size_t first) {
  int64_t offset = 0;
  for (int64_t k = 0; k < length; ++k) {
    size_t axis = first + size_t(k);
    int64_t index = checkedIndex(workspace, indices, position + k, shape[axis]);
    if (!workspace.ok())
      return 0;
    offset += index * extent(shape, axis + 1, shape.size());
  }
  return offset;
}

namespace {

Outcome evaluateGather(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  const HostTensor &indices = indexOperand(workspace, 1, "indices");
  size_t axis = workspace.axis("axis", invocation.attributes.integer("axis"), x.rank());
  if (!workspace.ok())
    return workspace.status();
  Shape shape(x.shape().begin(), x.shape().begin() + int64_t(axis));
  shape.insert(shape.end(), indices.shape().begin(), indices.shape().end());
  shape.insert(shape.end(), x.shape().begin() + int64_t(axis) + 1, x.shape().end());
  HostTensor y = workspace.allocate(x.type(), shape);
  if (!workspace.ok() || y.size() == 0) // no index is read
    return workspace.finish(std::move(y));
  std::vector<int64_t> rows;
  for (int64_t i = 0; workspace.ok() && i < indices.size(); ++i)
    rows.push_back(checkedIndex(workspace, indices, i, x.shape()[axis]));
  if (!workspace.ok())
    return workspace.status();
  int64_t inner = extent(x.shape(), axis + 1, x.shape().size());
  int64_t outer = extent(x.shape(), 0, axis), size = x.shape()[axis], next = 0;
  for (int64_t block = 0; block < outer; ++block)
    for (int64_t row : rows) {
      copyRun(y, next, 1, x, (block * size + row) * inner, 1, inner);
      next += inner;
    }
  return workspace.finish(std::move(y));
}

Outcome evaluateGatherElements(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  const HostTensor &indices = indexOperand(workspace, 1, "indices", x.rank());
  size_t axis = workspace.axis("axis", invocation.attributes.integer("axis"), x.rank());
  for (size_t k = 0; workspace.ok() && k < x.shape().size(); ++k)
    workspace.require(k == axis || indices.shape()[k] <= x.shape()[k], "indices",
                      "are larger than x beside the axis");
  HostTensor y = workspace.allocate(x.type(), indices.shape());
  if (!workspace.ok())
    return workspace.status();
  std::vector<int64_t> strides = rowMajorStrides(x.shape());
  int64_t along = strides[axis], next = 0;
  strides[axis] = 0;
  forEachPosition(indices.shape(), [&](const Shape &at) {
    int64_t index = checkedIndex(workspace, indices, next, x.shape()[axis]);
    if (workspace.ok())
      copyRun(y, next++, 1, x, dot(at, strides) + index * along, 1, 1);
  });
  return workspace.finish(std::move(y));
}

/// Whether the first `count` dimensions of both are the same.
bool sharesLeading(const Shape &a, const Shape &b, int64_t count) {
  return int64_t(a.size()) >= count && int64_t(b.size()) >= count &&
         std::equal(a.begin(), a.begin() + count, b.begin());
}

Outcome evaluateGatherND(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  const HostTensor &indices = indexOperand(workspace, 1, "indices");
  int64_t batch = invocation.attributes.integer("batch_dims");
  workspace.require(indices.rank() >= 1, "indices", "must not be a scalar");
  if (!workspace.ok())
    return workspace.status();
  int64_t length = indices.shape().back();
  if (batch < 0 || batch >= indices.rank() || !sharesLeading(x.shape(), indices.shape(), batch))
    workspace.rejectAttribute("batch_dims", "must count dimensions that x and indices share");
  else if (length > x.rank() - batch)
    workspace.reject("indices", "are longer than x has dimensions");
  if (!workspace.ok())
    return workspace.status();
  size_t first = size_t(batch), rank = x.shape().size();
  Shape shape(indices.shape().begin(), indices.shape().end() - 1);
  shape.insert(shape.end(), x.shape().begin() + batch + length, x.shape().end());
  HostTensor y = workspace.allocate(x.type(), shape);
  if (!workspace.ok() || y.size() == 0)
    return workspace.finish(std::move(y));
  int64_t slice = extent(x.shape(), first + size_t(length), rank);
  int64_t tuples = y.size() / slice;
  int64_t tuplesEach = tuples / extent(x.shape(), 0, first);
  int64_t elementsEach = extent(x.shape(), first, rank);
  for (int64_t i = 0; workspace.ok() && i < tuples; ++i) {
    int64_t offset = tupleOffset(workspace, indices, i * length, length, x.shape(), first);
    if (workspace.ok())
      copyRun(y, i * slice, 1, x, i / tuplesEach * elementsEach + offset, 1, slice);
  }
  return workspace.finish(std::move(y));
}

/// The one number that an operand holds, as the specification has it truncated where it is a float.
int64_t truncatedScalar(Workspace &workspace, size_t operand, std::string_view name) {
  const HostTensor &tensor = workspace.operand(operand, name);
  workspace.require(!workspace.ok() || tensor.size() == 1, name, "must be one number");
  return workspace.ok() ? tensor.getInt(0) : 0;
}

Outcome evaluateOneHot(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &indices = workspace.operand(0, "indices");
  int64_t depth = truncatedScalar(workspace, 1, "depth");
  const HostTensor &values = workspace.anyOperand(2, "values");
  size_t axis =
      workspace.axis("axis", invocation.attributes.integer("axis", -1), indices.rank() + 1);
  workspace.require(depth >= 0, "depth", "is negative");
  workspace.require(!workspace.ok() || values.size() == 2, "values", "must be two elements");
  if (!workspace.ok())
    return workspace.status();
  Shape shape = indices.shape();
  shape.insert(shape.begin() + int64_t(axis), depth);
  HostTensor y = workspace.allocate(values.type(), shape);
  if (!workspace.ok() || y.size() == 0)
    return workspace.finish(std::move(y));
  copyRun(y, 0, 1, values, 0, 0, y.size());
  int64_t inner = extent(indices.shape(), axis, indices.shape().size());
  for (int64_t i = 0; i < indices.size(); ++i) {
    int64_t index = indices.getInt(i);
    if (index >= -depth && index < depth)
      copyRun(y, (i / inner * depth + (index < 0 ? index + depth : index)) * inner + i % inner, 1,
              values, 1, 1, 1);
  }
  return workspace.finish(std::move(y));
}

constexpr Entry kEntries[] = {{"gather", evaluateGather},
                              {"gather_elements", evaluateGatherElements},
                              {"gather_nd", evaluateGatherND},
                              {"one_hot", evaluateOneHot},
                              {"tree_ensemble", evaluateTreeEnsemble}};

} // namespace

std::span<const Entry> gatherEntries() { return kEntries; }

} // namespace tensmith::reference

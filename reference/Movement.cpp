// Reference evaluation of the static movement operators: reshape to unpack.
//
// All are copies of boxes between tensors with strides (copyStrided), raw, so that constants of
// hundreds of megabytes can be laid out anew at compile time; a reshape shares its operand's
// memory.
#include "reference/Movement.h"

#include "base/Int128.h"

namespace tensmith::reference {

Outcome broadcastTo(Workspace &workspace, const HostTensor &x, const Shape &shape) {
  auto strides = broadcastStrides(x.shape(), shape);
  if (!strides)
    workspace.reject("x", "of shape " + toString(x.shape()) + " can't be broadcast to " +
                              toString(shape));
  if (x.shape() == shape)
    return workspace.finish(x);
  HostTensor y = workspace.allocate(x.type(), shape);
  if (!workspace.ok())
    return workspace.status();
  copyStrided(y, 0, rowMajorStrides(shape), x, 0, *strides, shape);
  return workspace.finish(std::move(y));
}

/// Whether start, start + step, ... lie in [0, size) for `count` of them.
static bool staysWithin(int64_t start, int64_t step, int64_t count, int64_t size) {
  Int128 last = Int128(start) + Int128(count - 1) * step;
  return start >= 0 && start < size && last >= 0 && last < size && step != 0;
}

Outcome sliceOf(Workspace &workspace, const HostTensor &x, std::span<const int64_t> starts,
                std::span<const int64_t> steps, const Shape &shape) {
  HostTensor y = workspace.allocateResult(0, x.type(), shape);
  if (!workspace.ok() || y.size() == 0)
    return workspace.finish(std::move(y));
  std::vector<int64_t> strides = rowMajorStrides(x.shape());
  int64_t offset = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (!staysWithin(starts[axis], steps[axis], shape[axis], x.shape()[axis]))
      workspace.reject("x", "of shape " + toString(x.shape()) + " is left by the slice of " +
                                toString(shape) + " from " + std::to_string(starts[axis]) +
                                " by steps of " + std::to_string(steps[axis]) +
                                " along dimension " + std::to_string(axis));
    if (!workspace.ok())
      return workspace.status();
    offset += starts[axis] * strides[axis];
    // A step of any size is legal where one element is read.
    strides[axis] = shape[axis] == 1 ? 0 : strides[axis] * steps[axis];
  }
  copyStrided(y, 0, rowMajorStrides(shape), x, offset, strides, shape);
  return workspace.finish(std::move(y));
}

namespace {

/// The result's shape as the caller gives it; rejects an invocation without.
Shape givenShape(Workspace &workspace, const Invocation &invocation) {
  if (invocation.results.size() == 1 && invocation.results[0].shape)
    return *invocation.results[0].shape;
  workspace.reject("y", "has no known shape, which this operator needs");
  return {};
}

Outcome evaluateReshape(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  Shape shape = givenShape(workspace, invocation);
  if (elementCount(shape) != x.size())
    workspace.reject("x", "of shape " + toString(x.shape()) + " has not as many elements as " +
                              toString(shape));
  if (!workspace.ok())
    return workspace.status();
  return workspace.finish(x.reshaped(std::move(shape)));
}

bool isPermutation(std::span<const int64_t> permutation, int64_t rank) {
  std::vector<bool> seen(size_t(rank), false);
  for (int64_t axis : permutation) {
    if (axis < 0 || axis >= rank || seen[size_t(axis)])
      return false;
    seen[size_t(axis)] = true;
  }
  return int64_t(permutation.size()) == rank;
}

Outcome evaluateTranspose(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  std::vector<int64_t> permutation = invocation.attributes.integers("permutation");
  if (!isPermutation(permutation, x.rank()))
    workspace.rejectAttribute("permutation", "is none of x's dimensions");
  if (!workspace.ok())
    return workspace.status();
  std::vector<int64_t> strides = rowMajorStrides(x.shape()), permuted;
  Shape shape;
  for (int64_t axis : permutation) {
    shape.push_back(x.shape()[size_t(axis)]);
    permuted.push_back(strides[size_t(axis)]);
  }
  HostTensor y = workspace.allocate(x.type(), shape);
  if (!workspace.ok())
    return workspace.status();
  copyStrided(y, 0, rowMajorStrides(shape), x, 0, permuted, shape);
  return workspace.finish(std::move(y));
}

Outcome evaluateBroadcast(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  Shape shape = givenShape(workspace, invocation);
  if (!workspace.ok())
    return workspace.status();
  return broadcastTo(workspace, x, shape);
}

Outcome evaluateSlice(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  std::vector<int64_t> starts = invocation.attributes.integers("starts");
  std::vector<int64_t> steps = invocation.attributes.integers("steps");
  Shape shape = givenShape(workspace, invocation);
  size_t rank = size_t(x.rank());
  if (starts.size() != rank || steps.size() != rank || shape.size() != rank)
    workspace.rejectAttribute("starts", "must have one entry for each dimension, as `steps`");
  if (!workspace.ok())
    return workspace.status();
  return sliceOf(workspace, x, starts, steps, shape);
}

Shape concatenatedShape(Workspace &workspace, const Invocation &invocation, size_t axis) {
  const HostTensor &first = invocation.operands[0];
  Shape shape = first.shape();
  shape[axis] = 0;
  for (size_t i = 0; i < invocation.operands.size(); ++i) {
    const HostTensor &x = workspace.anyOperand(i, "inputs", first.rank());
    if (!workspace.ok())
      return shape;
    for (size_t k = 0; k < shape.size(); ++k)
      workspace.require(k == axis || x.shape()[k] == shape[k], "inputs",
                        "differ beside the axis of concatenation");
    workspace.require(x.type() == first.type(), "inputs", "are of different types");
    if (__builtin_add_overflow(shape[axis], x.shape()[axis], &shape[axis]))
      workspace.reject("inputs", "are too large together");
  }
  return shape;
}

Outcome evaluateConcat(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &first = workspace.anyOperand(0, "inputs");
  size_t axis = workspace.axis("axis", invocation.attributes.integer("axis"), first.rank());
  if (!workspace.ok())
    return workspace.status();
  Shape shape = concatenatedShape(workspace, invocation, axis);
  HostTensor y = workspace.allocate(first.type(), shape);
  if (!workspace.ok())
    return workspace.status();
  std::vector<int64_t> strides = rowMajorStrides(shape);
  int64_t offset = 0;
  for (const HostTensor &x : invocation.operands) {
    copyStrided(y, offset, strides, x, 0, rowMajorStrides(x.shape()), x.shape());
    offset = int64_t(uint64_t(offset) + uint64_t(x.shape()[axis]) * uint64_t(strides[axis]));
  }
  return workspace.finish(std::move(y));
}

Outcome evaluatePad(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  if (!workspace.ok())
    return workspace.status();
  return padded(workspace, x, invocation.present(1) ? invocation.operands[1] : HostTensor(),
                invocation.attributes.integers("low"), invocation.attributes.integers("high"),
                invocation.attributes.string("mode", "constant"));
}

Outcome evaluateReverse(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  std::vector<int64_t> starts(size_t(x.rank()), 0), steps(size_t(x.rank()), 1);
  for (int64_t value : invocation.attributes.integers("axes")) {
    size_t axis = workspace.axis("axes", value, x.rank());
    if (!workspace.ok())
      return workspace.status();
    starts[axis] = x.shape()[axis] - 1;
    steps[axis] = -1;
  }
  if (!workspace.ok())
    return workspace.status();
  return sliceOf(workspace, x, starts, steps, x.shape());
}

Outcome evaluateTrilu(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  int64_t k = invocation.present(1) ? workspace.integer(1, "k") : 0;
  bool upper = invocation.attributes.integer("upper", 1) != 0;
  workspace.require(x.rank() >= 2, "x", "must be a stack of matrices");
  HostTensor y = workspace.allocate(x.type(), x.shape());
  if (!workspace.ok() || x.size() == 0)
    return workspace.finish(std::move(y));
  int64_t columns = x.shape().back(), rows = x.shape()[size_t(x.rank() - 2)];
  k = std::clamp(k, -rows, columns);
  for (int64_t row = 0; row < x.size() / columns; ++row) {
    int64_t diagonal = row % rows + k; // the column where the triangle's edge lies
    int64_t begin = upper ? std::clamp<int64_t>(diagonal, 0, columns) : 0;
    int64_t end = upper ? columns : std::clamp<int64_t>(diagonal + 1, 0, columns);
    copyRun(y, row * columns + begin, 1, x, row * columns + begin, 1, end - begin);
  }
  return workspace.finish(std::move(y));
}

/// A stack of matrices of K rows and N columns, and the panels of `width` columns that they are cut
/// into.
struct Panels {
  int64_t batch = 1, k = 0, n = 0, width = 1;
  int64_t count() const { return n / width + (n % width != 0); }
};

/// Visits the full panels as one box [batch, panels, K, width], then the last, narrower one as
/// another: `copy(first panel, box)`.
template <typename Copy> void forEachPanelBox(const Panels &panels, Copy copy) {
  int64_t full = panels.n / panels.width, rest = panels.n % panels.width;
  if (full > 0)
    copy(int64_t(0), Shape{panels.batch, full, panels.k, panels.width});
  if (rest > 0)
    copy(full, Shape{panels.batch, 1, panels.k, rest});
}

bool isWidth(int64_t width) { return width > 0 && width <= kLargestExtent; }

Outcome evaluatePack(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  bool transposed = invocation.attributes.integer("transposed") != 0;
  Panels panels;
  panels.width = invocation.attributes.integer("width");
  workspace.require(x.rank() >= 2, "x", "must be a stack of matrices");
  if (!isWidth(panels.width))
    workspace.rejectAttribute("width", "must be positive");
  if (!workspace.ok())
    return workspace.status();
  size_t rank = size_t(x.rank());
  panels.k = x.shape()[rank - (transposed ? 1 : 2)];
  panels.n = x.shape()[rank - (transposed ? 2 : 1)];
  panels.batch = extent(x.shape(), 0, rank - 2);
  Shape shape(x.shape().begin(), x.shape().end() - 2);
  shape.insert(shape.end(), {panels.count(), panels.k, panels.width});
  HostTensor y = workspace.allocate(x.type(), shape);
  if (!workspace.ok() || x.size() == 0)
    return workspace.finish(std::move(y));
  int64_t row = transposed ? 1 : panels.n, column = transposed ? panels.k : 1;
  int64_t panel = panels.k * panels.width;
  const int64_t to[] = {panels.count() * panel, panel, panels.width, 1};
  const int64_t from[] = {panels.k * panels.n, panels.width * column, row, column};
  forEachPanelBox(panels, [&](int64_t first, const Shape &box) {
    copyStrided(y, first * to[1], to, x, first * from[1], from, box);
  });
  return workspace.finish(std::move(y));
}

Outcome evaluateUnpack(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  workspace.require(x.rank() >= 3, "x", "must be a stack of panels");
  if (!workspace.ok())
    return workspace.status();
  size_t rank = size_t(x.rank());
  Panels panels;
  panels.n = invocation.attributes.integer("columns");
  if (panels.n < 0 && invocation.results.size() == 1 && invocation.results[0].shape &&
      !invocation.results[0].shape->empty()) // symbolic: the result's type has it
    panels.n = invocation.results[0].shape->back();
  panels.width = x.shape()[rank - 1];
  panels.k = x.shape()[rank - 2];
  if (panels.n < 0 || !isWidth(panels.width) || panels.count() != x.shape()[rank - 3])
    workspace.rejectAttribute("columns", "don't fill " + toString(x.shape()) + " panels");
  Shape shape(x.shape().begin(), x.shape().end() - 3);
  shape.insert(shape.end(), {panels.k, panels.n});
  HostTensor y = workspace.allocate(x.type(), shape);
  if (!workspace.ok() || y.size() == 0)
    return workspace.finish(std::move(y));
  panels.batch = extent(x.shape(), 0, rank - 3);
  int64_t panel = panels.k * panels.width;
  const int64_t to[] = {panels.k * panels.n, panels.width, panels.n, 1};
  const int64_t from[] = {panels.count() * panel, panel, panels.width, 1};
  forEachPanelBox(panels, [&](int64_t first, const Shape &box) {
    copyStrided(y, first * to[1], to, x, first * from[1], from, box);
  });
  return workspace.finish(std::move(y));
}

constexpr Entry kEntries[] = {
    {"reshape", evaluateReshape},     {"transpose", evaluateTranspose},
    {"broadcast", evaluateBroadcast}, {"slice", evaluateSlice},
    {"concat", evaluateConcat},       {"pad", evaluatePad},
    {"reverse", evaluateReverse},     {"trilu", evaluateTrilu},
    {"pack", evaluatePack},           {"unpack", evaluateUnpack},
};

} // namespace

std::span<const Entry> movementEntries() { return kEntries; }

} // namespace tensmith::reference

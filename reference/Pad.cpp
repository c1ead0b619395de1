// Padding, as ONNX Pad: constant, reflect, edge and wrap; negative counts crop.
//
// A dimension is cropped first, and the modes continue what is left of it, as often as it takes.
#include "reference/Movement.h"

namespace tensmith::reference {
namespace {

enum class PadMode { Constant, Reflect, Edge, Wrap };

std::optional<PadMode> parsePadMode(const std::string &text) {
  if (text == "constant")
    return PadMode::Constant;
  if (text == "reflect")
    return PadMode::Reflect;
  if (text == "edge")
    return PadMode::Edge;
  if (text == "wrap")
    return PadMode::Wrap;
  return std::nullopt;
}

int64_t modulo(int64_t a, int64_t n) {
  int64_t r = a % n;
  return r < 0 ? r + n : r;
}

/// Where the element at `position` of the dimension's continuation comes from, in [0, size); size >
/// 0.
int64_t sourceOf(PadMode mode, int64_t position, int64_t size) {
  switch (mode) {
  case PadMode::Constant:
  case PadMode::Edge:
    return std::clamp<int64_t>(position, 0, size - 1);
  case PadMode::Wrap:
    return modulo(position, size);
  case PadMode::Reflect: {
    if (size == 1)
      return 0;
    int64_t period = 2 * (size - 1), at = modulo(position, period);
    return std::min(at, period - at);
  }
  }
  return 0;
}

struct Dimension {
  int64_t low, high;  // counts of padding, not negative
  int64_t begin, end; // of what is kept
  int64_t kept() const { return end - begin; }
};

/// Splits counts into cropping and padding; false where more is cropped than there is, or the size
/// overflows.
bool splitCounts(int64_t size, int64_t low, int64_t high, Dimension &dimension, int64_t &padded) {
  constexpr int64_t kLimit = int64_t(1) << 48;
  if (low < -kLimit || low > kLimit || high < -kLimit || high > kLimit || size > kLimit)
    return false;
  dimension = {std::max<int64_t>(low, 0), std::max<int64_t>(high, 0), std::max<int64_t>(-low, 0),
               size - std::max<int64_t>(-high, 0)};
  padded = size + low + high;
  if (padded < 0)
    return false;
  // More may be cropped on one side than the other side leaves, if that one pads enough: nothing is
  // kept then.
  if (dimension.kept() < 0) {
    dimension.low = padded;
    dimension.high = 0;
    dimension.begin = dimension.end = 0;
  }
  return true;
}

void fill(HostTensor &y, const HostTensor &value) {
  const std::vector<int64_t> zeros(size_t(y.rank()), 0);
  copyStrided(y, 0, rowMajorStrides(y.shape()), value, 0, zeros, y.shape());
}

/// The part of y that x fills, alone.
void copyKept(HostTensor &y, const HostTensor &x, std::span<const Dimension> dimensions) {
  std::vector<int64_t> to = rowMajorStrides(y.shape()), from = rowMajorStrides(x.shape());
  Shape box;
  int64_t toOffset = 0, fromOffset = 0;
  for (const Dimension &dimension : dimensions)
    if (box.push_back(dimension.kept()); dimension.kept() == 0)
      return;
  for (size_t axis = 0; axis < dimensions.size(); ++axis) {
    toOffset += dimensions[axis].low * to[axis];
    fromOffset += dimensions[axis].begin * from[axis];
  }
  copyStrided(y, toOffset, to, x, fromOffset, from, box);
}

/// y with each element taken from the one that continues x there.
void copyContinued(HostTensor &y, const HostTensor &x, std::span<const Dimension> dimensions,
                   PadMode mode) {
  std::vector<int64_t> strides = rowMajorStrides(x.shape());
  std::vector<std::vector<int64_t>> offsets(dimensions.size());
  for (size_t axis = 0; axis < dimensions.size(); ++axis) {
    const Dimension &dimension = dimensions[axis];
    for (int64_t i = 0; i < y.shape()[axis]; ++i)
      offsets[axis].push_back(
          (dimension.begin + sourceOf(mode, i - dimension.low, dimension.kept())) * strides[axis]);
  }
  int64_t next = 0;
  forEachPosition(y.shape(), [&](const Shape &index) {
    int64_t from = 0;
    for (size_t axis = 0; axis < index.size(); ++axis)
      from += offsets[axis][size_t(index[axis])];
    copyRun(y, next++, 1, x, from, 1, 1);
  });
}

} // namespace

Outcome padded(Workspace &workspace, const HostTensor &x, const HostTensor &value,
               std::span<const int64_t> low, std::span<const int64_t> high,
               const std::string &modeName) {
  std::optional<PadMode> mode = parsePadMode(modeName);
  if (!mode)
    workspace.rejectAttribute("mode", "'" + modeName + "' is unknown");
  workspace.require(low.size() == size_t(x.rank()) && high.size() == low.size(), "x",
                    "has not as many dimensions as there are pads");
  bool hasValue = value.type() != DataType::Undefined;
  workspace.require(!hasValue || (value.valid() && value.size() == 1 && value.type() == x.type()),
                    "value", "must be one element of x's type");
  if (!workspace.ok())
    return workspace.status();
  std::vector<Dimension> dimensions(low.size());
  Shape shape(low.size());
  for (size_t axis = 0; axis < low.size(); ++axis) {
    if (!splitCounts(x.shape()[axis], low[axis], high[axis], dimensions[axis], shape[axis]))
      workspace.reject("x", "of shape " + toString(x.shape()) + " can't be padded by " +
                                std::to_string(low[axis]) + " and " + std::to_string(high[axis]) +
                                " along dimension " + std::to_string(axis));
  }
  HostTensor y = workspace.allocate(x.type(), shape);
  if (!workspace.ok() || y.size() == 0)
    return workspace.finish(std::move(y));
  if (mode == PadMode::Constant) {
    if (hasValue)
      fill(y, value);
    copyKept(y, x, dimensions);
    return workspace.finish(std::move(y));
  }
  for (const Dimension &dimension : dimensions)
    workspace.require(dimension.kept() > 0, "x", "has an empty dimension, which nothing continues");
  if (workspace.ok())
    copyContinued(y, x, dimensions, *mode);
  return workspace.finish(std::move(y));
}

} // namespace tensmith::reference

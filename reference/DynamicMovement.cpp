// Reference evaluation of the movement operators whose parameters are operands, and of a tensor's
// shape and size.
//
// They work out their sizes, check them, and then do as the static forms do.
#include "reference/Movement.h"

#include "base/Int128.h"

#include <limits>
#include <numeric>

namespace tensmith::reference {
namespace {

Outcome evaluateDynamicReshape(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  std::vector<int64_t> shape = workspace.integers(1, "shape");
  bool allowZero = invocation.attributes.integer("allowzero") != 0;
  // What is copied stands on both sides: the others tell what -1 stands for, of an empty batch too.
  std::optional<size_t> open;
  Shape moved = x.shape(), given;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    bool hasOwn = axis < size_t(x.rank());
    if (shape[axis] == 0 && !allowZero) {
      workspace.require(hasOwn, "shape", "has a 0 beyond x's dimensions");
      shape[axis] = hasOwn ? x.shape()[axis] : 0;
    } else if (shape[axis] == -1) {
      workspace.require(!open, "shape", "has more than one -1");
      open = axis;
      continue;
    }
    if (hasOwn && shape[axis] == x.shape()[axis])
      moved[axis] = 1;
    else
      given.push_back(shape[axis]);
  }
  if (workspace.ok() && open) {
    std::optional<int64_t> all = elementCount(moved), known = elementCount(given);
    workspace.require(known != 0, "shape",
                      "has a size of 0, beside which nothing tells what -1 is");
    bool isWhole = all && known && *known > 0 && *all % *known == 0;
    if (isWhole)
      shape[*open] = *all / *known;
  }
  if (workspace.ok() && elementCount(shape) != x.size())
    workspace.reject("shape",
                     "asks for " + toString(shape) + ", but x has shape " + toString(x.shape()));
  if (!workspace.ok())
    return workspace.status();
  return workspace.finish(x.reshaped(std::move(shape)));
}

Outcome evaluateDynamicBroadcast(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  Shape shape = workspace.integers(1, "shape");
  for (int64_t size : shape)
    workspace.require(size >= 0, "shape", "has a negative size");
  if (!workspace.ok())
    return workspace.status();
  size_t rank = size_t(x.rank());
  if (rank > shape.size())
    shape.insert(shape.begin(), rank - shape.size(), 1);
  for (size_t i = 1; i <= rank; ++i)
    if (int64_t &size = shape[shape.size() - i]; size == 1)
      size = x.shape()[rank - i];
  return broadcastTo(workspace, x, shape);
}

/// One dimension of ONNX Slice, clamped: where to start and how many elements to take.
struct Range {
  int64_t start = 0, count = 0;
};

Range clampedRange(int64_t start, int64_t end, int64_t step, int64_t size) {
  Int128 first = start < 0 ? Int128(start) + size : start;
  Int128 last = end < 0 ? Int128(end) + size : end;
  auto clamp = [](Int128 value, int64_t low, int64_t high) {
    return std::max<Int128>(low, std::min<Int128>(value, high));
  };
  first = step > 0 ? clamp(first, 0, size) : clamp(first, 0, size - 1);
  last = step > 0 ? clamp(last, 0, size) : clamp(last, -1, size - 1);
  Int128 distance = step > 0 ? last - first : first - last;
  Int128 magnitude = step > 0 ? Int128(step) : -Int128(step);
  if (distance <= 0 || size == 0)
    return {};
  return {int64_t(first), int64_t((distance + magnitude - 1) / magnitude)};
}

/// The axes that an optional operand names, from the end where negative; all of `count` first ones
/// without it.
std::vector<size_t> namedAxes(Workspace &workspace, const Invocation &invocation, size_t operand,
                              size_t count, int64_t rank) {
  std::vector<int64_t> values(count);
  std::iota(values.begin(), values.end(), 0);
  if (invocation.present(operand))
    values = workspace.integers(operand, "axes");
  workspace.require(values.size() == count, "axes", "don't match the other operands");
  std::vector<size_t> axes;
  for (int64_t value : values) {
    axes.push_back(workspace.axis("axes", value, rank));
    workspace.require(std::count(axes.begin(), axes.end(), axes.back()) == 1, "axes",
                      "name a dimension twice");
    if (!workspace.ok())
      return {};
  }
  return axes;
}

Outcome evaluateDynamicSlice(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  std::vector<int64_t> starts = workspace.integers(1, "starts"),
                       ends = workspace.integers(2, "ends");
  std::vector<size_t> axes = namedAxes(workspace, invocation, 3, starts.size(), x.rank());
  std::vector<int64_t> steps(starts.size(), 1);
  if (invocation.present(4))
    steps = workspace.integers(4, "steps");
  workspace.require(ends.size() == starts.size() && steps.size() == starts.size(), "starts",
                    "must be as long as ends and steps");
  if (!workspace.ok())
    return workspace.status();
  std::vector<int64_t> offsets(size_t(x.rank()), 0), strides(size_t(x.rank()), 1);
  Shape shape = x.shape();
  for (size_t i = 0; i < axes.size(); ++i) {
    if (steps[i] == 0) {
      workspace.reject("steps", "has a 0");
      return workspace.status();
    }
    Range range = clampedRange(starts[i], ends[i], steps[i], x.shape()[axes[i]]);
    offsets[axes[i]] = range.start;
    shape[axes[i]] = range.count;
    strides[axes[i]] = steps[i];
  }
  return sliceOf(workspace, x, offsets, strides, shape);
}

Outcome evaluateDynamicPad(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  std::vector<int64_t> pads = workspace.integers(1, "pads");
  workspace.require(pads.size() % 2 == 0, "pads", "must be a low and a high count for each axis");
  std::vector<size_t> axes = namedAxes(workspace, invocation, 3, pads.size() / 2, x.rank());
  if (!workspace.ok())
    return workspace.status();
  std::vector<int64_t> low(size_t(x.rank()), 0), high(size_t(x.rank()), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    low[axes[i]] = pads[i];
    high[axes[i]] = pads[axes.size() + i];
  }
  return padded(workspace, x, invocation.present(2) ? invocation.operands[2] : HostTensor(), low,
                high, invocation.attributes.string("mode", "constant"));
}

Outcome evaluateDynamicTile(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  std::vector<int64_t> repeats = workspace.integers(1, "repeats");
  workspace.require(repeats.size() == size_t(x.rank()), "repeats",
                    "must be one for each dimension");
  if (!workspace.ok())
    return workspace.status();
  Shape shape, box;
  std::vector<int64_t> from, strides = rowMajorStrides(x.shape());
  for (size_t axis = 0; axis < repeats.size(); ++axis) {
    int64_t size = 0;
    if (repeats[axis] < 0 || __builtin_mul_overflow(repeats[axis], x.shape()[axis], &size))
      workspace.reject("repeats", "has " + std::to_string(repeats[axis]) + ", out of range");
    shape.push_back(size);
    box.insert(box.end(), {repeats[axis], x.shape()[axis]});
    from.insert(from.end(), {0, strides[axis]});
  }
  HostTensor y = workspace.allocate(x.type(), shape);
  if (!workspace.ok() || y.size() == 0)
    return workspace.finish(std::move(y));
  copyStrided(y, 0, rowMajorStrides(box), x, 0, from, box);
  return workspace.finish(std::move(y));
}

Outcome evaluateCenterCropPad(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  std::vector<int64_t> target = workspace.integers(1, "shape");
  std::vector<int64_t> axes(target.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = invocation.attributes.integers("axes", axes);
  workspace.require(axes.size() == target.size(), "shape", "must be as long as axes");
  std::vector<int64_t> low(size_t(x.rank()), 0), high(size_t(x.rank()), 0);
  for (size_t i = 0; workspace.ok() && i < axes.size(); ++i) {
    size_t axis = workspace.axis("axes", axes[i], x.rank());
    workspace.require(target[i] >= 0, "shape", "has a negative size");
    if (!workspace.ok())
      break;
    // Division truncates: of an odd difference the larger part is at the end, whether cropped or
    // padded.
    int64_t difference = target[i] - x.shape()[axis];
    low[axis] = difference / 2;
    high[axis] = difference - low[axis];
  }
  if (!workspace.ok())
    return workspace.status();
  return padded(workspace, x, HostTensor(), low, high, "constant");
}

Outcome evaluateShape(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  if (!workspace.ok())
    return workspace.status();
  auto clamped = [&](int64_t position) {
    return std::clamp<int64_t>(position < 0 ? position + x.rank() : position, 0, x.rank());
  };
  int64_t start = clamped(invocation.attributes.integer("start"));
  int64_t end = clamped(invocation.attributes.integer("end", x.rank()));
  std::span<const int64_t> dimensions(x.shape());
  dimensions = dimensions.subspan(size_t(start), size_t(std::max<int64_t>(end - start, 0)));
  HostTensor y = workspace.allocate(DataType::I64, {int64_t(dimensions.size())});
  for (size_t i = 0; workspace.ok() && i < dimensions.size(); ++i)
    y.setInt(int64_t(i), dimensions[i]);
  return workspace.finish(std::move(y));
}

Outcome evaluateSize(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  HostTensor y = workspace.allocate(DataType::I64, {});
  if (workspace.ok())
    y.setInt(0, x.size());
  return workspace.finish(std::move(y));
}

/// The length of one batch's sequence, checked.
int64_t sequenceLength(Workspace &workspace, const HostTensor &lengths, int64_t b, int64_t limit) {
  int64_t length = lengths.getInt(b);
  if (length < 0 || length > limit)
    workspace.reject("lengths", "holds " + std::to_string(length) + " at " + std::to_string(b) +
                                    ", but sequences have " + std::to_string(limit) + " entries");
  return length;
}

Outcome evaluateReverseSequence(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  const HostTensor &lengths = workspace.operand(1, "lengths", 1);
  size_t batch =
      workspace.axis("batch_axis", invocation.attributes.integer("batch_axis"), x.rank());
  size_t time = workspace.axis("time_axis", invocation.attributes.integer("time_axis"), x.rank());
  if (workspace.ok() && batch == time)
    workspace.rejectAttribute("time_axis", "is the batch axis too");
  workspace.require(!workspace.ok() || lengths.size() == x.shape()[batch], "lengths",
                    "must be one for each entry of the batch axis");
  HostTensor y = workspace.allocate(x.type(), x.shape());
  if (!workspace.ok() || x.size() == 0)
    return workspace.finish(std::move(y));
  copyRun(y, 0, 1, x, 0, 1, x.size());
  std::vector<int64_t> strides = rowMajorStrides(x.shape()), reversed = strides;
  reversed[time] = -strides[time];
  Shape box = x.shape();
  box[batch] = 1;
  for (int64_t b = 0; b < lengths.size(); ++b) {
    box[time] = sequenceLength(workspace, lengths, b, x.shape()[time]);
    if (!workspace.ok())
      return workspace.status();
    int64_t offset = b * strides[batch];
    copyStrided(y, offset, strides, x, offset + (box[time] - 1) * strides[time], reversed, box);
  }
  return workspace.finish(std::move(y));
}

constexpr Entry kEntries[] = {
    {"dynamic_reshape", evaluateDynamicReshape},
    {"dynamic_broadcast", evaluateDynamicBroadcast},
    {"dynamic_slice", evaluateDynamicSlice},
    {"dynamic_pad", evaluateDynamicPad},
    {"dynamic_tile", evaluateDynamicTile},
    {"center_crop_pad", evaluateCenterCropPad},
    {"shape", evaluateShape},
    {"size", evaluateSize},
    {"reverse_sequence", evaluateReverseSequence},
};

} // namespace

std::span<const Entry> dynamicMovementEntries() { return kEntries; }

} // namespace tensmith::reference

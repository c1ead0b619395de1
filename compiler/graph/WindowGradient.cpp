// Windows on the way back; see WindowGradient.h.
#include "compiler/graph/WindowGradient.h"

#include "compiler/graph/ChannelOrder.h"

using namespace mlir;

namespace tensmith::graph::windows {

Windows windowsOf(Operation *op, ArrayRef<int64_t> kernel) {
  auto pads = integersOf(op, "pads");
  return {SmallVector<int64_t>(kernel), SmallVector<int64_t>(integersOf(op, "strides")),
          SmallVector<int64_t>(integersOf(op, "dilations")),
          SmallVector<int64_t>(pads.take_front(kernel.size())),
          SmallVector<int64_t>(pads.take_back(kernel.size()))};
}

namespace {
/// Elements first, first + stride, ... of zeros, `size` of them, are those of x. At most `most`
/// zeros follow the spread elements.
Value placeAlong(const GradientCode &code, Value x, int64_t dim, int64_t first, int64_t stride,
                 AffineExpr size, int64_t most) {
  if (!x)
    return x;
  SmallVector<int64_t> steps(size_t(GraphCode::rank(x)), 1), low(steps.size(), 0), high = low;
  steps[size_t(dim)] = stride;
  x = code.spread(x, steps);
  if (!x)
    return x;
  auto rest = constant(code.graph.shapes.simplify(size - code.dims(x)[dim] - first));
  low[size_t(dim)] = first;
  high[size_t(dim)] = rest.value_or(most);
  return code.sliceDim(code.pad(x, low, high), dim, 0, 1, size);
}
} // namespace

Value padded(const GradientCode &code, Value x, const Windows &windows, Value value) {
  SmallVector<int64_t> low(2, 0), high(2, 0);
  llvm::append_range(low, windows.low);
  llvm::append_range(high, windows.high);
  if (!value)
    return code.pad(x, low, high);
  return code.op("graph.pad", {x, value}, {code.integers("low", low), code.integers("high", high)});
}

Value windowElements(const GradientCode &code, Value x, const Windows &windows,
                     ArrayRef<int64_t> at, ArrayRef<AffineExpr> counts) {
  if (!x)
    return x;
  GraphCode::Dims to = code.dims(x);
  SmallVector<int64_t> starts(to.size(), 0), steps(to.size(), 1);
  for (size_t dim = 0; dim < at.size(); ++dim) {
    starts[2 + dim] = at[dim] * windows.dilations[dim];
    steps[2 + dim] = windows.strides[dim];
    to[2 + dim] = counts[dim];
  }
  return to == code.dims(x) ? x : code.graph.slice(x, starts, steps, to);
}

void forEachPosition(ArrayRef<int64_t> kernel, function_ref<void(ArrayRef<int64_t>)> visit) {
  SmallVector<int64_t> at(kernel.size(), 0);
  for (bool more = !llvm::is_contained(kernel, 0); more;) {
    visit(at);
    more = false;
    for (size_t dim = kernel.size(); dim-- > 0 && !more;) {
      more = ++at[dim] < kernel[dim];
      if (!more)
        at[dim] = 0;
    }
  }
}

Value cropped(const GradientCode &code, Value x, const Windows &windows) {
  Windows inner = windows;
  for (size_t dim = 0; dim < windows.low.size(); ++dim) {
    inner.low[dim] = -windows.low[dim];
    inner.high[dim] = -windows.high[dim];
  }
  return x ? padded(code, x, inner) : x;
}

Value interleaved(const GradientCode &code, ArrayRef<Value> phases, int64_t dim) {
  if (phases.size() == 1 || !phases[0])
    return phases[0];
  // Channels-last, as which images are in memory: elsewhere reshapes would keep transpositions from
  // meeting.
  int64_t rank = GraphCode::rank(phases[0]), place = dim - 1;
  Value first = code.transpose(phases[0], toChannelsLast(rank));
  GraphCode::Dims apart = code.dims(first), joined = apart;
  apart.insert(apart.begin() + place + 1, code.size(1));
  joined[place] = code.graph.shapes.simplify(joined[place] * int64_t(phases.size()));
  SmallVector<Value> columns;
  for (Value phase : phases)
    columns.push_back(code.reshape(code.transpose(phase, toChannelsLast(rank)), apart));
  return code.transpose(code.reshape(code.concat(columns, place + 1), joined),
                        toChannelsFirst(rank));
}

/// Windows that do not overlap lie side by side.
static Value sideBySide(const GradientCode &code, ArrayRef<Value> parts, int64_t dim,
                        int64_t stride, AffineExpr size) {
  SmallVector<Value> phases(parts);
  if (!parts[0])
    return {};
  while (int64_t(phases.size()) < stride)
    phases.push_back(code.zerosLike(parts[0]));
  Value x = interleaved(code, phases, dim);
  if (!x)
    return x;
  auto rest = constant(code.graph.shapes.simplify(size - code.dims(x)[dim]));
  SmallVector<int64_t> low(size_t(GraphCode::rank(x)), 0), high = low;
  high[size_t(dim)] = rest.value_or(stride);
  return code.sliceDim(code.pad(x, low, high), dim, 0, 1, size);
}

/// One image for each remainder of the stride, which needs no zeros between its elements.
static Value sumOfPhases(const GradientCode &code, ArrayRef<Value> parts, int64_t dim,
                         int64_t stride, int64_t dilation, int64_t count, int64_t size) {
  int64_t length = (size + stride - 1) / stride;
  SmallVector<Value> phases;
  phases.resize(size_t(stride));
  Value any;
  for (auto [position, part] : llvm::enumerate(parts)) {
    int64_t at = int64_t(position) * dilation, shift = at / stride;
    if (!part)
      return {};
    SmallVector<int64_t> low(size_t(GraphCode::rank(part)), 0), high = low;
    low[size_t(dim)] = shift;
    high[size_t(dim)] = length - count - shift;
    Value own = code.pad(part, low, high), &sum = phases[size_t(at % stride)];
    sum = sum ? code.add(sum, own) : own;
    any = sum;
  }
  for (Value &phase : phases)
    phase = phase ? phase : code.zerosLike(any);
  return code.sliceDim(interleaved(code, phases, dim), dim, 0, 1, code.size(size));
}

Value sumOfPositions(const GradientCode &code, ArrayRef<Value> parts, const Windows &windows,
                     size_t dim, AffineExpr size) {
  int64_t at = int64_t(2 + dim), stride = windows.strides[dim], dilation = windows.dilations[dim];
  if (llvm::is_contained(parts, Value()))
    return {};
  constexpr int64_t kMostPositions = 1024; // operators for each
  if (std::max<int64_t>(int64_t(parts.size()), stride) > kMostPositions) {
    emitError(code.graph.location)
        << "windows or strides of more than " << kMostPositions << " elements have no derivative";
    return {};
  }
  if (dilation == 1 && int64_t(parts.size()) <= stride)
    return sideBySide(code, parts, at, stride, size);
  auto length = constant(size), count = constant(code.dims(parts[0])[at]);
  if (stride > 1 && length && count)
    return sumOfPhases(code, parts, at, stride, dilation, *count, *length);
  Value sum;
  for (auto [position, part] : llvm::enumerate(parts)) {
    int64_t first = int64_t(position) * dilation;
    Value placed = placeAlong(code, part, at, first, stride, size, windows.span(dim) - first);
    sum = sum ? code.add(sum, placed) : placed;
  }
  return sum;
}

Value withChannelsFirst(const GradientCode &code, Operation *op, ArrayRef<Value> others) {
  int64_t rank = GraphCode::rank(op->getOperand(0));
  SmallVector<NamedAttribute> attributes;
  for (NamedAttribute attribute : op->getAttrs())
    if (attribute.getName() != kLayout)
      attributes.push_back(attribute);
  SmallVector<Value> operands{code.transpose(op->getOperand(0), toChannelsFirst(rank))};
  llvm::append_range(operands, others);
  Value y = code.op(op->getName().getStringRef(), operands, attributes);
  return code.transpose(y, toChannelsLast(rank));
}

} // namespace tensmith::graph::windows

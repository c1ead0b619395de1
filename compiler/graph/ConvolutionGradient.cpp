// Windows: each position of a window gets what the window made of it.
//
// The data's gradient of a convolution is a convolution too, of the cotangent, spread by the
// strides, with the weights flipped; that of the weights is a matrix product of cotangent and image
// for each position of the window. So both are computed as forward convolutions and products are,
// and have gradients themselves. Pooling goes position by position: what the cotangent gives the
// first of each window is one image, what it gives the second another, and they are added up.
#include "compiler/graph/Gradient.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

std::optional<int64_t> constant(AffineExpr size) {
  auto known = dyn_cast<AffineConstantExpr>(size);
  return known ? std::optional(known.getValue()) : std::nullopt;
}

struct Windows {
  SmallVector<int64_t> kernel, strides, dilations, low, high;

  int64_t span(size_t dim) const { return (kernel[dim] - 1) * dilations[dim]; }
  int64_t count() const {
    int64_t product = 1;
    for (int64_t size : kernel)
      product *= size;
    return product;
  }
};

Windows windowsOf(Operation *op, ArrayRef<int64_t> kernel) {
  auto pads = integersOf(op, "pads");
  return {SmallVector<int64_t>(kernel), SmallVector<int64_t>(integersOf(op, "strides")),
          SmallVector<int64_t>(integersOf(op, "dilations")),
          SmallVector<int64_t>(pads.take_front(kernel.size())),
          SmallVector<int64_t>(pads.take_back(kernel.size()))};
}

/// The spatial sizes of weights, where they are known.
std::optional<SmallVector<int64_t>> kernelOf(const GradientCode &code, Value weights) {
  SmallVector<int64_t> kernel;
  GraphCode::Dims dims = code.dims(weights);
  for (AffineExpr dim : ArrayRef(dims).drop_front(2)) {
    auto size = constant(dim);
    if (!size)
      return std::nullopt;
    kernel.push_back(*size);
  }
  return kernel;
}

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

// ---- convolution -----------------------------------------------------------------------------

/// Weights [M, C / group, window...] for the way back: [C, M / group, window...], flipped.
Value flipped(const GradientCode &code, Value w, int64_t group) {
  GraphCode::Dims dims = code.dims(w), apart = dims;
  auto &shapes = code.graph.shapes;
  AffineExpr outputs = shapes.simplify(dims[0].floorDiv(group));
  apart[0] = outputs;
  apart.insert(apart.begin(), code.size(group));
  SmallVector<int64_t> permutation{0, 2, 1}, axes;
  for (int64_t dim = 2; dim < int64_t(dims.size()); ++dim) {
    permutation.push_back(dim + 1);
    axes.push_back(dim);
  }
  Value turned = code.transpose(code.reshape(w, apart), permutation);
  dims[0] = shapes.simplify(dims[1] * group);
  dims[1] = outputs;
  return code.op("graph.reverse", {code.reshape(turned, dims)}, {code.integers("axes", axes)});
}

/// The transpose of convolving an image of those sizes with w: what it makes of g.
Value transposedConvolution(const GradientCode &code, Value g, Value w, const Windows &windows,
                            int64_t group, ArrayRef<AffineExpr> sizes) {
  if (!g || !w)
    return {};
  size_t spatial = windows.kernel.size();
  SmallVector<int64_t> steps(2, 1), low(2, 0), high(2, 0), pads(2 * spatial, 0);
  llvm::append_range(steps, windows.strides);
  Value x = code.spread(g, steps);
  if (!x)
    return x;
  GraphCode::Dims dims = code.dims(x);
  for (size_t dim = 0; dim < spatial; ++dim) {
    int64_t before = windows.span(dim) - windows.low[dim];
    AffineExpr after =
        code.graph.shapes.simplify(sizes[dim] - dims[2 + dim] - before + windows.span(dim));
    int64_t most = windows.span(dim) - windows.high[dim];
    pads[dim] = std::max<int64_t>(before, 0);
    low.push_back(std::min<int64_t>(before, 0));
    int64_t end = constant(after).value_or(most);
    pads[spatial + dim] = std::max<int64_t>(end, 0);
    high.push_back(std::min<int64_t>(end, 0));
  }
  x = code.op("graph.conv", {code.pad(x, low, high), flipped(code, w, group), code.graph.none()},
              {code.integers("strides", SmallVector<int64_t>(spatial, 1)),
               code.integers("pads", pads), code.integers("dilations", windows.dilations),
               code.integer("group", group)});
  for (size_t dim = 0; dim < spatial; ++dim)
    x = code.sliceDim(x, int64_t(2 + dim), 0, 1, sizes[dim]);
  return x;
}

/// x with its spatial dimensions padded, by `value` where there is one.
Value padded(const GradientCode &code, Value x, const Windows &windows, Value value = {}) {
  SmallVector<int64_t> low(2, 0), high(2, 0);
  llvm::append_range(low, windows.low);
  llvm::append_range(high, windows.high);
  if (!value)
    return code.pad(x, low, high);
  return code.op("graph.pad", {x, value}, {code.integers("low", low), code.integers("high", high)});
}

/// The elements of padded x that are at position `at` of their windows.
Value windowElements(const GradientCode &code, Value x, const Windows &windows,
                     ArrayRef<int64_t> at, ArrayRef<AffineExpr> counts) {
  for (size_t dim = 0; dim < at.size(); ++dim)
    x = code.sliceDim(x, int64_t(2 + dim), at[dim] * windows.dilations[dim], windows.strides[dim],
                      counts[dim]);
  return x;
}

/// Calls `visit` with each position of a window, row-major.
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

/// [N, group * channels, spatial...] as [group, channels, N * positions] or its transpose.
Value asMatrices(const GradientCode &code, Value x, int64_t group, bool positionsLast) {
  if (!x)
    return x;
  GraphCode::Dims dims = code.dims(x);
  auto &shapes = code.graph.shapes;
  AffineExpr channels = shapes.simplify(dims[1].floorDiv(group)), batch = dims[0],
             positions = shapes.product(ArrayRef(dims).drop_front(2)),
             all = shapes.simplify(batch * positions);
  x = code.reshape(x, {batch, code.size(group), channels, positions});
  x = code.transpose(x,
                     positionsLast ? ArrayRef<int64_t>{1, 2, 0, 3} : ArrayRef<int64_t>{1, 0, 3, 2});
  return positionsLast ? code.reshape(x, {code.size(group), channels, all})
                       : code.reshape(x, {code.size(group), all, channels});
}

Value weightsGradient(const Pullback &pull, const Windows &windows) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0), w = pull.operand(1), g = pull.cotangent();
  if (!g)
    return {};
  int64_t group = integerOf(pull.op, "group", 1);
  GraphCode::Dims dims = code.dims(w), outputs = code.dims(g);
  auto counts = ArrayRef(outputs).drop_front(2);
  Value image = padded(code, x, windows);
  bool isDepthwise = constant(dims[1]) == 1 && constant(dims[0]) == group;
  Value cotangent = isDepthwise ? g : asMatrices(code, g, group, true);
  SmallVector<int64_t> summed{0};
  for (size_t dim = 2; dim < dims.size(); ++dim)
    summed.push_back(int64_t(dim));
  SmallVector<Value> parts;
  forEachPosition(windows.kernel, [&](ArrayRef<int64_t> at) {
    Value elements = windowElements(code, image, windows, at, counts);
    Value part = isDepthwise ? code.reduce("graph.reduce_sum", code.mul(g, elements), summed, false)
                             : code.matmul(cotangent, asMatrices(code, elements, group, false));
    parts.push_back(code.reshape(part, {dims[0], dims[1], code.size(1)}));
  });
  return code.reshape(code.concat(parts, 2), dims);
}

Value convolution(const Pullback &pull, unsigned operand) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0), w = pull.operand(1);
  if (!GraphCode::isRanked(x) || !GraphCode::isRanked(w))
    return {};
  auto kernel = kernelOf(code, w);
  if (!kernel || flagOf(pull.op, "channels_last"))
    return {};
  Windows windows = windowsOf(pull.op, *kernel);
  if (operand == 1)
    return code.reshapeLike(weightsGradient(pull, windows), w);
  GraphCode::Dims dims = code.dims(x);
  Value result =
      transposedConvolution(code, pull.cotangent(), w, windows, integerOf(pull.op, "group", 1),
                            ArrayRef(dims).drop_front(2));
  return code.reshapeLike(result, x);
}

SmallVector<int64_t> channelsFirst(int64_t rank) {
  SmallVector<int64_t> permutation{0, rank - 1};
  for (int64_t dim = 1; dim + 1 < rank; ++dim)
    permutation.push_back(dim);
  return permutation;
}
SmallVector<int64_t> channelsLast(int64_t rank) {
  SmallVector<int64_t> permutation{0};
  for (int64_t dim = 2; dim < rank; ++dim)
    permutation.push_back(dim);
  permutation.push_back(1);
  return permutation;
}

/// The same operator on channels-first data.
Value withChannelsFirst(const GradientCode &code, Operation *op, ArrayRef<Value> others) {
  int64_t rank = GraphCode::rank(op->getOperand(0));
  SmallVector<NamedAttribute> attributes;
  for (NamedAttribute attribute : op->getAttrs())
    if (attribute.getName() != "channels_last")
      attributes.push_back(attribute);
  SmallVector<Value> operands{code.transpose(op->getOperand(0), channelsFirst(rank))};
  llvm::append_range(operands, others);
  Value y = code.op(op->getName().getStringRef(), operands, attributes);
  return code.transpose(y, channelsLast(rank));
}

/// Without the bias, and with the channels in dimension 1.
LogicalResult plainConvolution(const GradientCode &code, Operation *op,
                               SmallVectorImpl<Value> &results) {
  Value bias = op->getOperand(2), y;
  bool isLast = flagOf(op, "channels_last");
  if (!GraphCode::isRanked(op->getOperand(0)) || (GraphCode::isAbsent(bias) && !isLast))
    return failure();
  int64_t rank = GraphCode::rank(op->getOperand(0));
  if (isLast)
    y = withChannelsFirst(code, op, {op->getOperand(1), code.graph.none()});
  else
    y = code.op("graph.conv", {op->getOperand(0), op->getOperand(1), code.graph.none()},
                llvm::to_vector(op->getAttrs()));
  if (!GraphCode::isAbsent(bias))
    y = code.add(y, code.alongDimension(bias, isLast ? rank - 1 : 1, rank));
  return finish(y, results);
}

LogicalResult asConvolution(const GradientCode &code, Operation *op,
                            SmallVectorImpl<Value> &results) {
  Value x = op->getOperand(0), w = op->getOperand(1), bias = op->getOperand(2);
  if (!GraphCode::isRanked(op->getResult(0)) || !GraphCode::isRanked(w))
    return failure();
  auto kernel = kernelOf(code, w);
  if (!kernel)
    return failure();
  GraphCode::Dims dims = code.dims(op->getResult(0));
  Value y = transposedConvolution(code, x, w, windowsOf(op, *kernel), integerOf(op, "group", 1),
                                  ArrayRef(dims).drop_front(2));
  if (!GraphCode::isAbsent(bias))
    y = code.add(y, code.alongDimension(bias, 1, int64_t(dims.size())));
  return finish(y, results);
}

// ---- pooling ---------------------------------------------------------------------------------

LogicalResult poolChannelsFirst(const GradientCode &code, Operation *op,
                                SmallVectorImpl<Value> &results) {
  if (!flagOf(op, "channels_last") || !GraphCode::isRanked(op->getOperand(0)))
    return failure();
  return finish(withChannelsFirst(code, op, {}), results);
}

/// High pads so that every window lies within; fails where the sizes are not known.
bool coverWindows(Windows &windows, ArrayRef<AffineExpr> sizes, ArrayRef<AffineExpr> counts) {
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    auto size = constant(sizes[dim]), count = constant(counts[dim]);
    if (!size || !count)
      return false;
    int64_t end = (*count - 1) * windows.strides[dim] + windows.span(dim) + 1;
    windows.high[dim] = std::max(windows.high[dim], end - *size - windows.low[dim]);
  }
  return true;
}

/// The sum over windows' positions of what each gives, in padded coordinates, cropped.
Value cropped(const GradientCode &code, Value x, const Windows &windows) {
  Windows inner = windows;
  for (size_t dim = 0; dim < windows.low.size(); ++dim) {
    inner.low[dim] = -windows.low[dim];
    inner.high[dim] = -windows.high[dim];
  }
  return x ? padded(code, x, inner) : x;
}

/// By the indices of the largest, for sizes that are not known and for large windows.
Value largestByIndex(const Pullback &pull) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0);
  SmallVector<NamedAttribute> attributes;
  for (NamedAttribute attribute : pull.op->getAttrs())
    if (attribute.getName() != "channels_last")
      attributes.push_back(attribute);
  Value indices = code.op("graph.max_pool_indices", {x}, attributes);
  if (!indices)
    return {};
  auto &shapes = code.graph.shapes;
  auto flat = [&](Value v) { return code.reshape(v, shapes.product(code.dims(v))); };
  Value zeros = flat(code.zerosLike(x)), cotangent = pull.cotangent();
  if (!zeros || !cotangent)
    return {};
  Value sum = code.op("graph.scatter_elements",
                      {zeros, flat(indices), code.reshape(cotangent, code.dims(flat(indices)))},
                      {code.integer("axis", 0), code.text("reduction", "add")});
  return code.reshapeLike(sum, x);
}

/// The first largest of each window takes all.
Value largest(const Pullback &pull, unsigned) {
  constexpr int64_t kMostPositions = 64;
  const GradientCode &code = pull.code;
  Value x = pull.operand(0), y = pull.op->getResult(0), g = pull.cotangent();
  if (!g || !GraphCode::isRanked(x) || flagOf(pull.op, "channels_last"))
    return {};
  Windows windows = windowsOf(pull.op, integersOf(pull.op, "kernel"));
  GraphCode::Dims sizes = code.dims(x), counts = code.dims(y);
  auto outputs = ArrayRef(counts).drop_front(2);
  if (!coverWindows(windows, ArrayRef(sizes).drop_front(2), outputs) ||
      windows.count() > kMostPositions)
    return largestByIndex(pull);
  Value image = padded(code, x, windows, code.scalar(x, -std::numeric_limits<double>::infinity()));
  Type small = code.builder.getI32Type();
  SmallVector<SmallVector<int64_t>> positions;
  forEachPosition(windows.kernel, [&](ArrayRef<int64_t> at) { positions.emplace_back(at); });
  Value first = code.graph.scalar(small, double(positions.size()));
  for (size_t number = positions.size(); number-- > 0;) {
    Value is = code.op("graph.equal",
                       {windowElements(code, image, windows, positions[number], outputs), y});
    first = code.where(is, code.graph.scalar(small, double(number)), first);
  }
  Value sum;
  GraphCode::Dims whole = code.dims(image);
  for (auto [number, at] : llvm::enumerate(positions)) {
    Value isFirst = code.op("graph.equal", {first, code.graph.scalar(small, double(number))});
    Value part = code.where(isFirst, g, code.scalar(g, 0));
    for (size_t dim = 0; dim < at.size(); ++dim)
      part = placeAlong(code, part, int64_t(2 + dim), at[dim] * windows.dilations[dim],
                        windows.strides[dim], whole[2 + dim], 0);
    sum = sum ? code.add(sum, part) : part;
  }
  return code.reshapeLike(cropped(code, sum, windows), x);
}

/// Each position of the windows along one dimension gets the same, in padded coordinates.
Value spreadWindows(const GradientCode &code, Value g, const Windows &windows, size_t dim,
                    AffineExpr size) {
  if (!g)
    return g;
  int64_t at = int64_t(2 + dim), stride = windows.strides[dim], kernel = windows.kernel[dim];
  if (windows.dilations[dim] == 1 && kernel <= stride) { // windows that do not overlap
    GraphCode::Dims dims = code.dims(g), apart = dims, repeated;
    apart.insert(apart.begin() + at + 1, code.size(1));
    repeated = apart;
    repeated[at + 1] = code.size(kernel);
    SmallVector<int64_t> low(repeated.size(), 0), high(repeated.size(), 0);
    high[size_t(at + 1)] = stride - kernel;
    Value x = code.pad(code.broadcast(code.reshape(g, apart), repeated), low, high);
    dims[at] = code.graph.shapes.simplify(dims[at] * stride);
    x = code.reshape(x, dims);
    return placeAlong(code, x, at, 0, 1, size, windows.span(dim));
  }
  Value sum;
  for (int64_t position = 0; position < kernel; ++position) {
    int64_t first = position * windows.dilations[dim];
    Value part = placeAlong(code, g, at, first, stride, size, windows.span(dim) - first);
    sum = sum ? code.add(sum, part) : part;
  }
  return sum;
}

/// How many elements count in each window, as a factor: what the mean divides by.
Value windowSizes(const Pullback &pull, const Windows &windows, bool countsPadding) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0);
  GraphCode::Dims dims = code.dims(x);
  dims[0] = dims[1] = code.size(1);
  Value ones = code.broadcast(code.scalar(x, 1), dims);
  Windows outside = windows;
  auto pads = integersOf(pull.op, "pads");
  if (countsPadding) { // the padding counts, but not what a rounded-up size goes beyond it
    Windows declared = windows;
    declared.high.assign(pads.take_back(windows.kernel.size()).begin(), pads.end());
    ones = padded(code, ones, declared, code.scalar(x, 1));
    for (size_t dim = 0; dim < windows.kernel.size(); ++dim) {
      outside.low[dim] = 0;
      outside.high[dim] -= declared.high[dim];
    }
  }
  ones = padded(code, ones, outside);
  Value share =
      code.op("graph.average_pool", {ones},
              {code.integers("kernel", windows.kernel), code.integers("strides", windows.strides),
               code.integers("dilations", windows.dilations),
               code.integers("pads", SmallVector<int64_t>(2 * windows.kernel.size(), 0))});
  return code.mul(share, double(windows.count()));
}

Value average(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0), g = pull.cotangent();
  if (!g || !GraphCode::isRanked(x) || flagOf(pull.op, "channels_last"))
    return {};
  Windows windows = windowsOf(pull.op, integersOf(pull.op, "kernel"));
  GraphCode::Dims dims = code.dims(x), counts = code.dims(pull.op->getResult(0));
  bool isRounded = flagOf(pull.op, "ceil_mode"),
       countsPadding = flagOf(pull.op, "count_include_pad");
  bool isCovered =
      coverWindows(windows, ArrayRef(dims).drop_front(2), ArrayRef(counts).drop_front(2));
  if (isRounded && !isCovered)
    return {};
  auto isZero = [](int64_t size) { return size == 0; };
  bool isPadded = !llvm::all_of(windows.low, isZero) || !llvm::all_of(windows.high, isZero);
  if (isPadded && (isRounded || !countsPadding))
    g = code.div(g, windowSizes(pull, windows, countsPadding));
  else
    g = code.mul(g, 1.0 / double(windows.count()));
  for (size_t dim = 0; dim < windows.kernel.size(); ++dim)
    g = spreadWindows(
        code, g, windows, dim,
        code.graph.shapes.simplify(dims[2 + dim] + windows.low[dim] + windows.high[dim]));
  return code.reshapeLike(cropped(code, g, windows), x);
}

/// (sum of |x|^p)^(1/p), the sum as so many times a mean.
LogicalResult norm(const GradientCode &code, Operation *op, SmallVectorImpl<Value> &results) {
  if (flagOf(op, "ceil_mode"))
    return failure();
  int64_t p = integerOf(op, "p", 2), count = 1;
  for (int64_t size : integersOf(op, "kernel"))
    count *= size;
  Value x = op->getOperand(0), size = code.unary("graph.abs", x);
  Value power = p == 1   ? size
                : p == 2 ? code.mul(x, x)
                         : code.op("graph.pow", {size, code.scalar(x, double(p))});
  SmallVector<NamedAttribute> attributes{code.flag("count_include_pad", true)};
  for (NamedAttribute attribute : op->getAttrs())
    if (attribute.getName() != "p")
      attributes.push_back(attribute);
  Value sum = code.mul(code.op("graph.average_pool", {power}, attributes), double(count));
  return finish(p == 1   ? sum
                : p == 2 ? code.unary("graph.sqrt", sum)
                         : code.op("graph.pow", {sum, code.scalar(x, 1.0 / double(p))}),
                results);
}

Value unpooling(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  Value g = pull.cotangent();
  if (!GraphCode::isRanked(g))
    return {};
  Value flat = code.reshape(g, code.graph.shapes.product(code.dims(g)));
  return code.op("graph.gather", {flat, pull.operand(1)}, {code.integer("axis", 0)});
}

} // namespace

std::span<const NamedGradientRule> convolutionGradients() {
  static const NamedGradientRule kRules[] = {
      {"conv", expandedOrPulled(plainConvolution, convolution, Linear::Each, 0b11)},
      {"conv_transpose", expanded(asConvolution)},
      {"deform_conv", kNoGradient},
      {"max_pool", expandedOrPulled(poolChannelsFirst, largest, Linear::No)},
      {"average_pool", expandedOrPulled(poolChannelsFirst, average, Linear::Jointly)},
      {"lp_pool", expanded(norm)},
      {"max_pool_indices", kZeroGradient},
      {"max_unpool", pulled(unpooling, Linear::Jointly, 1)},
      {"col2im", kNoGradient},
      {"winograd_input", kNoGradient},
      {"winograd_weights", kNoGradient},
      {"winograd_output", kNoGradient},
  };
  return kRules;
}

} // namespace tensmith::graph

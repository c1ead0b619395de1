// Pooling: each position of a window gets what the window made of it.
//
// Windows are taken one dimension after the other. Along one, what each position gets is an image,
// and the images of positions a stride apart are shifted and added, those between are interleaved.
#include "compiler/graph/ChannelOrder.h"
#include "compiler/graph/WindowGradient.h"

#include <limits>

using namespace mlir;

namespace tensmith::graph {
namespace {

using namespace windows;

LogicalResult poolChannelsFirst(const GradientCode &code, Operation *op,
                                SmallVectorImpl<Value> &results) {
  if (!isChannelsLast(op) || !GraphCode::isRanked(op->getOperand(0)))
    return failure();
  return finish(withChannelsFirst(code, op, {}), results);
}

/// The dimensions in which windows have more than one position, or skip or add some.
SmallVector<size_t> widerThanOne(const Windows &windows) {
  SmallVector<size_t> result;
  for (size_t dim = 0; dim < windows.kernel.size(); ++dim)
    if (windows.kernel[dim] != 1 || windows.strides[dim] != 1 || windows.low[dim] != 0 ||
        windows.high[dim] != 0)
      result.push_back(dim);
  return result;
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

/// By the indices of the largest, for sizes that are not known and for large windows.
Value largestByIndex(const Pullback &pull) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0);
  SmallVector<NamedAttribute> attributes;
  for (NamedAttribute attribute : pull.op->getAttrs())
    if (attribute.getName() != kLayout)
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

/// A window that holds a NaN gives it, and so its element gets what the window got.
Value isLargest(const GradientCode &code, Value elements, Value largest) {
  Value isNaN = code.unary("graph.isnan", elements);
  return code.op("graph.or", {code.op("graph.equal", {elements, largest}), isNaN});
}

/// The first largest along one dimension of each window takes all.
Value largestAlong(const Pullback &pull, const Windows &windows, size_t along) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0), y = pull.op->getResult(0), g = pull.cotangent();
  int64_t dim = int64_t(2 + along);
  AffineExpr count = code.dims(y)[dim];
  Value image = padded(code, x, windows, code.scalar(x, -std::numeric_limits<double>::infinity()));
  Value zero = code.scalar(g, 0), left = g; // what no position before has taken
  SmallVector<Value> parts;
  for (int64_t position = 0; position < windows.kernel[along]; ++position) {
    Value elements = code.sliceDim(image, dim, position * windows.dilations[along],
                                   windows.strides[along], count);
    Value is = isLargest(code, elements, y);
    parts.push_back(code.where(is, left, zero));
    left = code.where(is, zero, left);
  }
  if (!image)
    return {};
  Value sum = sumOfPositions(code, parts, windows, along, code.dims(image)[dim]);
  return code.reshapeLike(cropped(code, sum, windows), x);
}

constexpr int64_t kMostPositions = 32;

/// Whether the windows lie side by side and cover the whole, as most do.
bool areTiles(const Windows &windows, ArrayRef<AffineExpr> sizes, ArrayRef<AffineExpr> counts) {
  for (size_t dim = 0; dim < windows.kernel.size(); ++dim) {
    auto size = constant(sizes[dim]), count = constant(counts[dim]);
    if (!size || !count || windows.kernel[dim] != windows.strides[dim] ||
        windows.dilations[dim] != 1 || windows.low[dim] != 0 ||
        *count * windows.kernel[dim] != *size)
      return false;
  }
  return windows.count() > 1 && windows.count() <= kMostPositions;
}
bool areTiles(const GradientCode &code, Operation *op, const Windows &windows) {
  return areTiles(windows, ArrayRef(code.dims(op->getOperand(0))).drop_front(2),
                  ArrayRef(code.dims(op->getResult(0))).drop_front(2));
}

/// What an element's place along one dimension of its tile adds to its number, which is row-major.
/// Computed by the kernel that asks for it: no constant of the picture's size.
Value numbersAlong(const Pullback &pull, const Windows &windows, size_t dim) {
  const GradientCode &code = pull.code;
  GraphCode::Dims dims = code.dims(pull.operand(0)), counts = code.dims(pull.op->getResult(0));
  int64_t scale = 1;
  for (size_t inner = dim + 1; inner < windows.kernel.size(); ++inner)
    scale *= windows.kernel[inner];
  Value places = code.iota({counts[2 + dim], code.size(windows.kernel[dim])}, 1);
  Value numbers =
      code.mul(code.cast(code.reshape(places, dims[2 + dim]), GraphCode::element(pull.cotangent())),
               double(scale));
  return code.alongDimension(numbers, int64_t(2 + dim), int64_t(dims.size()));
}

/// Each element of a tile that is the first largest gets what the tile has got: its number is found
/// from the elements, and compared with everyone's own.
Value largestOfTiles(const Pullback &pull, const Windows &windows) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0), y = pull.op->getResult(0), g = pull.cotangent();
  GraphCode::Dims dims = code.dims(x), counts = code.dims(y), parted{dims[0]}, whole{dims[0]},
                  joined{dims[0]};
  for (size_t dim = 0; dim < windows.kernel.size(); ++dim) {
    parted.append({counts[2 + dim], code.size(1)});
    whole.append({counts[2 + dim], code.size(windows.kernel[dim])});
    joined.push_back(dims[2 + dim]);
  }
  for (GraphCode::Dims *sizes : {&parted, &whole, &joined})
    sizes->push_back(dims[1]);
  // Channels-last, as which images are in memory.
  int64_t rank = int64_t(dims.size());
  auto spread = [&](Value v) {
    v = code.reshape(code.transpose(v, toChannelsLast(rank)), parted);
    return code.transpose(code.reshape(code.broadcast(v, whole), joined), toChannelsFirst(rank));
  };
  Value first = code.scalar(g, double(windows.count() - 1));
  for (int64_t number = windows.count() - 1; number-- > 0;) {
    Value elements = x;
    int64_t rest = number;
    for (size_t dim = windows.kernel.size(); dim-- > 0; rest /= windows.kernel[dim])
      elements = code.sliceDim(elements, int64_t(2 + dim), rest % windows.kernel[dim],
                               windows.kernel[dim], counts[2 + dim]);
    first = code.where(isLargest(code, elements, y), code.scalar(g, double(number)), first);
  }
  if (!first || !g)
    return {};
  size_t last = windows.kernel.size() - 1;
  Value rest = spread(first); // of the number, without the outer dimensions
  for (size_t dim = 0; dim < last; ++dim)
    rest = code.sub(rest, numbersAlong(pull, windows, dim));
  Value is = code.op("graph.equal", {rest, numbersAlong(pull, windows, last)});
  return code.reshapeLike(code.where(is, spread(g), code.scalar(g, 0)), x);
}

Value largest(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0);
  if (!pull.cotangent() || !GraphCode::isRanked(x) || isChannelsLast(pull.op))
    return {};
  Windows windows = windowsOf(pull.op, integersOf(pull.op, "kernel"));
  if (areTiles(code, pull.op, windows))
    return largestOfTiles(pull, windows);
  GraphCode::Dims sizes = code.dims(x), counts = code.dims(pull.op->getResult(0));
  SmallVector<size_t> wide = widerThanOne(windows);
  if (!coverWindows(windows, ArrayRef(sizes).drop_front(2), ArrayRef(counts).drop_front(2)) ||
      wide.size() > 1 || windows.count() > kMostPositions)
    return largestByIndex(pull);
  return largestAlong(pull, windows, wide.empty() ? 0 : wide[0]);
}

/// One dimension after the other, the last first: the first largest of a window, row-major, is the
/// first in the first of its rows that has it.
LogicalResult poolByDimension(const GradientCode &code, Operation *op,
                              SmallVectorImpl<Value> &results) {
  if (succeeded(poolChannelsFirst(code, op, results)))
    return success();
  Value x = op->getOperand(0);
  if (!GraphCode::isRanked(x))
    return failure();
  Windows windows = windowsOf(op, integersOf(op, "kernel"));
  SmallVector<size_t> wide = widerThanOne(windows);
  if (wide.size() < 2 || areTiles(code, op, windows))
    return failure();
  for (size_t dim : llvm::reverse(wide)) {
    size_t spatial = windows.kernel.size();
    SmallVector<int64_t> kernel(spatial, 1), strides = kernel, dilations = kernel,
                                             pads(2 * spatial, 0);
    kernel[dim] = windows.kernel[dim];
    strides[dim] = windows.strides[dim];
    dilations[dim] = windows.dilations[dim];
    pads[dim] = windows.low[dim];
    pads[spatial + dim] = windows.high[dim];
    x = code.op("graph.max_pool", {x},
                {code.integers("kernel", kernel), code.integers("strides", strides),
                 code.integers("pads", pads), code.integers("dilations", dilations),
                 code.flag("ceil_mode", flagOf(op, "ceil_mode"))});
  }
  return finish(x, results);
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
  if (!g || !GraphCode::isRanked(x) || isChannelsLast(pull.op))
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
    g = sumOfPositions(
        code, SmallVector<Value>(size_t(windows.kernel[dim]), g), windows, dim,
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

std::span<const NamedGradientRule> poolingGradients() {
  static const NamedGradientRule kRules[] = {
      {"max_pool", sameBits(expandedOrPulled(poolByDimension, largest, Linear::No))},
      {"average_pool", expandedOrPulled(poolChannelsFirst, average, Linear::Jointly)},
      {"lp_pool", expanded(norm)},
      {"max_pool_indices", kStep},
      {"max_unpool", pulled(unpooling, Linear::Jointly, 1)},
  };
  return kRules;
}

} // namespace tensmith::graph

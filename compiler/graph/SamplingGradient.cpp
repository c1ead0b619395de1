// Images read between their elements; see SamplingGradient.h.
//
// A position has taps along each dimension: elements, and what each counts, which is a function of
// the position. A value is the sum over the product of the dimensions' taps. So the derivative by
// the image is a scatter of the weights, and that by the position goes through the weights alone:
// which elements are read is a step function. What is computed is what the reference computes
// (reference/Resampling.cpp, RegionPooling.cpp, Convolution.cpp), in the operands' precision.
#include "compiler/graph/SamplingGradient.h"

#include <limits>

using namespace mlir;

namespace tensmith::graph::sampling {
namespace {

struct Taps {
  SmallVector<Value> elements, weights; // i64 and floats, of the positions' shape
};

/// What the positions along a dimension of `size` elements (a float) are read by.
struct Axis {
  const GradientCode &code;
  Value size;

  Value constant(double value) const { return code.scalar(size, value); }
  Value last() const { return code.add(size, -1); }
  Value isWithin(Value x, Value low, Value high) const {
    return code.op("graph.and", {code.op("graph.greater_or_equal", {x, low}),
                                 code.op("graph.less_or_equal", {x, high})});
  }
  /// As far as the first or last element; what is no number goes to the first.
  Value clamped(Value x) const {
    Value isPositive = code.op("graph.greater", {x, constant(0)});
    return code.where(isPositive, code.op("graph.min", {x, last()}), constant(0));
  }
  Value asIndex(Value x) const { return code.cast(clamped(x), code.builder.getI64Type()); }
};

/// Between two neighbours, of which those outside count nothing, or are the nearest inside.
Taps linearTaps(const Axis &axis, Value x, bool zerosOutside) {
  const GradientCode &code = axis.code;
  Value low = code.unary("graph.floor", x), share = code.sub(x, low), high = code.add(low, 1);
  Value elements[] = {low, high}, weights[] = {code.sub(axis.constant(1), share), share};
  Taps taps;
  for (auto [element, weight] : llvm::zip_equal(elements, weights)) {
    Value isInside = axis.isWithin(element, axis.constant(0), axis.last());
    taps.elements.push_back(axis.asIndex(element));
    taps.weights.push_back(zerosOutside ? code.where(isInside, weight, axis.constant(0)) : weight);
  }
  return taps;
}

/// An image for each number of `image`, channels-last: its channels at each position, weighted.
SmallVector<Value> samples(const GradientCode &code, Value images, Value image,
                           ArrayRef<Taps> axes) {
  struct Product {
    SmallVector<Value> elements;
    Value weight;
  };
  SmallVector<Product> products(1);
  products[0].elements.push_back(image);
  for (const Taps &taps : axes) {
    SmallVector<Product> more;
    for (const Product &product : products)
      for (auto [element, weight] : llvm::zip_equal(taps.elements, taps.weights)) {
        Product next = product;
        next.elements.push_back(element);
        next.weight = product.weight ? code.mul(product.weight, weight) : weight;
        more.push_back(next);
      }
    products = std::move(more);
  }
  SmallVector<Value> values;
  for (Product &product : products) {
    if (!product.weight)
      return {Value()};
    GraphCode::Dims positions = code.dims(product.weight), column = positions;
    column.push_back(code.size(1));
    SmallVector<Value> tuple;
    for (Value element : product.elements)
      tuple.push_back(code.reshape(code.broadcast(element, positions), column));
    Value index = code.concat(tuple, int64_t(positions.size()));
    Value read = code.op("graph.gather_nd", {images, index});
    values.push_back(code.mul(read, code.reshape(product.weight, column)));
  }
  return values;
}

Value sumOf(const GradientCode &code, ArrayRef<Value> values) {
  Value sum = values.front();
  for (Value value : values.drop_front())
    sum = code.add(sum, value);
  return sum;
}

Value sizeOf(const GradientCode &code, Value image, int64_t dim, Value like) {
  return code.cast(code.sizeOf(image, dim), GraphCode::element(like));
}

SmallVector<int64_t> channelsLast(int64_t rank) {
  SmallVector<int64_t> order{0};
  for (int64_t dim = 2; dim < rank; ++dim)
    order.push_back(dim);
  order.push_back(1);
  return order;
}
SmallVector<int64_t> channelsFirst(int64_t rank) {
  SmallVector<int64_t> order{0, rank - 1};
  for (int64_t dim = 1; dim < rank - 1; ++dim)
    order.push_back(dim);
  return order;
}

bool isKnown(Operation *op) {
  auto isRanked = [](Value value) {
    return GraphCode::isAbsent(value) || !hasUnknownSizes(value.getType());
  };
  return llvm::all_of(op->getOperands(), isRanked) && isRanked(op->getResult(0));
}

/// Numbers of a vector along the first dimension of `rank` many.
Value numbersAlong(const GradientCode &code, Value like, int64_t rank) {
  return code.alongDimension(code.indicesOf(like, 0), 0, rank);
}

// ---- grid_sample
// -----------------------------------------------------------------------------------------------

struct Grid {
  StringRef mode, padding;
  bool aligned;
};

/// Back and forth between the borders.
Value reflected(const Axis &axis, const Grid &grid, Value x) {
  const GradientCode &code = axis.code;
  Value low = axis.constant(grid.aligned ? 0 : -0.5);
  Value range = grid.aligned ? code.op("graph.max", {axis.last(), axis.constant(1)}) : axis.size;
  Value turn = code.op("graph.mod", {code.sub(x, low), code.add(range, range)});
  Value back = code.unary("graph.abs", code.sub(turn, range));
  return code.op("graph.min", {code.add(low, code.sub(range, back)),
                               code.sub(axis.size, axis.constant(grid.aligned ? 1 : 0.5))});
}

/// The part of Keys' cubic kernel (1981) that elements at a distance below 1, or from 1 to 2, take.
Value cubicWeight(const Axis &axis, Value distance, bool isNear) {
  const GradientCode &code = axis.code;
  constexpr double a = -0.75;
  auto times = [&](Value sum) { return code.mul(sum, distance); };
  if (isNear)
    return code.add(times(times(code.add(code.mul(distance, a + 2), -(a + 3)))), 1);
  Value sum = code.add(times(code.add(code.mul(distance, a), -5 * a)), 8 * a);
  return code.add(times(sum), -4 * a);
}

Taps cubicTaps(const Axis &axis, const Grid &grid, Value x) {
  const GradientCode &code = axis.code;
  Value floor = code.unary("graph.floor", x), share = code.sub(x, floor);
  Value rest = code.sub(axis.constant(1), share);
  Value distances[] = {code.add(share, 1), share, rest, code.add(rest, 1)};
  Taps taps;
  for (int64_t i = 0; i < 4; ++i) {
    Value element = code.add(floor, double(i - 1)),
          weight = cubicWeight(axis, distances[i], i == 1 || i == 2);
    Value isInside = axis.isWithin(element, axis.constant(0), axis.last());
    if (grid.padding == "zeros")
      weight = code.where(isInside, weight, axis.constant(0));
    if (grid.padding == "reflection")
      element = reflected(axis, grid, element);
    taps.elements.push_back(axis.asIndex(element));
    taps.weights.push_back(weight);
  }
  return taps;
}

Taps gridTaps(const Axis &axis, const Grid &grid, Value position) {
  const GradientCode &code = axis.code;
  Value half = code.mul(code.add(position, 1), 0.5);
  Value x = grid.aligned ? code.mul(half, axis.last()) : code.add(code.mul(half, axis.size), -0.5);
  if (grid.mode == "nearest")
    x = code.unary("graph.round", x);
  if (grid.padding == "reflection")
    x = reflected(axis, grid, x);
  if (grid.padding == "border" && grid.mode == "linear")
    x = axis.clamped(x);
  if (grid.mode == "cubic")
    return cubicTaps(axis, grid, x);
  bool zerosOutside = grid.padding == "zeros";
  if (grid.mode == "linear")
    return linearTaps(axis, x, zerosOutside);
  Value one = code.filledLike(x, 1), isInside = axis.isWithin(x, axis.constant(0), axis.last());
  return {{axis.asIndex(x)}, {zerosOutside ? code.where(isInside, one, axis.constant(0)) : one}};
}

} // namespace

LogicalResult gridSample(const GradientCode &code, Operation *op, SmallVectorImpl<Value> &results) {
  Value x = op->getOperand(0), positions = op->getOperand(1);
  if (!isKnown(op))
    return failure();
  Grid grid{textOf(op, "mode", "linear"), textOf(op, "padding_mode", "zeros"),
            flagOf(op, "align_corners")};
  int64_t rank = GraphCode::rank(x), spatial = rank - 2;
  GraphCode::Dims dims = code.dims(positions);
  dims.pop_back();
  SmallVector<Taps> axes;
  for (int64_t dim = 0; dim < spatial; ++dim) { // the grid names the last dimension first
    Value own = code.sliceDim(positions, spatial + 1, spatial - 1 - dim, 1, code.size(1));
    axes.push_back(
        gridTaps({code, sizeOf(code, x, 2 + dim, positions)}, grid, code.reshape(own, dims)));
  }
  Value image = numbersAlong(code, positions, spatial + 1);
  Value sum = sumOf(code, samples(code, code.transpose(x, channelsLast(rank)), image, axes));
  return finish(code.transpose(sum, channelsFirst(rank)), results);
}

// ---- roi_align
// -----------------------------------------------------------------------------------------------

namespace {

/// Where the samples of each region's bins lie along a dimension: [regions, bins, samples].
Value samplePositions(const GradientCode &code, Operation *op, Value rois, int64_t first,
                      int64_t bins, int64_t count) {
  bool isHalf = textOf(op, "coordinate_transformation_mode", "half_pixel") == "half_pixel";
  auto scale = op->getAttrOfType<FloatAttr>("spatial_scale");
  AffineExpr regions = code.dims(rois)[0];
  auto edge = [&](int64_t column) {
    Value own = code.reshape(code.sliceDim(rois, 1, column, 1, code.size(1)),
                             {regions, code.size(1), code.size(1)});
    return code.add(code.mul(own, scale ? scale.getValueAsDouble() : 1), isHalf ? -0.5 : 0);
  };
  Value start = edge(first), size = code.sub(edge(first + 2), start);
  if (!isHalf)
    size = code.op("graph.max", {size, code.scalar(size, 1)});
  Value bin = code.mul(size, 1.0 / double(bins));
  GraphCode::Dims each{code.size(bins), code.size(count)};
  Type type = GraphCode::element(rois);
  Value sample = code.mul(code.add(code.cast(code.iota(each, 1), type), 0.5), 1.0 / double(count));
  return code.add(start, code.mul(bin, code.add(code.cast(code.iota(each, 0), type), sample)));
}

/// A sample more than an element outside counts nothing; up to there it is the border's.
Taps regionTaps(const Axis &axis, Value x) {
  const GradientCode &code = axis.code;
  Value isNear = axis.isWithin(x, axis.constant(-1), axis.size);
  Taps taps = linearTaps(axis, axis.clamped(x), false);
  for (Value &weight : taps.weights)
    weight = code.where(isNear, weight, axis.constant(0));
  return taps;
}

/// The taps' values of dimensions [regions, bins, samples] at `place` and `place + 1` of five.
Taps spreadOut(const GradientCode &code, Taps taps, int64_t place) {
  for (auto *values : {&taps.elements, &taps.weights})
    for (Value &value : *values) {
      if (!value)
        continue;
      GraphCode::Dims dims = code.dims(value), apart(5, code.size(1));
      apart[0] = dims[0];
      apart[size_t(place)] = dims[1];
      apart[size_t(place) + 1] = dims[2];
      value = code.reshape(value, apart);
    }
  return taps;
}

} // namespace

/// Regions times bins times samples, of which the mean is taken or the largest.
LogicalResult roiAlign(const GradientCode &code, Operation *op, SmallVectorImpl<Value> &results) {
  Value x = op->getOperand(0), rois = op->getOperand(1), images = op->getOperand(2);
  int64_t count = integerOf(op, "sampling_ratio");
  if (!isKnown(op) || count < 1) // each region has as many samples as it is large
    return failure();
  SmallVector<Taps> axes;
  for (int64_t dim : {0, 1}) { // of the corners, those along the width come first
    int64_t bins = integerOf(op, dim == 0 ? "output_height" : "output_width", 1);
    Value positions = samplePositions(code, op, rois, 1 - dim, bins, count);
    axes.push_back(spreadOut(code, regionTaps({code, sizeOf(code, x, 2 + dim, rois)}, positions),
                             1 + 2 * dim));
  }
  Value image = code.alongDimension(code.cast(images, code.builder.getI64Type()), 0, 5);
  SmallVector<Value> values = samples(code, code.transpose(x, channelsLast(4)), image, axes);
  Value pooled;
  if (textOf(op, "mode", "avg") == "max") {
    pooled = values.front();
    for (Value value : ArrayRef(values).drop_front())
      pooled = code.op("graph.max", {pooled, value});
    pooled = code.reduce("graph.reduce_max", pooled, {2, 4}, false);
  } else {
    pooled = code.mul(code.reduce("graph.reduce_sum", sumOf(code, values), {2, 4}, false),
                      1.0 / double(count * count));
  }
  return finish(code.transpose(pooled, channelsFirst(4)), results);
}

// ---- deform_conv
// -----------------------------------------------------------------------------------------------

namespace {

/// Where window elements lie along a dimension before they are moved: [elements, grid...].
Value windowPositions(const GradientCode &code, Operation *op, ArrayRef<AffineExpr> kernel,
                      ArrayRef<AffineExpr> grid, size_t dim, Type type) {
  GraphCode::Dims all(kernel);
  all.append(grid.begin(), grid.end());
  auto scaled = [&](size_t axis, StringRef by) {
    return code.mul(code.cast(code.iota(all, int64_t(axis)), type),
                    double(integersOf(op, by)[dim]));
  };
  Value at = code.add(scaled(dim, "dilations"), scaled(kernel.size() + dim, "strides"));
  GraphCode::Dims joined{code.graph.shapes.product(kernel)};
  joined.append(grid.begin(), grid.end());
  return code.reshape(code.add(at, -double(integersOf(op, "pads")[dim])), joined);
}

} // namespace

/// Columns of samples, times the weights. Channels that share offsets are an image of their own.
LogicalResult deformConv(const GradientCode &code, Operation *op, SmallVectorImpl<Value> &results) {
  Value x = op->getOperand(0), w = op->getOperand(1), offset = op->getOperand(2);
  Value bias = op->getOperand(3), mask = op->getOperand(4);
  if (!isKnown(op))
    return failure();
  auto &shapes = code.graph.shapes;
  int64_t parts = integerOf(op, "offset_group", 1), group = integerOf(op, "group", 1);
  GraphCode::Dims dims = code.dims(x), weights = code.dims(w), out = code.dims(op->getResult(0));
  GraphCode::Dims kernel(ArrayRef(weights).drop_front(2)), grid(ArrayRef(out).drop_front(2));
  size_t spatial = kernel.size();
  AffineExpr elements = shapes.product(kernel), images = shapes.simplify(dims[0] * parts);
  AffineExpr channels = shapes.simplify(dims[1].floorDiv(parts));
  // Offsets are [n, parts, elements, dimension, grid...].
  GraphCode::Dims apart{images, elements, code.size(int64_t(spatial))};
  apart.append(grid.begin(), grid.end());
  GraphCode::Dims positions{images, elements};
  positions.append(grid.begin(), grid.end());
  Value offsets = code.reshape(offset, apart);
  SmallVector<Taps> axes;
  for (size_t dim = 0; dim < spatial; ++dim) {
    Value own = code.reshape(code.sliceDim(offsets, 2, int64_t(dim), 1, code.size(1)), positions);
    Value at = windowPositions(code, op, kernel, grid, dim, GraphCode::element(offset));
    axes.push_back(
        linearTaps({code, sizeOf(code, x, 2 + int64_t(dim), offset)}, code.add(own, at), true));
  }
  GraphCode::Dims stack{images, channels};
  llvm::append_range(stack, ArrayRef(dims).drop_front(2));
  Value planes = code.transpose(code.reshape(x, stack), channelsLast(int64_t(stack.size())));
  Value image = numbersAlong(code, planes, int64_t(positions.size()));
  Value read =
      sumOf(code, samples(code, planes, image, axes)); // [images, elements, grid..., channels]
  if (!GraphCode::isAbsent(mask)) {
    GraphCode::Dims column(positions);
    column.push_back(code.size(1));
    read = code.mul(read, code.reshape(mask, column));
  }
  AffineExpr places = shapes.product(grid);
  read = code.transpose(code.reshape(read, {images, elements, places, channels}), {0, 3, 1, 2});
  AffineExpr terms = shapes.simplify(weights[1] * elements);
  Value columns = code.reshape(read, {dims[0], code.size(group), terms, places});
  Value rows =
      code.reshape(w, {code.size(group), shapes.simplify(weights[0].floorDiv(group)), terms});
  Value y = code.reshape(code.matmul(rows, columns), out);
  if (!GraphCode::isAbsent(bias))
    y = code.add(y, code.alongDimension(bias, 1, int64_t(out.size())));
  return finish(y, results);
}

// ---- max_roi_pool
// -----------------------------------------------------------------------------------------------

namespace {

/// Whether each element of a dimension is in each region's bins: [regions, bins, size].
Value isInBin(const GradientCode &code, Operation *op, int64_t first, int64_t bins, Value x,
              int64_t dim) {
  Value rois = op->getOperand(1);
  auto scale = op->getAttrOfType<FloatAttr>("spatial_scale");
  Type f32 = code.builder.getF32Type();
  AffineExpr regions = code.dims(rois)[0];
  auto edge = [&](int64_t column) { // rounded, halves away from zero
    Value own = code.cast(code.sliceDim(rois, 1, column, 1, code.size(1)), f32);
    own = code.mul(code.reshape(own, {regions, code.size(1), code.size(1)}),
                   scale ? scale.getValueAsDouble() : 1);
    Value size = code.unary("graph.floor", code.add(code.unary("graph.abs", own), 0.5));
    return code.mul(code.unary("graph.sign", own), size);
  };
  Value low = edge(first), span = code.add(code.sub(edge(first + 2), low), 1);
  Value bin =
      code.div(code.op("graph.max", {span, code.scalar(span, 1)}), code.scalar(span, double(bins)));
  Value number = code.cast(code.iota({code.size(1), code.size(bins), code.size(1)}, 1), f32);
  Value begin = code.add(code.unary("graph.floor", code.mul(number, bin)), low);
  Value end = code.add(code.unary("graph.ceil", code.mul(code.add(number, 1), bin)), low);
  Value at = code.cast(code.iota({code.size(1), code.size(1), code.dims(x)[size_t(dim)]}, 2), f32);
  return code.op("graph.and", {code.op("graph.greater_or_equal", {at, begin}),
                               code.op("graph.less", {at, end})});
}

} // namespace

/// The largest of each row's part, and of those the largest; nothing at all is 0.
LogicalResult maxRoiPool(const GradientCode &code, Operation *op, SmallVectorImpl<Value> &results) {
  Value x = op->getOperand(0), rois = op->getOperand(1);
  if (!isKnown(op))
    return failure();
  auto pooled = integersOf(op, "pooled_shape");
  GraphCode::Dims dims = code.dims(x);
  AffineExpr regions = code.dims(rois)[0], one = code.size(1), rows = code.size(pooled[0]),
             columns = code.size(pooled[1]);
  Value number = code.cast(code.sliceDim(rois, 1, 0, 1, one), code.builder.getI64Type());
  Value images =
      code.op("graph.gather", {x, code.reshape(number, {regions})}, {code.integer("axis", 0)});
  Value least = code.scalar(x, -std::numeric_limits<double>::infinity());
  Value rowsApart = code.reshape(images, {regions, dims[1], dims[2], one, dims[3]});
  Value isNumber = code.op("graph.equal", {rowsApart, rowsApart}); // others are passed over
  Value inColumns =
      code.reshape(isInBin(code, op, 1, pooled[1], x, 3), {regions, one, one, columns, dims[3]});
  Value line = code.where(code.op("graph.and", {inColumns, isNumber}), rowsApart, least);
  line = code.reduce("graph.reduce_max", line, {4}, false); // [regions, channels, height, columns]
  Value inRows =
      code.reshape(isInBin(code, op, 2, pooled[0], x, 2), {regions, one, rows, one, dims[2]});
  Value turned =
      code.reshape(code.transpose(line, {0, 1, 3, 2}), {regions, dims[1], one, columns, dims[2]});
  Value y = code.reduce("graph.reduce_max", code.where(inRows, turned, least), {4}, false);
  return finish(code.where(code.op("graph.equal", {y, least}), code.scalar(y, 0), y), results);
}

} // namespace tensmith::graph::sampling

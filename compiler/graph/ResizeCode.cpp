// Resizing as smaller operators (Decomposable::decompose).
//
// Along each axis an element of the result is a weighted sum of a few of x, whose positions and
// weights are known where the sizes are: so many gathers along the axis, each times its weights.
// Where they are many (antialiasing of a small scale) the axis is multiplied by a matrix instead.
//
// Of sizes that only the run knows, positions are made when it begins: resizing the numbers of an
// axis' elements, a vector, gives for each element of the result where it lies in x, for all modes
// of coordinates as the reference has them; of a crop, -1 where it lies outside. The nearest is
// read there, or the two beside it are mixed. A whole scale that repeats elements needs no
// positions. Filters of more elements, which reach beyond the edges, are weighed by their distances
// from there. If they are many, or the run alone tells how many they are, they are a dimension that
// is summed over. Policies that keep the aspect ratio have one scale for all axes, which the run
// computes of all sizes; positions follow from it.
#include "compiler/graph/ResizeCode.h"
#include "compiler/graph/Bounds.h"
#include "compiler/graph/ChannelOrder.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/GraphCode.h"
#include "reference/Resampling.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

using reference::ResizedAxis;

/// Of an axis; cubic interpolation takes 4.
constexpr int64_t kMostGathers = 6;

/// A constant operand; no tensor where there is none, nothing where it isn't known.
std::optional<HostTensor> known(Value operand) {
  if (GraphCode::isAbsent(operand))
    return HostTensor();
  auto constant = operand.getDefiningOp<ConstantOp>();
  auto tensor = constant ? hostTensor(constant.getValue())
                         : Result<HostTensor>(Status(StatusCode::Unsupported, "not a constant"));
  return tensor.ok() ? std::optional(*tensor) : std::nullopt;
}

/// What each axis of x is made of. A dimension that stays as it is may be of any size, so 1.
Result<std::vector<ResizedAxis>> axesOf(const GraphCode &code, ResizeOp op) {
  Status unknown(StatusCode::Unsupported, "sizes that the run alone tells");
  std::vector<HostTensor> operands(1);
  for (Value operand : llvm::drop_begin(op->getOperands())) {
    auto tensor = known(operand);
    if (!tensor)
      return unknown;
    operands.push_back(std::move(*tensor));
  }
  Shape shape;
  auto from = code.dims(op.getX()), to = code.dims(op.getY());
  for (auto [before, after] : llvm::zip_equal(from, to)) {
    auto size = dyn_cast<AffineConstantExpr>(before);
    if (!size && before != after)
      return unknown;
    shape.push_back(size ? size.getValue() : 1);
  }
  Attributes attributes = graph::attributes(op);
  auto axes = reference::resizedAxes({"resize", attributes, operands, {}}, shape);
  // A crop changes what keeps its size.
  bool areKnown = axes.ok() && llvm::all_of(*axes, [&](const ResizedAxis &axis) {
                    return isa<AffineConstantExpr>(from[axis.axis]);
                  });
  return areKnown || !axes.ok() ? axes : unknown;
}

/// One position and one weight of each element of an axis.
struct Tap {
  std::vector<int64_t> positions;
  std::vector<double> weights;

  bool isPlain() const {
    return llvm::all_of(weights, [](double weight) { return weight == 1; });
  }
};

/// The k-th of all elements. One that has fewer, or none there, weighs another by nothing.
Tap tapOf(const ResizedAxis &axis, size_t k) {
  Tap tap;
  for (const auto &taps : axis.elements) {
    tap.positions.push_back(taps.positions[k < taps.positions.size() ? k : 0]);
    tap.weights.push_back(k < taps.weights.size() ? taps.weights[k] : 0);
  }
  return tap;
}

Value vectorOf(const GraphCode &code, Type element, ArrayRef<double> values) {
  HostTensor tensor(graph::dataType(element), {int64_t(values.size())});
  for (size_t i = 0; i < values.size(); ++i)
    tensor.setDouble(int64_t(i), values[i]);
  return code.graph.constant(tensor);
}

/// How often each element is repeated, where that is all that is done; else 0.
int64_t repeatsOf(ArrayRef<int64_t> positions, int64_t size) {
  int64_t times = size ? int64_t(positions.size()) / size : 0;
  for (auto [i, position] : llvm::enumerate(positions))
    if (times == 0 || position != int64_t(i) / times)
      return 0;
  return times;
}

/// One axis: x as [outer, size, inner], whose rows are as long as can be.
class AxisCode {
public:
  AxisCode(const GraphCode &code, Value x, const ResizedAxis &axis)
      : code_(code), axis_(axis), dims_(code.dims(x)),
        size_(cast<AffineConstantExpr>(dims_[axis.axis]).getValue()) {
    auto &shapes = code.graph.shapes;
    auto all = ArrayRef(dims_);
    isLast_ = axis.axis + 1 == all.size();
    x_ = code.reshape(x, {shapes.product(all.take_front(axis.axis)), code.size(size_),
                          shapes.product(all.drop_front(axis.axis + 1))});
  }

  Value run() {
    size_t most = 0;
    for (const auto &taps : axis_.elements)
      most = std::max(most, taps.positions.size());
    // Elements that lie apart are gathered one by one, unless they are only moved.
    bool isProduct = int64_t(most) > kMostGathers || (isLast_ && most > 1);
    Value y = isProduct ? multiplied() : sumOfTaps(most);
    GraphCode::Dims to = dims_;
    to[axis_.axis] = code_.size(int64_t(axis_.elements.size()));
    return code_.reshape(y, to);
  }

private:
  Value sumOfTaps(size_t count) {
    Value sum;
    for (size_t k = 0; k < count; ++k) {
      Tap tap = tapOf(axis_, k);
      if (llvm::all_of(tap.weights, [](double weight) { return weight == 0; }))
        continue;
      Value part = weighted(tap);
      sum = sum ? code_.add(sum, part) : part;
      if (!sum)
        return sum;
    }
    return sum;
  }

  /// The elements times the weights; what weighs nothing counts for nothing, infinities too.
  Value weighted(const Tap &tap) {
    Value elements = gathered(tap.positions);
    if (!elements || tap.isPlain())
      return elements;
    Value weights =
        code_.alongDimension(vectorOf(code_, GraphCode::element(x_), tap.weights), 1, 3);
    Value product = code_.mul(elements, weights);
    if (!llvm::is_contained(tap.weights, 0.0))
      return product;
    Value zero = code_.scalar(x_, 0);
    return code_.where(code_.op("graph.equal", {weights, zero}), zero, product);
  }

  Value gathered(ArrayRef<int64_t> positions) {
    if (int64_t times = repeatsOf(positions, size_))
      return repeated(code_, x_, 1, times);
    HostTensor indices(DataType::I64, {int64_t(positions.size())});
    for (auto [i, position] : llvm::enumerate(positions))
      indices.setInt(int64_t(i), position);
    return code_.op("graph.gather", {x_, code_.graph.constant(indices)},
                    {code_.integer("axis", 1)});
  }

  /// The matrix of all weights times x, or x times its transpose where nothing lies behind the
  /// axis.
  Value multiplied() {
    int64_t to = int64_t(axis_.elements.size());
    HostTensor matrix(graph::dataType(GraphCode::element(x_)),
                      isLast_ ? Shape{size_, to} : Shape{to, size_});
    for (auto [row, taps] : llvm::enumerate(axis_.elements))
      for (auto [position, weight] : llvm::zip_equal(taps.positions, taps.weights)) {
        int64_t at = isLast_ ? position * to + int64_t(row) : int64_t(row) * size_ + position;
        matrix.setDouble(at, matrix.getDouble(at) + weight);
      }
    Value weights = code_.graph.constant(matrix);
    if (!isLast_)
      return code_.matmul(weights, x_);
    GraphCode::Dims dims = code_.dims(x_);
    return code_.matmul(code_.reshape(x_, {dims[0], dims[1]}), weights);
  }

  const GraphCode &code_;
  const ResizedAxis &axis_;
  GraphCode::Dims dims_;
  int64_t size_;
  bool isLast_ = false;
  Value x_;
};

/// Whether the channels of pictures are so many that vectors of them are moved at once.
template <typename Axis>
bool channelsTogether(const GraphCode &code, Value x, ArrayRef<Axis> axes) {
  constexpr int64_t kFewChannels = 8;
  GraphCode::Dims dims = code.dims(x);
  auto channels = dims.size() > 2 ? dyn_cast<AffineConstantExpr>(dims[1]) : AffineConstantExpr();
  return channels && channels.getValue() >= kFewChannels &&
         llvm::all_of(axes, [](const Axis &axis) { return axis.axis >= 2; });
}

/// What an axis multiplies the elements by.
double growthOf(const GraphCode &code, Value x, const ResizedAxis &axis) {
  int64_t from = cast<AffineConstantExpr>(code.dims(x)[axis.axis]).getValue();
  return double(axis.elements.size()) / double(std::max<int64_t>(from, 1));
}

/// A dimension of which only the run knows the size, or the resized one.
struct OpenAxis {
  size_t axis;
  size_t position; // among the scales or sizes that are given
  AffineExpr to;   // null: as it is inferred
};

/// Resizing such dimensions of one operator.
class OpenResize {
public:
  OpenResize(const GraphCode &code, ResizeOp op) : code_(code), op_(op) {}

  /// The axes that change.
  std::optional<SmallVector<OpenAxis>> axes() {
    if (hasPolicy() && (isCrop() || GraphCode::isAbsent(op_.getSizes())))
      return std::nullopt;
    auto rank = int64_t(code_.dims(op_.getX()).size());
    if (rank < 2) // the vectors that this is made of
      return std::nullopt;
    SmallVector<int64_t> numbers = op_.getAxes() ? SmallVector<int64_t>(*op_.getAxes())
                                                 : llvm::to_vector(llvm::seq<int64_t>(0, rank));
    auto from = code_.dims(op_.getX()), to = code_.dims(op_.getY());
    SmallVector<OpenAxis> axes;
    for (auto [position, number] : llvm::enumerate(numbers)) {
      auto axis = size_t(number < 0 ? number + rank : number);
      if (code_.graph.shapes.equal(from[axis], to[axis]) && keepsSize(position) &&
          keepsAll(position, numbers.size()))
        continue;
      axes.push_back({axis, position, to[axis]});
    }
    count_ = numbers.size();
    if (hasPolicy() && !axes.empty())
      common_ = commonScale(axes);
    return hasPolicy() && !common_ ? std::nullopt : std::optional(axes);
  }

  Value run(Value x, ArrayRef<OpenAxis> axes) {
    for (const OpenAxis &axis : axes)
      x = along(x, axis);
    return x;
  }

private:
  /// Of a filter whose elements are read one by one.
  static constexpr double kMostTaps = 64;

  /// Whether the axes have one scale.
  bool hasPolicy() { return op_.getKeepAspectRatioPolicy() != "stretch"; }

  /// The least or the largest of what the sizes ask for, as a double. Resizing a vector refuses
  /// what is no size.
  Value commonScale(ArrayRef<OpenAxis> axes) {
    Type number = code_.builder.getF64Type();
    bool isLeast = op_.getKeepAspectRatioPolicy() == "not_larger";
    Value common;
    for (OpenAxis axis : axes) {
      Value numbers = code_.iota({code_.dims(op_.getX())[axis.axis]}, 0);
      axis.to = {};
      Value asked = placesOf(numbers, axis), in = code_.cast(code_.sizeOf(numbers, 0), number);
      if (!asked || !in)
        return {};
      Value scale = code_.div(code_.cast(code_.sizeOf(asked, 0), number), in);
      // Of what is empty nothing is asked.
      scale = code_.where(code_.op("graph.equal", {in, code_.scalar(in, 0)}), code_.scalar(in, 1),
                          scale);
      common = common ? code_.op(isLeast ? "graph.min" : "graph.max", {common, scale}) : scale;
    }
    return common;
  }

  bool isCrop() { return op_.getCoordinateTransformationMode() == "tf_crop_and_resize"; }
  bool isNearest() { return op_.getMode() == "nearest"; }
  /// Whether the two elements beside a place, within x, say it all.
  bool isMixed() {
    return op_.getMode() == "linear" && !op_.getExcludeOutside() && !op_.getAntialias();
  }

  /// Elements of x on either side that a filter reaches, where it is so much wider than the scale.
  double reachOf(double squeeze) { return std::ceil((op_.getMode() == "cubic" ? 2 : 1) / squeeze); }
  double tapsOf(double squeeze) {
    return isNearest() || isMixed() ? 1 : squeeze > 0 ? 2 * reachOf(squeeze) : kMostTaps + 1;
  }

  /// Whether a crop is of all there is along an axis.
  bool keepsAll(size_t position, size_t count) {
    auto roi = known(op_.getRoi());
    return !isCrop() ||
           (roi && size_t(roi->size()) == 2 * count && roi->getDouble(int64_t(position)) == 0 &&
            roi->getDouble(int64_t(position + count)) == 1);
  }

  /// By a size that is the dimension's own, or a scale of 1.
  bool keepsSize(size_t position) {
    return GraphCode::isAbsent(op_.getScales()) || scale(position) == 1;
  }

  /// The scale where it is a constant; else 0.
  double scale(size_t position) {
    auto scales = known(op_.getScales());
    return scales && int64_t(position) < scales->size() ? scales->getDouble(int64_t(position)) : 0;
  }

  /// How often each element of the axis is repeated, where that is all that is done; else 0.
  int64_t repeats(AffineExpr from, const OpenAxis &axis) {
    auto &shapes = code_.graph.shapes;
    AffineExpr ratio = shapes.simplify(axis.to.floorDiv(from));
    auto times = dyn_cast<AffineConstantExpr>(ratio);
    bool isWhole = times && times.getValue() > 1 && shapes.equal(from * times.getValue(), axis.to);
    double given = GraphCode::isAbsent(op_.getScales()) ? 0 : scale(axis.position);
    if (!isNearest() || !isWhole ||
        !(GraphCode::isAbsent(op_.getScales()) || given == double(times.getValue())))
      return 0;
    // In the middle of no two, and what lies between i and i + 1 is element i of `times` each.
    StringRef place = op_.getCoordinateTransformationMode(), nearest = op_.getNearestMode();
    bool isCentred = place == "half_pixel" || place == "pytorch_half_pixel";
    return (isCentred && nearest.starts_with("round")) ||
                   (place == "asymmetric" && nearest == "floor")
               ? times.getValue()
               : 0;
  }

  /// x as [outer, size, inner], whose rows are as long as can be.
  Value along(Value x, const OpenAxis &axis) {
    if (!x)
      return x;
    GraphCode::Dims dims = code_.dims(x), to = dims;
    AffineExpr size = dims[axis.axis];
    if (int64_t times = repeats(size, axis))
      return repeated(code_, x, int64_t(axis.axis), times);
    auto &shapes = code_.graph.shapes;
    auto all = ArrayRef(dims);
    Value rows = code_.reshape(x, {shapes.product(all.take_front(axis.axis)), size,
                                   shapes.product(all.drop_front(axis.axis + 1))});
    Value numbers = code_.iota({size}, 0);
    bool needsPlaces = isNearest() || isMixed() || isCrop();
    Value places, y;
    if (needsPlaces)
      places = hasPolicy() ? within(sourcesOf(numbers, axis), numbers) : placesOf(numbers, axis);
    else
      places = sourcesOf(numbers, axis);
    if (isNearest())
      y = gathered(rows,
                   isCrop() ? code_.op("graph.max", {places, code_.scalar(places, 0)}) : places);
    else
      y = isMixed() ? mixed(rows, places, numbers) : filtered(rows, places, numbers, axis);
    if (isCrop())
      y = withOutside(y, places);
    to[axis.axis] = axis.to;
    return code_.reshape(y, to);
  }

  /// What lies outside of x, which are the places of -1, has the value that is given for it.
  Value withOutside(Value y, Value places) {
    if (!y || !places)
      return {};
    Value isOutside = code_.op("graph.less", {places, code_.scalar(places, 0)});
    return code_.where(code_.alongDimension(isOutside, 1, 3),
                       code_.scalar(y, op_.getExtrapolationValue().convertToDouble()), y);
  }

  /// Where each element of the result lies among x's, which are numbered: a whole number, of the
  /// nearest, or a double. Outside of a crop it is -1.
  Value placesOf(Value numbers, const OpenAxis &axis) {
    if (!isNearest())
      numbers = code_.cast(numbers, code_.builder.getF64Type());
    auto &builder = code_.builder;
    SmallVector<NamedAttribute> attributes{
        code_.integers("axes", {0}),
        builder.getNamedAttr("mode", builder.getStringAttr(isNearest() ? "nearest" : "linear")),
        builder.getNamedAttr("extrapolation_value", builder.getF64FloatAttr(-1))};
    for (StringRef name : {"coordinate_transformation_mode", "nearest_mode"})
      if (mlir::Attribute value = op_->getAttr(name))
        attributes.push_back(builder.getNamedAttr(name, value));
    Value roi = code_.graph.none();
    if (isCrop())
      roi = code_.concat(
          {own(op_.getRoi(), axis.position), own(op_.getRoi(), axis.position + count_)}, 0);
    Value places = code_.op(
        "graph.resize",
        {numbers, roi, own(op_.getScales(), axis.position), own(op_.getSizes(), axis.position)},
        attributes);
    if (places && axis.to)
      places.setType(code_.graph.shapes.tensorType(GraphCode::element(places), {axis.to}));
    return places;
  }

  /// Places of a resized vector made of what may lie beyond its edges: nearestTap in
  /// reference/Resize.cpp.
  Value within(Value sources, Value numbers) {
    if (!sources)
      return sources;
    Type number = GraphCode::element(sources);
    Value low = code_.unary("graph.floor", sources), places = sources;
    StringRef rule = op_.getNearestMode();
    if (isNearest() && rule == "floor")
      places = low;
    else if (isNearest() && rule == "ceil")
      places = code_.unary("graph.ceil", sources);
    else if (isNearest())
      places =
          code_.add(low, code_.cast(code_.op(rule == "round_prefer_ceil" ? "graph.greater_or_equal"
                                                                         : "graph.greater",
                                             {code_.sub(sources, low), code_.scalar(sources, 0.5)}),
                                    number));
    Value last = code_.add(code_.cast(code_.sizeOf(numbers, 0), number), -1);
    places = code_.op("graph.max", {code_.op("graph.min", {places, last}), code_.scalar(low, 0)});
    return isNearest() ? code_.cast(places, code_.builder.getI64Type()) : places;
  }

  /// The axis' own scale or size.
  Value own(Value all, size_t position) {
    if (GraphCode::isAbsent(all))
      return code_.graph.none();
    if (auto tensor = known(all); tensor && int64_t(position) < tensor->size()) {
      HostTensor one(tensor->type(), {1});
      if (isFloat(tensor->type()))
        one.setDouble(0, tensor->getDouble(int64_t(position)));
      else
        one.setInt(0, tensor->getInt(int64_t(position)));
      return code_.graph.constant(one);
    }
    return code_.slice(all, {int64_t(position)}, {code_.size(1)});
  }

  /// The same of all modes but crops, as a double that may lie beyond the edges: sourceOf in
  /// reference/Resize.cpp.
  Value sourcesOf(Value numbers, const OpenAxis &axis) {
    Type number = code_.builder.getF64Type();
    // How many there are may be told by resizing alone.
    Type integer = code_.builder.getI64Type();
    Value in = code_.cast(code_.sizeOf(numbers, 0), number);
    Value count =
        hasPolicy() ? code_.cast(code_.unary("graph.floor", code_.add(code_.mul(common_, in), 0.5)),
                                 integer)
                    : code_.sizeOf(placesOf(numbers, axis), 0);
    Value at = code_.op("graph.range",
                        {code_.graph.scalar(integer, 0), count, code_.graph.scalar(integer, 1)});
    if (!at)
      return at;
    at.setType(code_.graph.shapes.tensorType(integer, {axis.to}));
    at = code_.cast(at, number);
    Value out = code_.cast(count, number);
    Value scale = scaleOf(axis, in, out), width = code_.mul(scale, in);
    StringRef mode = op_.getCoordinateTransformationMode();
    if (!at || !width)
      return {};
    Value one = code_.scalar(at, 1), zero = code_.scalar(at, 0);
    if (mode == "align_corners") // of one element there is no last
      return code_.where(code_.op("graph.equal", {width, one}), zero,
                         code_.div(code_.mul(at, code_.add(in, -1)), code_.add(width, -1)));
    if (mode == "asymmetric")
      return code_.div(at, scale);
    Value centred = code_.add(code_.div(code_.add(at, 0.5), scale), -0.5);
    if (mode == "pytorch_half_pixel")
      return code_.where(code_.op("graph.greater", {out, one}), centred, zero);
    if (mode == "half_pixel_symmetric")
      return code_.add(code_.mul(code_.mul(in, 0.5), code_.sub(one, code_.div(out, width))),
                       centred);
    return centred;
  }

  /// As a double: the one that is given, or that of the sizes.
  Value scaleOf(const OpenAxis &axis, Value in, Value out) {
    if (hasPolicy())
      return common_;
    if (GraphCode::isAbsent(op_.getScales()))
      return code_.div(out, in);
    return code_.reshape(
        code_.cast(own(op_.getScales(), axis.position), code_.builder.getF64Type()), {});
  }

  /// What a filter gives an element at that distance, in elements of x or of the result.
  Value weightOf(Value distance) {
    Value x = code_.unary("graph.abs", distance);
    if (!x)
      return x;
    Value one = code_.scalar(x, 1), zero = code_.scalar(x, 0);
    if (op_.getMode() == "linear")
      return code_.op("graph.max", {zero, code_.sub(one, x)});
    double a = op_.getCubicCoeffA().convertToDouble();
    auto polynomial = [&](std::initializer_list<double> coefficients) {
      Value sum = zero;
      for (double coefficient : coefficients)
        sum = code_.add(code_.mul(sum, x), coefficient);
      return sum;
    };
    Value near = polynomial({a + 2, -(a + 3), 0, 1}), far = polynomial({a, -5 * a, 8 * a, -4 * a});
    return code_.where(code_.op("graph.less_or_equal", {x, one}), near,
                       code_.where(code_.op("graph.less", {x, code_.scalar(x, 2)}), far, zero));
  }

  /// The elements from first + k on, a vector for each k, and their weights.
  struct Filter {
    SmallVector<Value> positions, weights;
  };

  /// Positions may lie beyond the edges, where the elements at the edges are read.
  Filter filterAt(Value sources, Value numbers, double squeeze) {
    double reach = reachOf(squeeze);
    // An element that is hit exactly is the right one of the two.
    Value left = code_.unary("graph.ceil", sources), sum;
    Value size = code_.cast(code_.sizeOf(numbers, 0), GraphCode::element(left));
    Filter filter;
    for (double k = 0; k < 2 * reach; ++k) {
      Value position = code_.add(left, k - reach);
      Value weight = weightOf(code_.mul(code_.sub(position, sources), squeeze));
      if (op_.getExcludeOutside() && weight) {
        Value zero = code_.scalar(position, 0);
        Value isInside =
            code_.op("graph.and", {code_.op("graph.greater_or_equal", {position, zero}),
                                   code_.op("graph.less", {position, size})});
        weight = code_.where(isInside, weight, zero);
      }
      sum = sum ? code_.add(sum, weight) : weight;
      filter.positions.push_back(position);
      filter.weights.push_back(weight);
    }
    bool isNormal = op_.getExcludeOutside() || op_.getAntialias();
    for (Value &weight : filter.weights)
      if (isNormal && sum)
        weight = code_.where(code_.op("graph.equal", {sum, code_.scalar(sum, 0)}), weight,
                             code_.div(weight, sum));
    return filter;
  }

  /// What weighs nothing counts for nothing, infinities too.
  Value filtered(Value rows, Value sources, Value numbers, const OpenAxis &axis) {
    if (!sources)
      return {};
    double squeeze = op_.getAntialias() ? std::min(scale(axis.position), 1.0) : 1;
    if (tapsOf(squeeze) > kMostTaps)
      return filteredAlong(rows, sources, numbers, axis);
    Filter filter = filterAt(sources, numbers, squeeze);
    Type element = GraphCode::element(rows), number = code_.builder.getI64Type();
    Value last = code_.add(code_.sizeOf(numbers, 0), -1), sum;
    for (auto [position, weight] : llvm::zip_equal(filter.positions, filter.weights)) {
      if (!position || !weight)
        return {};
      Value zero = code_.scalar(rows, 0), first = code_.graph.scalar(number, 0);
      Value inside = code_.op("graph.min", {code_.cast(position, number), last});
      Value part = gathered(rows, code_.op("graph.max", {inside, first}));
      Value share = code_.alongDimension(code_.cast(weight, element), 1, 3);
      Value product =
          code_.where(code_.op("graph.equal", {share, zero}), zero, code_.mul(part, share));
      sum = sum ? code_.add(sum, product) : product;
    }
    return sum;
  }

  /// The same with the elements of a filter as a dimension. Of an antialiased axis only the run may
  /// know how many they are.
  Value filteredAlong(Value rows, Value sources, Value numbers, const OpenAxis &axis) {
    auto &shapes = code_.graph.shapes;
    Type number = code_.builder.getF64Type(), integer = code_.builder.getI64Type();
    Value in = code_.cast(code_.sizeOf(numbers, 0), number);
    Value out = code_.cast(code_.sizeOf(sources, 0), number), scale = scaleOf(axis, in, out);
    // A result with an element has at least half of 1 / in as scale: of none the filter is as
    // short.
    Value one = code_.scalar(in, 1);
    Value least = code_.op("graph.min", {code_.div(code_.scalar(in, 0.5), in), one});
    Value squeeze = code_.op("graph.max", {code_.op("graph.min", {scale, one}), least});
    Value reach = code_.unary(
        "graph.ceil", code_.div(code_.scalar(in, op_.getMode() == "cubic" ? 2 : 1), squeeze));
    Value count = code_.cast(code_.mul(reach, code_.scalar(in, 2)), integer);
    Value numbersOfTaps = code_.op(
        "graph.range", {code_.graph.scalar(integer, 0), count, code_.graph.scalar(integer, 1)});
    if (!numbersOfTaps)
      return {};
    AffineExpr taps = shapes.freshSymbol("taps");
    numbersOfTaps.setType(shapes.tensorType(integer, {taps}));
    Value from = code_.alongDimension(sources, 0, 2);
    Value position =
        code_.add(code_.unary("graph.ceil", from),
                  code_.sub(code_.alongDimension(code_.cast(numbersOfTaps, number), 1, 2), reach));
    Value weight = weightOf(code_.mul(code_.sub(position, from), squeeze));
    if (!weight)
      return {};
    Value zero = code_.scalar(position, 0), last = code_.add(in, -1);
    if (op_.getExcludeOutside())
      weight =
          code_.where(code_.op("graph.and", {code_.op("graph.greater_or_equal", {position, zero}),
                                             code_.op("graph.less_or_equal", {position, last})}),
                      weight, zero);
    Value sum = code_.reduce("graph.reduce_sum", weight, {1}, true);
    weight = code_.where(code_.op("graph.equal", {sum, zero}), weight, code_.div(weight, sum));
    Value inside = code_.op("graph.max", {code_.op("graph.min", {position, last}), zero});
    Value parts = gathered(rows, code_.cast(inside, integer)); // [outer, to, taps, inner]
    Value share = code_.reshape(code_.cast(weight, GraphCode::element(rows)),
                                {code_.size(1), axis.to, taps, code_.size(1)});
    Value nothing = code_.scalar(rows, 0);
    return code_.reduce(
        "graph.reduce_sum",
        code_.where(code_.op("graph.equal", {share, nothing}), nothing, code_.mul(parts, share)),
        {2}, false);
  }

  /// Places are within x: as the reference makes them, but for crops, or kept within.
  Value gathered(Value rows, Value places) {
    Value y = code_.op("graph.gather", {rows, places}, {code_.integer("axis", 1)});
    if (y)
      y.getDefiningOp()->setAttr(kInRange, code_.builder.getUnitAttr());
    return y;
  }

  /// What weighs nothing counts for nothing, infinities too.
  Value mixed(Value rows, Value places, Value numbers) {
    Type element = GraphCode::element(rows), number = code_.builder.getI64Type();
    Value low = code_.unary("graph.floor", places);
    Value part = code_.cast(places ? code_.sub(places, low) : places, element);
    // The element behind the last one is the last one, and a place may be rounded up.
    Value last = code_.add(code_.sizeOf(numbers, 0), -1);
    Value first = code_.op("graph.min", {code_.cast(low, number), last});
    if (isCrop() && first) // what lies outside is read somewhere, and not used
      first = code_.op("graph.max", {first, code_.scalar(first, 0)});
    Value second = code_.op("graph.min", {code_.add(first, 1), last});
    Value weight = code_.alongDimension(part, 1, 3);
    if (!weight)
      return weight;
    Value before = gathered(rows, first), behind = gathered(rows, second);
    Value zero = code_.scalar(rows, 0), rest = code_.sub(code_.scalar(rows, 1), weight);
    Value sum = code_.add(code_.mul(before, rest), code_.mul(behind, weight));
    return code_.where(code_.op("graph.equal", {weight, zero}), before, sum);
  }

  const GraphCode &code_;
  ResizeOp op_;
  size_t count_ = 0; // of axes that are given
  Value common_;     // the scale of all axes, where they have one
};

} // namespace

Value repeated(const GraphCode &code, Value x, int64_t dim, int64_t times) {
  if (!x || times == 1)
    return x;
  GraphCode::Dims apart = code.dims(x), joined = apart;
  apart.insert(apart.begin() + dim + 1, code.size(1));
  GraphCode::Dims more = apart;
  more[dim + 1] = code.size(times);
  joined[dim] = code.graph.shapes.simplify(joined[dim] * times);
  return code.reshape(code.broadcast(code.reshape(x, apart), more), joined);
}

static LogicalResult decomposeOpen(const GraphCode &code, ResizeOp op,
                                   SmallVectorImpl<Value> &results) {
  OpenResize resize(code, op);
  auto axes = resize.axes();
  if (!axes)
    return failure();
  Value x = op.getX(), y = op.getMode() == "nearest" ? x : code.widen(x);
  int64_t rank = GraphCode::rank(x);
  bool isTurned = channelsTogether<OpenAxis>(code, x, *axes);
  // Rows are longest where the last axis comes first.
  std::reverse(axes->begin(), axes->end());
  if (isTurned) {
    y = code.transpose(y, toChannelsLast(rank));
    for (OpenAxis &axis : *axes)
      --axis.axis;
  }
  y = resize.run(y, *axes);
  if (isTurned)
    y = code.transpose(y, toChannelsFirst(rank));
  return finish(code.cast(y, GraphCode::element(x)), results);
}

LogicalResult ResizeOp::decompose(GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  GraphCode code(graph);
  Value x = getX();
  bool isNearest = getMode() == "nearest";
  if (!GraphCode::isRanked(x) || !GraphCode::isRanked(getY()) ||
      (!isNearest && !isa<FloatType>(GraphCode::element(x))))
    return failure();
  auto axes = axesOf(code, *this);
  if (!axes.ok())
    return decomposeOpen(code, *this, results);
  // The least work is where axes that shrink come first, and of others the last one.
  std::stable_sort(axes->begin(), axes->end(), [&](const ResizedAxis &a, const ResizedAxis &b) {
    double own = growthOf(code, x, a), other = growthOf(code, x, b);
    return own != other ? own < other : a.axis > b.axis;
  });
  Value y = isNearest ? x : code.widen(x);
  bool isTurned = channelsTogether<ResizedAxis>(code, x, *axes);
  int64_t rank = GraphCode::rank(x);
  if (isTurned) {
    y = code.transpose(y, toChannelsLast(rank));
    for (ResizedAxis &axis : *axes)
      --axis.axis;
  }
  for (const ResizedAxis &axis : *axes)
    y = y ? AxisCode(code, y, axis).run() : y;
  if (isTurned)
    y = code.transpose(y, toChannelsFirst(rank));
  return finish(code.cast(y, GraphCode::element(x)), results);
}

} // namespace tensmith::graph

// Normalisations as smaller operators (Decomposable::decompose).
//
// Halves are computed in f32 and rounded once at the end. Variances are of the differences from the
// mean, in a second pass: E[x^2] - E[x]^2 cancels.
#include "compiler/graph/GraphCode.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace tensmith::graph {

namespace {
SmallVector<int64_t> axesFrom(int64_t first, int64_t rank) {
  return llvm::to_vector(llvm::seq<int64_t>(first, std::max(first, rank)));
}

struct Moments {
  Value mean, centred, inverseDeviation;
};

Moments momentsOf(const GraphCode &code, Value x, llvm::function_ref<Value(Value)> mean,
                  double epsilon) {
  Moments moments;
  moments.mean = mean(x);
  moments.centred = code.sub(x, moments.mean);
  Value variance = mean(code.mul(moments.centred, moments.centred));
  moments.inverseDeviation = code.rsqrt(code.add(variance, epsilon));
  return moments;
}

/// The mean of each channel (dimension 1), of lines and then of these: there are as many sums at a
/// time as cores need, wherever the channels lie in memory.
Value meanOfChannels(const GraphCode &code, Value x) {
  int64_t rank = GraphCode::isRanked(x) ? GraphCode::rank(x) : 0;
  if (rank > 2)
    x = code.mean(x, rank - 1);
  return rank > 3 ? code.mean(x, axesFrom(2, rank - 1)) : x;
}

/// The mean of each group of channels, for each of its channels: made of the channels' own, so that
/// the image is never seen in another shape.
Value meanOfGroups(const GraphCode &code, Value x, int64_t groups) {
  x = meanOfChannels(code, x);
  if (!GraphCode::isRanked(x))
    return {};
  GraphCode::Dims dims = code.dims(x);
  if (dims[1] == code.size(groups))
    return x;
  AffineExpr ofGroup = code.graph.shapes.simplify(dims[1].floorDiv(groups));
  SmallVector<AffineExpr> grouped{dims[0], code.size(groups), ofGroup};
  Value mean = code.mean(code.reshape(x, grouped), 2);
  return code.reshape(code.broadcast(mean, grouped), dims);
}

/// x - max(x), whose largest exponential is 1.
Value shiftedByMaximum(const GraphCode &code, Value x, int64_t axis) {
  return code.sub(x, code.reduce("graph.reduce_max", x, axis, true));
}

/// A vector of one element for each channel (dimension 1), widened and shaped to broadcast.
Value perChannel(const GraphCode &code, Value vector, int64_t rank) {
  return code.alongDimension(code.widen(vector), 1, rank);
}

template <typename... Values> bool areRanked(Values... values) {
  return (GraphCode::isRanked(values) && ...);
}
} // namespace

// exp(x - max) / sum(exp(x - max))
LogicalResult SoftmaxOp::decompose(GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  if (!areRanked(getX()))
    return failure();
  GraphCode code(graph);
  Value x = code.widen(getX());
  Value exponentials = code.unary("graph.exp", shiftedByMaximum(code, x, getAxis()));
  Value sum = code.reduce("graph.reduce_sum", exponentials, int64_t(getAxis()), true);
  return finish(code.cast(code.div(exponentials, sum), GraphCode::element(getX())), results);
}

// (x - max) - log(sum(exp(x - max)))
LogicalResult LogSoftmaxOp::decompose(GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  if (!areRanked(getX()))
    return failure();
  GraphCode code(graph);
  Value shifted = shiftedByMaximum(code, code.widen(getX()), getAxis());
  Value sum =
      code.reduce("graph.reduce_sum", code.unary("graph.exp", shifted), int64_t(getAxis()), true);
  Value y = code.sub(shifted, code.unary("graph.log", sum));
  return finish(code.cast(y, GraphCode::element(getX())), results);
}

/// The scale or bias with the dimensions of x that it lies along: of an open size it is known to be
/// 1 or x's, and so is the result's.
static Value alongDimensionsOf(const GraphCode &code, Value parameter, Value x) {
  if (!parameter || !x || cast<RankedTensorType>(parameter.getType()).hasStaticShape() ||
      GraphCode::rank(parameter) > GraphCode::rank(x))
    return parameter;
  auto dims = code.dims(x);
  return code.broadcast(parameter,
                        ArrayRef<AffineExpr>(dims).take_back(size_t(GraphCode::rank(parameter))));
}

LogicalResult LayerNormOp::decompose(GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  if (!areRanked(getX(), getScale()))
    return failure();
  GraphCode code(graph);
  Value x = code.widen(getX());
  SmallVector<int64_t> axes = axesFrom(getAxis(), GraphCode::rank(x));
  auto mean = [&](Value v) { return code.mean(v, axes); };
  Moments moments = momentsOf(code, x, mean, getEpsilon().convertToDouble());
  Value y = code.mul(moments.centred, moments.inverseDeviation);
  y = code.mul(y, alongDimensionsOf(code, code.widen(getScale()), y));
  if (!GraphCode::isAbsent(getBias()))
    y = code.add(y, alongDimensionsOf(code, code.widen(getBias()), y));
  return finish({code.cast(y, GraphCode::element(getY())),
                 code.cast(moments.mean, GraphCode::element(getMean())),
                 code.cast(moments.inverseDeviation, GraphCode::element(getInverseDeviation()))},
                results);
}

LogicalResult RmsNormOp::decompose(GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  if (!areRanked(getX(), getScale()))
    return failure();
  GraphCode code(graph);
  Value x = code.widen(getX());
  Value square = code.mean(code.mul(x, x), axesFrom(getAxis(), GraphCode::rank(x)));
  Value inverse = code.rsqrt(code.add(square, getEpsilon().convertToDouble()));
  Value y = code.mul(code.mul(x, inverse), alongDimensionsOf(code, code.widen(getScale()), x));
  return finish(code.cast(y, GraphCode::element(getY())), results);
}

// One factor and one summand for each channel, which fold into constants and then into the
// convolution before.
LogicalResult BatchNormOp::decompose(GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  if (!areRanked(getX(), getScale(), getBias(), getMean(), getVariance()) ||
      GraphCode::rank(getX()) < 2)
    return failure();
  GraphCode code(graph);
  Value x = code.widen(getX());
  Type type = GraphCode::element(x);
  auto parameter = [&](Value v) { return code.cast(code.widen(v), type); };
  Value inverse = code.rsqrt(code.add(parameter(getVariance()), getEpsilon().convertToDouble()));
  Value factor = code.mul(parameter(getScale()), inverse);
  Value summand = code.sub(parameter(getBias()), code.mul(parameter(getMean()), factor));
  int64_t rank = GraphCode::rank(x);
  Value y = code.add(code.mul(x, code.alongDimension(factor, 1, rank)),
                     code.alongDimension(summand, 1, rank));
  return finish(code.cast(y, GraphCode::element(getY())), results);
}

LogicalResult InstanceNormOp::decompose(GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  if (!areRanked(getX(), getScale(), getBias()) || GraphCode::rank(getX()) < 3)
    return failure();
  GraphCode code(graph);
  Value x = code.widen(getX());
  int64_t rank = GraphCode::rank(x);
  auto mean = [&](Value v) { return meanOfChannels(code, v); };
  Moments moments = momentsOf(code, x, mean, getEpsilon().convertToDouble());
  Value factor = code.mul(moments.inverseDeviation, perChannel(code, getScale(), rank));
  Value y = code.add(code.mul(moments.centred, factor), perChannel(code, getBias(), rank));
  return finish(code.cast(y, GraphCode::element(getY())), results);
}

LogicalResult GroupNormOp::decompose(GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  if (!areRanked(getX(), getScale(), getBias()) || GraphCode::rank(getX()) < 2 || getGroups() < 1)
    return failure();
  GraphCode code(graph);
  Value x = code.widen(getX());
  int64_t rank = GraphCode::rank(x), groups = getGroups();
  auto channels = dyn_cast<AffineConstantExpr>(code.dims(x)[1]);
  if (channels && channels.getValue() % groups != 0)
    return failure();
  auto mean = [&](Value v) { return meanOfGroups(code, v, groups); };
  Moments moments = momentsOf(code, x, mean, getEpsilon().convertToDouble());
  Value factor = code.mul(moments.inverseDeviation, perChannel(code, getScale(), rank));
  Value y = code.add(code.mul(moments.centred, factor), perChannel(code, getBias(), rank));
  return finish(code.cast(y, GraphCode::element(getY())), results);
}

// The window over channels is short: as many slices of the padded squares as it has elements.
LogicalResult LrnOp::decompose(GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  constexpr int64_t kLongestWindow = 64;
  int64_t window = getSize();
  if (!areRanked(getX()) || GraphCode::rank(getX()) < 2 || window < 1 || window > kLongestWindow)
    return failure();
  GraphCode code(graph);
  Value x = code.widen(getX());
  int64_t rank = GraphCode::rank(x);
  SmallVector<int64_t> low(rank, 0), high(rank, 0), starts(rank, 0);
  low[1] = (window - 1) / 2;
  high[1] = window - 1 - low[1];
  Value padded = code.op("graph.pad", {code.mul(x, x), graph.none()},
                         {code.integers("low", low), code.integers("high", high)});
  Value sum;
  for (starts[1] = 0; starts[1] < window; ++starts[1]) {
    Value part = code.slice(padded, starts, code.dims(x));
    sum = sum ? code.add(sum, part) : part;
  }
  double alpha = getAlpha().convertToDouble() / double(window);
  Value base = code.add(code.mul(sum, alpha), getBias().convertToDouble());
  Value divisor = code.op("graph.pow", {base, code.scalar(x, getBeta().convertToDouble())});
  return finish(code.cast(code.div(x, divisor), GraphCode::element(getY())), results);
}

} // namespace tensmith::graph

// Recognises layers by what their parameters are used for, and measures what goes into them; see
// Layers.h.
#include "compiler/training/Layers.h"

#include "compiler/graph/WindowGradient.h"

using namespace mlir;

namespace tensmith::training {
namespace {

using graph::GraphCode;

/// In the value's own block: what a branch or a loop does with it is done any number of times.
Operation *onlyUser(Value value) {
  Operation *user = value.hasOneUse() ? *value.user_begin() : nullptr;
  return user && user->getBlock() == value.getParentBlock() ? user : nullptr;
}

/// A bias that is added to the result of a product, the same for all rows.
std::optional<Parameter> biasBehind(Value product, ArrayRef<Parameter> parameters,
                                    int64_t outputs) {
  auto sum = dyn_cast_or_null<graph::AddOp>(onlyUser(product));
  for (const Parameter &parameter : parameters) {
    auto type = cast<RankedTensorType>(parameter.state.getType());
    if (sum && onlyUser(parameter.state) == sum && sum.getResult().getType() == product.getType() &&
        type.hasStaticShape() && type.getNumElements() == outputs && type.getRank() > 0 &&
        type.getShape().back() == outputs)
      return parameter;
  }
  return std::nullopt;
}

std::optional<Layer> denseLayer(const Parameter &weights, ArrayRef<Parameter> parameters) {
  Value matrix = weights.state;
  auto transpose = dyn_cast_or_null<graph::TransposeOp>(onlyUser(matrix));
  if (transpose && transpose.getPermutation() != ArrayRef<int64_t>{1, 0})
    return std::nullopt;
  if (transpose)
    matrix = transpose.getResult();
  auto product = dyn_cast_or_null<graph::MatMulOp>(onlyUser(matrix));
  if (!product || product.getB() != matrix || !GraphCode::isRanked(product.getC()) ||
      GraphCode::rank(product.getA()) < 2)
    return std::nullopt;
  auto type = cast<RankedTensorType>(matrix.getType());
  if (type.getRank() != 2)
    return std::nullopt;
  return Layer{weights,        biasBehind(product.getC(), parameters, type.getDimSize(1)),
               !transpose,     type.getDimSize(0),
               product.getA(), product};
}

std::optional<Layer> convolution(const Parameter &weights, ArrayRef<Parameter> parameters) {
  auto conv = dyn_cast_or_null<graph::ConvOp>(onlyUser(weights.state));
  if (!conv || conv.getW() != weights.state || graph::isChannelsLast(conv) ||
      !GraphCode::isRanked(conv.getX()) || !GraphCode::isRanked(conv.getY()))
    return std::nullopt;
  auto type = cast<RankedTensorType>(weights.state.getType());
  Layer layer{weights,
              std::nullopt,
              false,
              type.getNumElements() / type.getDimSize(0),
              conv.getX(),
              conv,
              int64_t(conv.getGroup())};
  for (const Parameter &bias : parameters)
    if (conv.getBias() == bias.state && onlyUser(bias.state) == conv)
      layer.bias = bias;
  return layer;
}

std::optional<Layer> table(const Parameter &weights) {
  auto gather = dyn_cast_or_null<graph::GatherOp>(onlyUser(weights.state));
  auto type = cast<RankedTensorType>(weights.state.getType());
  if (!gather || gather.getX() != weights.state || gather.getAxis() != 0 || type.getRank() != 2 ||
      !GraphCode::isRanked(gather.getIndices()))
    return std::nullopt;
  return Layer{weights, std::nullopt, true, type.getDimSize(0), gather.getIndices(), gather};
}

GraphCode::Dims statisticsOf(const Layer &layer, const GraphCode &code) {
  return {code.size(layer.groups), code.size(layer.inputs)};
}

Value zeros(const Layer &layer, const GraphCode &code, Value like) {
  return like ? code.broadcast(code.scalar(like, 0), statisticsOf(layer, code)) : like;
}

/// Over all samples and positions, of the elements that each position of the window sees.
Moments patchMoments(const Layer &layer, const graph::GradientCode &code) {
  auto weights = cast<RankedTensorType>(layer.weights.state.getType());
  SmallVector<int64_t> kernel(weights.getShape().drop_front(2)), spatial;
  graph::windows::Windows windows = graph::windows::windowsOf(layer.op, kernel);
  Value x = code.widen(layer.values);
  for (int64_t dim = 2; dim < GraphCode::rank(x); ++dim)
    spatial.push_back(dim);
  SmallVector<int64_t> all{0};
  llvm::append_range(all, spatial);
  auto meanOf = [&](Value value, ArrayRef<int64_t> axes) {
    for (int64_t axis : axes)
      value = value ? code.mean(value, {axis}) : value;
    return value;
  };
  // Around the channels' means, so that the squares are no larger than they have to be.
  Value centre = layer.bias ? meanOf(x, all) : Value();
  Value image = graph::windows::padded(code, x, windows);
  if (layer.bias)
    image = code.sub(image, centre);
  Value sums = meanOf(image, {0}), squares = meanOf(code.mul(image, image), {0});
  GraphCode::Dims counts = code.dims(layer.op->getResult(0));
  SmallVector<Value> means, variances;
  AffineExpr channels = code.size(weights.getDimSize(1) * layer.groups);
  graph::windows::forEachPosition(kernel, [&](ArrayRef<int64_t> at) {
    auto seen = [&](Value value) {
      value =
          graph::windows::windowElements(code, value, windows, at, ArrayRef(counts).drop_front(2));
      return code.reshape(meanOf(value, spatial), {channels, code.size(1)});
    };
    if (!layer.bias)
      return variances.push_back(seen(squares));
    Value mean = seen(sums);
    variances.push_back(code.sub(seen(squares), code.mul(mean, mean)));
    means.push_back(code.add(mean, code.reshape(centre, {channels, code.size(1)})));
  });
  GraphCode::Dims rows = statisticsOf(layer, code);
  Value variance = code.reshape(code.concat(variances, 1), rows);
  if (variance)
    variance = code.op("graph.max", {variance, code.scalar(variance, 0)});
  return {layer.bias ? code.reshape(code.concat(means, 1), rows) : zeros(layer, code, x), variance};
}

Moments rowMoments(const Layer &layer, const GraphCode &code) {
  Value x = code.widen(layer.values);
  GraphCode::Dims dims = code.dims(x), row = statisticsOf(layer, code);
  AffineExpr columns = dims.pop_back_val();
  x = code.reshape(x, {code.graph.shapes.product(dims), columns});
  Value mean = x && layer.bias ? code.mean(x, {0}) : Value();
  Value change = mean ? code.sub(x, mean) : x, square = code.mul(change, change);
  return {layer.bias ? code.reshape(mean, row) : zeros(layer, code, x),
          square ? code.reshape(code.mean(square, {0}), row) : square};
}

/// How often each row is taken, of all rows that are.
Moments rowShares(const Layer &layer, const GraphCode &code) {
  Value table = code.widen(layer.weights.state);
  AffineExpr count = code.graph.shapes.product(code.dims(layer.values));
  Value rows = code.reshape(layer.values, {count});
  Value none = zeros(layer, code, table);
  if (!rows)
    return {};
  Value ones = code.broadcast(code.scalar(table, 1), {count});
  Value times =
      code.op("graph.scatter_elements", {code.reshape(none, {code.size(layer.inputs)}), rows, ones},
              {code.integer("axis", 0),
               code.builder.getNamedAttr("reduction", code.builder.getStringAttr("add"))});
  Value all = code.cast(code.sizeOf(rows, 0), GraphCode::element(table));
  return {none, code.reshape(code.div(times, all), statisticsOf(layer, code))};
}

} // namespace

std::vector<Layer> findLayers(ArrayRef<Parameter> parameters) {
  std::vector<Layer> layers;
  for (const Parameter &weights : parameters) {
    auto type = cast<RankedTensorType>(weights.state.getType());
    if (!type.hasStaticShape() || type.getRank() < 2 || type.getNumElements() == 0)
      continue;
    auto layer = denseLayer(weights, parameters);
    if (!layer)
      layer = convolution(weights, parameters);
    if (!layer)
      layer = table(weights);
    if (layer)
      layers.push_back(*layer);
  }
  return layers;
}

int64_t Layer::fanIn() const { return (isa<graph::GatherOp>(op) ? 1 : inputs) + (bias ? 1 : 0); }

int64_t Layer::outputs() const {
  return cast<RankedTensorType>(weights.state.getType()).getDimSize(inputsFirst ? 1 : 0);
}

Value Layer::spread(const GraphCode &code, Value statistics) const {
  if (groups == 1)
    return statistics;
  AffineExpr each = code.size(outputs() / groups), group = code.size(groups),
             columns = code.size(inputs);
  Value rows = code.reshape(statistics, {group, code.size(1), columns});
  return code.reshape(code.broadcast(rows, {group, each, columns}),
                      {code.size(outputs()), columns});
}

Value Layer::meanOfOutputs(const GraphCode &code, Value matrix) const {
  AffineExpr each = code.size(outputs() / groups), group = code.size(groups),
             columns = code.size(inputs);
  Value rows = code.reshape(matrix, {group, each, columns});
  return rows ? code.reshape(code.mean(rows, {1}), {group, columns}) : rows;
}

Value Layer::matrix(const GraphCode &code, Value weights) const {
  if (inputsFirst)
    return code.transpose(weights, {1, 0});
  auto outputs = code.dims(weights)[0];
  return code.reshape(weights, {outputs, code.size(inputs)});
}

Value Layer::column(const GraphCode &code, Value bias) const {
  auto type = cast<RankedTensorType>(bias.getType());
  return code.reshape(bias, {code.size(type.getNumElements()), code.size(1)});
}

Value Layer::weightsOf(const GraphCode &code, Value matrix) const {
  return inputsFirst ? code.transpose(matrix, {1, 0})
                     : code.reshape(matrix, code.dims(weights.state));
}

Value Layer::biasOf(const GraphCode &code, Value column) const {
  return code.reshape(column, code.dims(bias->state));
}

Type Layer::statisticsType() const {
  Type element = GraphCode::element(weights.state);
  return element.isF64() ? element : Float32Type::get(element.getContext());
}

/// Each process has as many samples: a variance is that within them and that between their means.
static Moments momentsOfAll(const Moments &own, const GraphCode &code) {
  auto meanOfAll = [&](Value value) { return code.op("graph.all_reduce_mean", {value}); };
  Value mean = meanOfAll(own.mean), apart = code.sub(own.mean, mean);
  return {mean, meanOfAll(code.add(own.variance, code.mul(apart, apart)))};
}

Moments momentsOf(const Layer &layer, graph::GraphBuilder &graph, bool ofAll) {
  graph::GradientCode code(graph);
  Moments moments = isa<graph::ConvOp>(layer.op)     ? patchMoments(layer, code)
                    : isa<graph::GatherOp>(layer.op) ? rowShares(layer, code)
                                                     : rowMoments(layer, code);
  Type element = layer.statisticsType();
  moments = {code.cast(moments.mean, element), code.cast(moments.variance, element)};
  return ofAll && moments.mean && moments.variance ? momentsOfAll(moments, code) : moments;
}

} // namespace tensmith::training

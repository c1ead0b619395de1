// Linear classifiers and regressors, one-hot codes and categories of ai.onnx.ml, and what its other
// classifiers share; see Classifiers.h.
#include "frontends/onnx/Classifiers.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace tensmith::onnx_import {

FailureOr<Transform> transformOf(NodeImport &n) {
  constexpr const char *kNames[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  std::string name = n.stringAttr("post_transform", "NONE");
  const auto *it = llvm::find(kNames, name);
  if (it == std::end(kNames))
    return n.error("post_transform '" + name + "' is none that is known");
  return Transform(it - std::begin(kNames));
}

/// sqrt(2) erfinv(2 x - 1) by Winitzki's approximation, which is what ONNX Runtime computes.
static Value probit(NodeImport &n, Value x) {
  constexpr double kA = 0.147;
  Value y = n.add(n.mul(x, 2), -1);
  Value product = n.mul(n.sub(n.scalar(y, 1), y), n.add(y, 1));
  Value logarithm = n.unary("graph.log", product);
  Value v = n.add(n.mul(logarithm, 0.5), 2 / (std::numbers::pi * kA));
  Value root = n.unary("graph.sqrt", n.sub(n.mul(v, v), n.mul(logarithm, 1 / kA)));
  Value magnitude = n.unary("graph.sqrt", n.sub(root, v));
  Value sign = n.where(n("graph.less", {y, n.scalar(y, 0)}), n.scalar(y, -1), n.scalar(y, 1));
  Value result = n.mul(n.mul(magnitude, sign), 1.41421356);
  return n.where(n("graph.equal", {product, n.scalar(product, 0)}), n.scalar(result, 0), result);
}

Value transformed(NodeImport &n, Value x, Transform transform) {
  if (!x)
    return x;
  switch (transform) {
  case Transform::None:
    return x;
  case Transform::Softmax:
    return n("graph.softmax", {x}, n.integer("axis", 1));
  case Transform::Logistic:
    return n.unary("graph.sigmoid", x);
  case Transform::SoftmaxZero: { // zeros are classes without a score, and stay
    Value isZero = n("graph.equal", {x, n.scalar(x, 0)});
    Value least = n.scalar(x, -std::numeric_limits<double>::infinity());
    Value weights = n("graph.softmax", {n.where(isZero, least, x)}, n.integer("axis", 1));
    return n.where(isZero, n.scalar(x, 0), weights);
  }
  case Transform::Probit:
    return probit(n, x);
  }
  return {};
}

ClassLabels classLabels(NodeImport &n, StringRef numbers) {
  return {n.stringsAttr("classlabels_strings"), n.intsAttr(numbers)};
}

Value labelled(NodeImport &n, const ClassLabels &labels, Value numbers) {
  if (!numbers || labels.count() == 0)
    return numbers;
  Value table = labels.strings.empty()
                    ? n.vector(labels.numbers)
                    : n.constant(HostTensor::ofStrings({labels.count()}, labels.strings));
  return n("graph.gather", {table, numbers}, n.integer("axis", 0));
}

Value constantOf(NodeImport &n, Type element, ArrayRef<double> values, Shape shape) {
  HostTensor tensor(graph::dataType(element), std::move(shape));
  if (!tensor.valid() || tensor.size() != int64_t(values.size()))
    return {};
  for (size_t i = 0; i < values.size(); ++i)
    tensor.setDouble(int64_t(i), values[i]);
  return n.constant(tensor);
}

Value featuresOf(NodeImport &n) {
  if (failed(n.needRank(0)))
    return {};
  Value x = n.input(0);
  int64_t rank = n.rank(x);
  if (rank != 1 && rank != 2) {
    (void)n.error("operand 0 has rank " + llvm::Twine(rank) + ", not 2");
    return {};
  }
  if (rank == 1)
    x = n.reshape(x, {n.size(1), n.dims(x)[0]});
  return n.cast(x, n.element(x).isF64() ? n.element(x) : Type(n.builder.getF32Type()));
}

Value largestOfRows(NodeImport &n, Value scores) {
  return scores ? n("graph.arg_max", {scores}, {n.integer("axis", 1), n.boolean("keepdims", false)})
                : scores;
}

namespace {

constexpr std::string_view kDomain = "ai.onnx.ml";

/// x [rows, features] times the rows of coefficients, plus intercepts.
Value scoresOf(NodeImport &n, Value x, ArrayRef<double> coefficients, ArrayRef<double> intercepts,
               int64_t targets) {
  if (!x)
    return x;
  int64_t features = int64_t(coefficients.size()) / targets;
  Type type = n.element(x);
  Value weights = constantOf(n, type, coefficients, {targets, features});
  Value y = weights ? n.matmul(x, n.transpose(weights, {1, 0})) : weights;
  if (intercepts.empty())
    return y;
  return n.add(y, constantOf(n, type, intercepts, {int64_t(intercepts.size())}));
}

LogicalResult linearRegressor(NodeImport &n) {
  auto coefficients = n.floatsAttr("coefficients"), intercepts = n.floatsAttr("intercepts");
  int64_t targets = n.intAttr("targets", 1);
  auto transform = transformOf(n);
  if (failed(transform))
    return failure();
  if (targets < 1 || coefficients.empty() || int64_t(coefficients.size()) % targets)
    return n.error("has coefficients that the targets don't divide");
  Value y = scoresOf(n, featuresOf(n), coefficients, intercepts, targets);
  return n.give({n.cast(transformed(n, y, *transform), n.builder.getF32Type())});
}

/// A column of scores as those of two classes, 1 - s and s; of the transformations LOGISTIC and
/// PROBIT are of one score, and the others do nothing to it (ONNX Runtime's `add_second_class`).
LogicalResult binaryLinear(NodeImport &n, const ClassLabels &labels, Value score,
                           Transform transform) {
  Value isSecond = n("graph.greater", {score, n.scalar(score, 0)});
  if (!isSecond)
    return failure();
  Value number = n.cast(n.reshape(isSecond, {n.dims(score)[0]}), n.builder.getI64Type());
  bool isOfOne = transform == Transform::Logistic || transform == Transform::Probit;
  Value second = isOfOne ? transformed(n, score, transform) : score;
  Value both = n.concat({n.sub(n.scalar(score, 1), second), second}, 1);
  return n.give({labelled(n, labels, number), n.cast(both, n.builder.getF32Type())});
}

LogicalResult linearClassifier(NodeImport &n) {
  auto coefficients = n.floatsAttr("coefficients"), intercepts = n.floatsAttr("intercepts");
  ClassLabels labels = classLabels(n, "classlabels_ints");
  auto transform = transformOf(n);
  Value x = featuresOf(n);
  if (failed(transform) || !x)
    return failure();
  auto features = NodeImport::known(n.dims(x)[1]);
  int64_t given = int64_t(coefficients.size());
  int64_t targets = int64_t(intercepts.size());
  if (targets == 0 && features && *features > 0)
    targets = given / *features;
  if (targets < 1 || given == 0 || given % targets || (targets > 1 && labels.count() < targets))
    return n.error("has coefficients that its intercepts or features don't divide, or more classes "
                   "than labels");
  Value scores = scoresOf(n, x, coefficients, intercepts, targets);
  if (!scores)
    return failure();
  if (targets == 1 && labels.count() == 2)
    return binaryLinear(n, labels, scores, *transform);
  Type f32 = n.builder.getF32Type();
  if (targets == 1) {
    Value isAbove = n("graph.greater", {scores, n.scalar(scores, 0)});
    if (!isAbove)
      return failure();
    Value label = n.cast(n.reshape(isAbove, {n.dims(scores)[0]}), n.builder.getI64Type());
    return n.give({label, n.cast(transformed(n, scores, *transform), f32)});
  }
  return n.give({labelled(n, labels, largestOfRows(n, scores)),
                 n.cast(transformed(n, scores, *transform), f32)});
}

/// A new last dimension, 1 at the category that x is; all zeros where it is none.
LogicalResult oneHotEncoder(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  Value x = n.input(0);
  auto strings = n.stringsAttr("cats_strings");
  Ints numbers = n.intsAttr("cats_int64s");
  int64_t count = int64_t(strings.empty() ? numbers.size() : strings.size());
  bool isText = mlir::isa<graph::StringType>(n.element(x));
  if (count == 0 || isText == strings.empty())
    return n.error("has no categories of its operand's type");
  if (!n.intAttr("zeros", 1))
    return n.error("zeros = 0, which fails at a value that is no category, is not supported");
  auto dims = n.dims(x);
  Value keys = isText ? n.constant(HostTensor::ofStrings({count}, strings)) : n.vector(numbers);
  Value places = n.iota({n.size(count)}, 0);
  Value otherwise = n.integerScalar(-1);
  Value value = isText ? x : n.cast(x, n.builder.getI64Type());
  Value place = n("graph.look_up", {value, keys, places, otherwise});
  dims.push_back(n.size(1));
  Value isIt = place ? n("graph.equal", {n.reshape(place, dims), places}) : place;
  return n.give({n.cast(isIt, n.builder.getF32Type())});
}

/// Between strings and the numbers of categories, in the direction that the operand's type says.
LogicalResult categoryMapper(NodeImport &n) {
  auto strings = n.stringsAttr("cats_strings");
  Ints numbers = n.intsAttr("cats_int64s");
  if (!n.has(0) || strings.size() != numbers.size() || strings.empty())
    return n.error("has not as many strings as numbers, or none");
  int64_t count = int64_t(strings.size());
  Value names = n.constant(HostTensor::ofStrings({count}, std::move(strings)));
  Value codes = n.vector(numbers);
  if (mlir::isa<graph::StringType>(n.element(n.input(0))))
    return n.give({n("graph.look_up",
                     {n.input(0), names, codes, n.integerScalar(n.intAttr("default_int64", -1))})});
  Value otherwise =
      n.constant(HostTensor::ofStrings({}, {n.stringAttr("default_string", "_Unused")}));
  return n.give({n("graph.look_up", {n.input(0), codes, names, otherwise})});
}

/// Operands beside one another, each cut or filled with zeros to its number of columns.
LogicalResult featureVectorizer(NodeImport &n) {
  Ints widths = n.intsAttr("inputdimensions");
  if (widths.size() != n.inputCount() || widths.empty())
    return n.error("has not a width for each operand");
  SmallVector<Value> parts;
  for (size_t i = 0; i < widths.size(); ++i) {
    if (failed(n.needRank(i)))
      return failure();
    Value x = n.cast(n.input(i), n.builder.getF32Type());
    if (n.rank(x) == 1)
      x = n.reshape(x, {n.dims(x)[0], n.size(1)});
    auto width = n.rank(x) == 2 ? NodeImport::known(n.dims(x)[1]) : std::optional<int64_t>();
    if (!width || widths[i] < 0)
      return n.error("operand " + llvm::Twine(i) + " has no known width");
    if (*width > widths[i])
      x = n.slice(x, {0, 0}, {n.dims(x)[0], n.size(widths[i])});
    else if (*width < widths[i])
      x = n("graph.pad", {x, n.scalar(x, 0)},
            {n.integers("low", {0, 0}), n.integers("high", {0, widths[i] - *width})});
    parts.push_back(x);
  }
  return n.give({n.concat(parts, 1)});
}

constexpr Operator kOperators[] = {
    {"LinearRegressor", linearRegressor, kDomain},
    {"LinearClassifier", linearClassifier, kDomain},
    {"OneHotEncoder", oneHotEncoder, kDomain},
    {"CategoryMapper", categoryMapper, kDomain},
    {"FeatureVectorizer", featureVectorizer, kDomain},
};

} // namespace

std::span<const Operator> classifierOperators() { return kOperators; }

} // namespace tensmith::onnx_import

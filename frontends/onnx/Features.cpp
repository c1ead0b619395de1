// The ai.onnx.ml operators that prepare features: encoding labels, choosing columns, thresholds.
#include "frontends/onnx/NodeImport.h"

namespace tensmith::onnx_import {
namespace {

constexpr std::string_view kDomain = "ai.onnx.ml";

HostTensor ofStrings(std::vector<std::string> values) {
  int64_t count = int64_t(values.size());
  return HostTensor::ofStrings({count}, std::move(values));
}

HostTensor ofReals(ArrayRef<double> values) {
  HostTensor tensor(DataType::F32, {int64_t(values.size())});
  for (size_t i = 0; i < values.size(); ++i)
    tensor.setDouble(int64_t(i), values[i]);
  return tensor;
}

HostTensor ofIntegers(ArrayRef<int64_t> values) {
  return HostTensor::of<int64_t>(DataType::I64, {int64_t(values.size())},
                                 {values.data(), values.size()});
}

/// One side of a label encoder's table: the list that the node has, whatever its type. Undefined
/// where it has none, and not valid, with an error, where it can't be read.
HostTensor listOf(NodeImport &n, const std::string &side) {
  if (auto *tensor = n.attribute(side + "_tensor", onnx::AttributeProto::TENSOR)) {
    auto value = readTensor(tensor->t(), n.importer.tensorSource());
    if (value.ok())
      return value->reshaped({value->size()});
    (void)n.error(side + "_tensor " + value.status().message());
    return {};
  }
  if (n.hasAttribute(side + "_strings"))
    return ofStrings(n.stringsAttr(side + "_strings"));
  if (n.hasAttribute(side + "_floats"))
    return ofReals(n.floatsAttr(side + "_floats"));
  if (n.hasAttribute(side + "_int64s"))
    return ofIntegers(n.intsAttr(side + "_int64s"));
  return {};
}

/// What the standard says of the element type: "_Unused", -0.0 or -1.
HostTensor defaultOf(NodeImport &n, DataType type) {
  if (auto *tensor = n.attribute("default_tensor", onnx::AttributeProto::TENSOR))
    if (auto value = readTensor(tensor->t(), n.importer.tensorSource());
        value.ok() && value->type() == type && value->size() == 1)
      return value->reshaped({});
  if (type == DataType::String)
    return HostTensor::ofStrings({}, {n.stringAttr("default_string", "_Unused")});
  HostTensor value(type, {});
  if (isFloat(type))
    value.setDouble(0, n.floatAttr("default_float", -0.0));
  else
    value.setInt(0, n.intAttr("default_int64", -1));
  return value;
}

LogicalResult labelEncoder(NodeImport &n) {
  if (!n.has(0))
    return n.error("operand 0 is missing");
  HostTensor keys, values;
  if (n.opset == 1) { // names and their positions, in the direction that the operand's type says
    keys = ofStrings(n.stringsAttr("classes_strings"));
    Ints positions;
    for (int64_t i = 0; i < keys.size(); ++i)
      positions.push_back(i);
    values = ofIntegers(positions);
    if (!mlir::isa<graph::StringType>(n.element(n.input(0))))
      std::swap(keys, values);
  } else {
    keys = listOf(n, "keys");
    values = listOf(n, "values");
  }
  if (keys.type() == DataType::Undefined || values.type() == DataType::Undefined ||
      keys.size() != values.size())
    return n.error("has not as many keys as values, or none");
  return n.give({n("graph.look_up", {n.input(0), n.constant(keys), n.constant(values),
                                     n.constant(defaultOf(n, values.type()))})});
}

/// The columns of x, which as a vector is one row.
LogicalResult arrayFeatureExtractor(NodeImport &n) {
  if (failed(n.needRank(0)) || failed(n.needRank(1)))
    return failure();
  Value x = n.input(0);
  if (n.rank(x) == 0)
    return n.error("operand 0 is a scalar");
  if (n.rank(x) == 1)
    x = n.reshape(x, {n.size(1), n.dims(x)[0]});
  Value columns = n.reshape(n.input(1), {n.graph.shapes.product(n.dims(n.input(1)))});
  return n.give({n("graph.gather", {x, columns}, n.integer("axis", n.rank(x) - 1))});
}

LogicalResult binarizer(NodeImport &n) {
  if (!n.has(0))
    return n.error("operand 0 is missing");
  Value x = n.input(0);
  Value isAbove = n("graph.greater", {x, n.scalar(x, n.floatAttr("threshold"))});
  return n.give({n.cast(isAbove, n.element(x))});
}

/// A list as a tensor of x's element type; a list of one as a scalar.
Value likeOperand(NodeImport &n, ArrayRef<double> values) {
  HostTensor tensor(graph::dataType(n.element(n.input(0))), {int64_t(values.size())});
  for (size_t i = 0; i < values.size(); ++i)
    tensor.setDouble(int64_t(i), values[i]);
  return n.constant(values.size() == 1 ? tensor.reshaped({}) : tensor);
}

/// An operand of floats [rows, features], or [features] where `orVector`.
LogicalResult needFeatures(NodeImport &n, bool orVector) {
  if (failed(n.needRank(0)))
    return failure();
  int64_t rank = n.rank(n.input(0));
  if (rank != 2 && !(orVector && rank == 1))
    return n.error("operand 0 has rank " + llvm::Twine(rank) + ", not 2");
  return success();
}

LogicalResult scaler(NodeImport &n) {
  auto offset = n.floatsAttr("offset"), scale = n.floatsAttr("scale");
  if (failed(needFeatures(n, true)))
    return failure();
  if (offset.empty() || scale.empty())
    return n.error("has no offset or no scale");
  Type to = n.builder.getF32Type();
  n.inputs[0] = n.cast(n.input(0), to);
  return n.give({n.mul(n.sub(n.input(0), likeOperand(n, offset)), likeOperand(n, scale))});
}

/// Rows divided by their largest magnitude, sum of magnitudes or length.
LogicalResult normalizer(NodeImport &n) {
  if (failed(needFeatures(n, false)))
    return failure();
  std::string norm = n.stringAttr("norm", "MAX");
  Value x = n.cast(n.input(0), n.builder.getF32Type()), size;
  if (norm == "MAX")
    size = n.reduce("graph.reduce_max", n.unary("graph.abs", x), {1}, true);
  else if (norm == "L1")
    size = n.reduce("graph.reduce_sum", n.unary("graph.abs", x), {1}, true);
  else if (norm == "L2")
    size = n.unary("graph.sqrt", n.reduce("graph.reduce_sum", n.mul(x, x), {1}, true));
  else
    return n.error("norm '" + norm + "' is not MAX, L1 or L2");
  return n.give({n.div(x, n("graph.max", {size, n.scalar(x, 1e-30)}))});
}

LogicalResult imputer(NodeImport &n) {
  if (failed(needFeatures(n, true)))
    return failure();
  Value x = n.input(0);
  auto values = n.floatsAttr("imputed_value_floats");
  double replaced = n.floatAttr("replaced_value_float");
  if (values.empty()) {
    for (int64_t value : n.intsAttr("imputed_value_int64s"))
      values.push_back(double(value));
    replaced = double(n.intAttr("replaced_value_int64"));
  }
  if (values.empty())
    return n.error("has no values to impute");
  Value isMissing = replaced != replaced ? n.unary("graph.isnan", x)
                                         : n("graph.equal", {x, n.scalar(x, replaced)});
  return n.give({n.where(isMissing, likeOperand(n, values), x)});
}

constexpr Operator kOperators[] = {
    {"Scaler", scaler, kDomain},
    {"Normalizer", normalizer, kDomain},
    {"Imputer", imputer, kDomain},
    {"LabelEncoder", labelEncoder, kDomain},
    {"ArrayFeatureExtractor", arrayFeatureExtractor, kDomain},
    {"Binarizer", binarizer, kDomain},
};

} // namespace

std::span<const Operator> featureOperators() { return kOperators; }

} // namespace tensmith::onnx_import

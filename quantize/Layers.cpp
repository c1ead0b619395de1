// Which nodes are layers; see Layers.h.
#include "quantize/Layers.h"

#include <algorithm>

namespace tensmith::quantize {
namespace {

/// What an operator says of its quantisation.
struct OperatorRecord {
  std::string_view op;
  int64_t inputAxis;  // of channels; -1: the last
  int64_t outputAxis; // of the weights
  bool hasBias;       // the third input
  bool isMatrix;      // weights have two dimensions
};
constexpr OperatorRecord kOperators[] = {
    {"Conv", 1, 0, true, false},
    {"Gemm", -1, 1, true, true}, // the other axis with transB
    {"MatMul", -1, 1, false, true},
};

/// Kernels multiply unsigned activations by signed weights; codes around zero cost nothing for the
/// weights, and an offset gives activations behind a rectification twice the steps.
constexpr Format kWeights = {Storage::Integer, 8, true, true, false, Granularity::Channel, 0};
constexpr Format kActivations = {Storage::Integer, 8, false, false, false, Granularity::Tensor, 0};

const OperatorRecord *recordOf(const onnx::NodeProto &node) {
  auto found = std::ranges::find(kOperators, node.op_type(), &OperatorRecord::op);
  return found != std::end(kOperators) && isStandard(node) ? found : nullptr;
}

/// The strides of the weights where the rows' axis comes first.
Matrix matrixOf(const HostTensor &tensor, int64_t axis) {
  const Shape &shape = tensor.shape();
  int64_t outer = 1, rows = shape[size_t(axis)], inner = 1;
  for (int64_t i = 0; i < axis; ++i)
    outer *= shape[size_t(i)];
  for (size_t i = size_t(axis) + 1; i < shape.size(); ++i)
    inner *= shape[i];
  Matrix result{rows, outer * inner, std::vector<float>(size_t(tensor.size()))};
  auto values = tensor.as<float>();
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < inner; ++i)
        result.values[size_t((row * outer + o) * inner + i)] =
            values[size_t((o * rows + row) * inner + i)];
  return result;
}

/// The format with what the operator can't have put right; a message where it can't be.
std::string fit(Layer &layer, const OperatorRecord &record) {
  Format &weights = layer.weightFormat, &activations = layer.activationFormat;
  if (weights.granularity == Granularity::Group && !record.isMatrix)
    weights.granularity = Granularity::Channel;
  if (!activations.isFloat() && !activations.isInteger())
    return "activations are quantised to integers alone";
  activations.granularity = Granularity::Tensor;
  return {};
}

/// A plain product of the input by the weights and nothing else.
bool isPlain(const onnx::NodeProto &node) {
  if (node.op_type() != "Gemm")
    return true;
  const onnx::AttributeProto *alpha = findAttribute(node, "alpha");
  const onnx::AttributeProto *beta = findAttribute(node, "beta");
  return integerAttribute(node, "transA", 0) == 0 && (!alpha || alpha->f() == 1) &&
         (!beta || beta->f() == 1);
}

std::optional<Layer> layerOf(const ModelGraph &model, int number) {
  const onnx::NodeProto &node = model.graph().node(number);
  const OperatorRecord *record = recordOf(node);
  if (!record || node.input_size() < 2 || !isPlain(node) || model.constant(node.input(0)))
    return std::nullopt;
  auto tensor = model.constant(node.input(1));
  if (!tensor || tensor->type() != DataType::F32 || tensor->rank() < 2 || tensor->size() == 0 ||
      (record->isMatrix && tensor->rank() != 2))
    return std::nullopt;
  Layer layer;
  layer.node = number;
  layer.name = nameOf(node);
  layer.op = node.op_type();
  layer.input = node.input(0);
  layer.weight = node.input(1);
  if (record->hasBias && node.input_size() > 2)
    layer.bias = node.input(2);
  layer.inputAxis = record->inputAxis;
  layer.outputAxis = integerAttribute(node, "transB", 0) ? 0 : record->outputAxis;
  layer.groups = integerAttribute(node, "group", 1);
  layer.shape = tensor->shape();
  layer.weights = matrixOf(*tensor, layer.outputAxis);
  if (layer.groups < 1 || layer.weights.rows % layer.groups != 0)
    return std::nullopt;
  return layer;
}

/// A layer's weights are its own, so that they can be changed.
void separateWeights(ModelGraph &model, Layer &layer) {
  if (model.hasOneReader(layer.weight))
    return;
  layer.weight =
      model.addConstant(layer.weight + "_of_" + layer.name, weightTensor(layer, layer.weights));
  model.graph().mutable_node(layer.node)->set_input(1, layer.weight);
  model.index();
}

std::string layerNames(const std::vector<Layer> &layers) {
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t i = 0; i < layers.size() && i < kMost; ++i)
    text += (i ? ", '" : "'") + layers[i].name + "' (" + layers[i].op + ")";
  return text + (layers.size() > kMost ? ", ..." : "");
}

Status applySettings(std::vector<Layer> &layers, const Settings &settings) {
  std::vector<bool> used(settings.rules.size());
  for (Layer &layer : layers) {
    layer.weightFormat = kWeights;
    layer.activationFormat = kActivations;
    settings.weights.apply(layer.weightFormat);
    settings.activations.apply(layer.activationFormat);
    for (size_t i = 0; i < settings.rules.size(); ++i) {
      const Rule &rule = settings.rules[i];
      if (!rule.fits(layer.name, layer.op))
        continue;
      used[i] = true;
      rule.weights.apply(layer.weightFormat);
      rule.activations.apply(layer.activationFormat);
      if (rule.keeps)
        layer.kept = "a rule";
    }
    auto record = std::ranges::find(kOperators, layer.op, &OperatorRecord::op);
    if (std::string problem = fit(layer, *record); !problem.empty())
      return invalidArgument("layer '" + layer.name + "': " + problem);
    if (layer.kept.empty() && layer.weightFormat.isFloat())
      layer.kept = "its format is float";
  }
  for (size_t i = 0; i < used.size(); ++i)
    if (!used[i])
      return invalidArgument("the rule for " + settings.rules[i].text() +
                             " fits no layer; there are " + layerNames(layers));
  return {};
}

} // namespace

int64_t Layer::inputChannels() const {
  int64_t own = op == "Conv" ? shape[1] : weights.columns;
  return own * groups;
}
int64_t Layer::window() const { return op == "Conv" ? weights.columns / shape[1] : 1; }
int64_t Layer::inputChannel(int64_t row, int64_t column) const {
  if (op != "Conv")
    return column;
  return row / (weights.rows / groups) * shape[1] + column / window();
}

Result<std::vector<Layer>> findLayers(ModelGraph &model, const Settings &settings) {
  std::vector<Layer> layers;
  for (int i = 0; i < model.graph().node_size(); ++i)
    if (auto layer = layerOf(model, i))
      layers.push_back(std::move(*layer));
  if (layers.empty())
    return invalidArgument("has no layers to quantise: Conv, Gemm or MatMul with constant weights "
                           "of f32 in its main graph");
  if (Status status = applySettings(layers, settings); !status.ok())
    return status;
  for (Layer &layer : layers)
    if (layer.kept.empty())
      separateWeights(model, layer);
  return layers;
}

HostTensor weightTensor(const Layer &layer, const Matrix &weights, DataType type) {
  HostTensor tensor(type, layer.shape);
  int64_t outer = 1, rows = weights.rows;
  for (int64_t i = 0; i < layer.outputAxis; ++i)
    outer *= layer.shape[size_t(i)];
  int64_t inner = weights.columns / outer;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < inner; ++i)
        tensor.setDouble((o * rows + row) * inner + i,
                         double(weights.values[size_t((row * outer + o) * inner + i)]));
  return tensor;
}

void storeWeights(ModelGraph &model, const Layer &layer) {
  model.setConstant(layer.weight, weightTensor(layer, layer.weights));
}

std::optional<std::vector<float>> biasOf(const ModelGraph &model, const Layer &layer) {
  auto record = std::ranges::find(kOperators, layer.op, &OperatorRecord::op);
  if (!record->hasBias)
    return std::nullopt;
  if (layer.bias.empty())
    return std::vector<float>(size_t(layer.weights.rows), 0.0f);
  const auto bias = model.constant(layer.bias);
  if (!bias || bias->type() != DataType::F32 || bias->shape() != Shape{layer.weights.rows})
    return std::nullopt;
  auto values = bias->as<float>();
  return std::vector<float>(values.begin(), values.end());
}

void storeBias(ModelGraph &model, Layer &layer, const std::vector<float> &bias) {
  auto tensor = HostTensor::of<float>(DataType::F32, {int64_t(bias.size())}, bias);
  layer.bias = model.addConstant(layer.name + "_bias", tensor);
  onnx::NodeProto &node = *model.graph().mutable_node(layer.node);
  while (node.input_size() < 3)
    node.add_input("");
  node.set_input(2, layer.bias);
  model.index();
}

} // namespace tensmith::quantize

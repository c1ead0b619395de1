// A model in the form that is quantised.
//
// before: y = batch_norm(conv(x, w, b), scale, shift, mean, variance)
// after:  y = conv(x, w * f, (b - mean) * f + shift),  f = scale / sqrt(variance + epsilon)
//
// where nothing else reads the convolution's result, and all are constants.
#include "quantize/ModelGraph.h"

#include <cmath>

namespace tensmith::quantize {
namespace {

void storeConstants(ModelGraph &model) {
  std::set<int> stored;
  onnx::GraphProto &graph = model.graph();
  for (int i = 0; i < graph.node_size(); ++i) {
    const onnx::NodeProto &node = graph.node(i);
    const onnx::AttributeProto *value = findAttribute(node, "value");
    if (node.op_type() != "Constant" || !isStandard(node) || !value || !value->has_t() ||
        model.isReadElsewhere(node.output(0)))
      continue;
    onnx::TensorProto &tensor = *graph.add_initializer();
    tensor = value->t();
    tensor.set_name(node.output(0));
    stored.insert(i);
  }
  model.eraseNodes(stored);
}

std::optional<HostTensor> floats(const ModelGraph &model, const std::string &name) {
  auto tensor = model.constant(name);
  return tensor && tensor->type() == DataType::F32 ? tensor : std::nullopt;
}

bool isEvaluated(const onnx::NodeProto &norm) {
  return norm.input_size() == 5 && norm.output_size() == 1 &&
         integerAttribute(norm, "training_mode", 0) == 0;
}

/// Folds the normalisation into the convolution, whose result has its name then.
bool fold(ModelGraph &model, onnx::NodeProto &conv, const onnx::NodeProto &norm) {
  auto weights = floats(model, conv.input(1));
  bool hasBias = conv.input_size() > 2 && !conv.input(2).empty();
  auto bias = hasBias ? floats(model, conv.input(2)) : std::nullopt;
  std::vector<HostTensor> parameters;
  for (int i = 1; i < 5; ++i)
    if (auto parameter = floats(model, norm.input(i)))
      parameters.push_back(*parameter);
  if (!weights || weights->rank() < 2 || (hasBias && !bias) || parameters.size() != 4)
    return false;
  int64_t channels = weights->shape()[0], each = channels ? weights->size() / channels : 0;
  for (const HostTensor &parameter : parameters)
    if (parameter.shape() != Shape{channels})
      return false;
  if (bias && bias->shape() != Shape{channels})
    return false;
  const onnx::AttributeProto *given = findAttribute(norm, "epsilon");
  double epsilon = given ? double(given->f()) : 1e-5;
  HostTensor folded(DataType::F32, weights->shape()), shifted(DataType::F32, {channels});
  for (int64_t i = 0; i < channels; ++i) {
    double scale = parameters[0].getDouble(i), shift = parameters[1].getDouble(i);
    double mean = parameters[2].getDouble(i), variance = parameters[3].getDouble(i);
    double factor = scale / std::sqrt(variance + epsilon);
    for (int64_t j = i * each; j < (i + 1) * each; ++j)
      folded.setDouble(j, weights->getDouble(j) * factor);
    shifted.setDouble(i, ((bias ? bias->getDouble(i) : 0) - mean) * factor + shift);
  }
  conv.set_input(1, model.addConstant(conv.input(1) + "_folded", folded));
  while (conv.input_size() < 3)
    conv.add_input("");
  conv.set_input(2, model.addConstant(norm.output(0) + "_bias", shifted));
  conv.set_output(0, norm.output(0));
  return true;
}

void foldNormalisations(ModelGraph &model) {
  std::set<int> folded;
  onnx::GraphProto &graph = model.graph();
  for (int i = 0; i < graph.node_size(); ++i) {
    const onnx::NodeProto &norm = graph.node(i);
    if (norm.op_type() != "BatchNormalization" || !isStandard(norm) || !isEvaluated(norm))
      continue;
    int producer = model.producer(norm.input(0));
    if (producer < 0 || !model.hasOneReader(norm.input(0)))
      continue;
    onnx::NodeProto &conv = *graph.mutable_node(producer);
    bool isConv = conv.op_type() == "Conv" && isStandard(conv) && conv.input_size() >= 2;
    if (isConv && fold(model, conv, norm))
      folded.insert(i);
  }
  model.eraseNodes(folded);
}

} // namespace

void prepare(ModelGraph &model) {
  storeConstants(model);
  foldNormalisations(model);
  model.dropUnreadConstants();
}

} // namespace tensmith::quantize

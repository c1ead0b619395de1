// Nodes and constants of codes; see Realise.h.
#include "quantize/Realise.h"

#include <cmath>
#include <limits>

namespace tensmith::quantize {
namespace {

HostTensor scalar(DataType type, double value) {
  HostTensor tensor(type, {});
  tensor.setDouble(0, value);
  return tensor;
}

bool isPacked(const Layer &layer) { return !layer.quantisesActivations(); }

/// The opset that the layer's codes are of.
int64_t neededOpset(const Layer &layer, bool forTraining) {
  constexpr int64_t kAxes = 13, kFloat8 = 19, kNarrowOrGroups = 21;
  const Format &weights = layer.weightFormat, &inputs = layer.activationFormat;
  bool isGrouped = weights.isInteger() && weights.granularity == Granularity::Group;
  bool isNarrow = !forTraining && isPacked(layer) && weights.bits <= 4;
  bool isWide = (weights.isInteger() && weights.bits > 8) ||
                (layer.quantisesActivations() && inputs.bits > 8);
  if (isGrouped || isNarrow || isWide || weights.storage == Storage::NormalFloat4 ||
      (weights.storage == Storage::Float8 && weights.granularity == Granularity::Group))
    return kNarrowOrGroups;
  return weights.storage == Storage::Float8 ? kFloat8 : kAxes;
}

class Writer {
public:
  Writer(ModelGraph &model, const Realisation &how) : model_(model), how_(how) {}

  Status write(const Layer &layer, const LayerCodes &codes, size_t number) {
    switch_ =
        how_.hasSwitches ? model_.addConstant(switchName(number), scalar(DataType::Bool, 1)) : "";
    node_ = layer.node;
    if (how_.forTraining && (layer.weightFormat.isBipolar() || !layer.weightFormat.isInteger() ||
                             (layer.quantisesActivations() && layer.activationFormat.isBipolar())))
      return invalidArgument("layer '" + layer.name + "': " + layer.weightFormat.text() +
                             " can't be trained; weights are integers of 2 bits or more then, and "
                             "activations have no signed single bit");
    std::string weights;
    if (Status status = how_.forTraining ? roundedWeights(layer, codes.weights, weights)
                                         : storedWeights(layer, codes.weights, weights);
        !status.ok())
      return status;
    setInput(1, weights);
    if (!layer.quantisesActivations())
      return {};
    setInput(0, activations(layer, codes.input));
    if (!how_.hasSwitches && !how_.forTraining)
      if (std::string bias = storedBias(layer, codes); !bias.empty())
        model_.graph().mutable_node(node_)->set_input(2, bias);
    return {};
  }

private:
  void setInput(int index, const std::string &quantised) {
    onnx::NodeProto &node = *model_.graph().mutable_node(node_);
    node.set_input(index, switch_.empty() ? quantised
                                          : add("Where", quantised + "_or_float",
                                                {switch_, quantised, node.input(index)}));
  }

  std::string add(const char *op, const std::string &stem, std::vector<std::string> inputs) {
    return model_.insertBefore(node_, op, stem, std::move(inputs)).output(0);
  }
  std::string constant(const std::string &stem, const HostTensor &value) {
    return model_.addConstant(stem, value);
  }
  std::string constant(const std::string &stem, double value) {
    return constant(stem, scalar(DataType::F32, value));
  }

  /// The input as codes and back, made once for all layers that read it in that format.
  std::string activations(const Layer &layer, Step step) {
    const Format &format = layer.activationFormat;
    std::string key = layer.input + " " + format.text();
    if (auto known = inputs_.find(key); known != inputs_.end())
      return known->second;
    const std::string &x = layer.input;
    std::string scale = constant(x + "_scale", double(step.scale));
    std::string zero = constant(x + "_zero_point", scalar(codeType(format, false), step.zero));
    std::string codes =
        add("QuantizeLinear", x + "_quantized", {limited(x, format, step), scale, zero});
    return inputs_[key] = add("DequantizeLinear", x + "_dequantized", {codes, scale, zero});
  }

  /// What the type of the codes would not limit by itself.
  std::string limited(const std::string &x, const Format &format, Step step) {
    float low = decode(format, step, float(format.lowest()));
    float high = decode(format, step, float(format.highest()));
    if (format.isBipolar()) {
      std::string isNegative = add("Less", x + "_is_negative", {x, constant(x + "_middle", 0.0)});
      return add(
          "Where", x + "_sign",
          {isNegative, constant(x + "_low", double(low)), constant(x + "_high", double(high))});
    }
    if (format.bits == 8 || format.bits == 16)
      return x;
    return add("Clip", x + "_clipped",
               {x, constant(x + "_low", double(low)), constant(x + "_high", double(high))});
  }

  /// Scales or zero points with an entry for each step, in the shape that the operator wants.
  template <typename Read>
  HostTensor stepTensor(const Layer &layer, const Codes &codes, DataType type, Read read) {
    bool isGrouped = codes.format.granularity == Granularity::Group;
    Matrix values{
        codes.format.granularity == Granularity::Tensor ? 1 : codes.rows, codes.groups(), {}};
    for (const Step &step : codes.steps)
      values.values.push_back(float(read(step)));
    if (isGrouped) {
      Layer groups = layer;
      groups.shape[size_t(layer.reductionAxis())] = codes.groups();
      return weightTensor(groups, values, type);
    }
    HostTensor tensor(type, codes.steps.size() == 1 && values.rows == 1 &&
                                    codes.format.granularity == Granularity::Tensor
                                ? Shape{}
                                : Shape{int64_t(codes.steps.size())});
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.setDouble(i, double(values.values[size_t(i)]));
    return tensor;
  }
  HostTensor scales(const Layer &layer, const Codes &codes) {
    return stepTensor(layer, codes, DataType::F32, [](Step step) { return step.scale; });
  }

  void setAxis(const Layer &layer, const Format &format, onnx::NodeProto &node) {
    if (format.granularity == Granularity::Channel)
      setAttribute(node, "axis", layer.outputAxis);
    if (format.granularity != Granularity::Group)
      return;
    setAttribute(node, "axis", layer.reductionAxis());
    setAttribute(node, "block_size", format.group);
  }

  Status storedWeights(const Layer &layer, const Codes &codes, std::string &result) {
    const Format &format = codes.format;
    const std::string &w = layer.weight;
    Matrix values{codes.rows, codes.columns, codes.codes};
    if (format.storage == Storage::NormalFloat4)
      return storedLevels(layer, codes, values, result);
    DataType type = codeType(format, isPacked(layer));
    std::string stored = constant(w + "_quantized", weightTensor(layer, values, type));
    std::string scale = constant(w + "_scale", scales(layer, codes));
    std::string zero =
        constant(w + "_zero_point",
                 stepTensor(layer, codes, type, [](Step step) { return float(step.zero); }));
    onnx::NodeProto &node =
        model_.insertBefore(node_, "DequantizeLinear", w + "_dequantized", {stored, scale, zero});
    setAxis(layer, format, node);
    result = node.output(0);
    return {};
  }

  /// level[code] * scale; ONNX has no type for it.
  Status storedLevels(const Layer &layer, const Codes &codes, const Matrix &values,
                      std::string &result) {
    const std::string &w = layer.weight;
    const Format &format = codes.format;
    bool isGrouped = format.granularity == Granularity::Group;
    if (isGrouped && codes.columns % format.group != 0)
      return invalidArgument("layer '" + layer.name + "': " + std::to_string(codes.columns) +
                             " weights an output are no multiple of the group of " +
                             std::to_string(format.group) + ", which nf4 needs");
    std::string stored = constant(w + "_quantized", weightTensor(layer, values, DataType::U4));
    onnx::NodeProto &cast = model_.insertBefore(node_, "Cast", w + "_codes", {stored});
    setAttribute(cast, "to", int64_t(DataType::I32));
    std::string indices = cast.output(0);
    auto levels = HostTensor::of<float>(DataType::F32, {16}, normalFloatLevels());
    result = add("Gather", w + "_levels", {constant(w + "_nf4", levels), indices});
    // Groups become a dimension of their own, in which scales are repeated.
    Shape apart = layer.shape, steps(layer.shape.size(), 1);
    if (isGrouped) {
      auto axis = size_t(layer.reductionAxis());
      apart[axis] = format.group;
      apart.insert(apart.begin() + ptrdiff_t(axis), codes.groups());
      steps = apart;
      steps[axis + 1] = 1;
      result = reshaped(w, result, apart);
    } else if (format.granularity == Granularity::Channel) {
      steps[size_t(layer.outputAxis)] = codes.rows;
    }
    result = add("Mul", w + "_dequantized",
                 {result, constant(w + "_scale", scales(layer, codes).reshaped(steps))});
    if (isGrouped)
      result = reshaped(w, result, layer.shape);
    return {};
  }

  std::string reshaped(const std::string &stem, const std::string &x, const Shape &shape) {
    auto dims = HostTensor::of<int64_t>(DataType::I64, {int64_t(shape.size())}, shape);
    return add("Reshape", stem + "_reshaped", {x, constant(stem + "_shape", dims)});
  }

  /// What the code stands for, of each output, computed of the scale: a constant of floats would
  /// be trained, too.
  std::string limit(const Layer &layer, const Codes &codes, int code, const std::string &scale,
                    const Shape &along) {
    const std::string &w = layer.weight;
    HostTensor offsets =
        stepTensor(layer, codes, DataType::I32, [&](Step step) { return float(code - step.zero); });
    onnx::NodeProto &cast = model_.insertBefore(node_, "Cast", w + "_offsets",
                                                {constant(w + "_codes", offsets.reshaped(along))});
    setAttribute(cast, "to", int64_t(DataType::F32));
    std::string numbers = cast.output(0);
    return add("Mul", w + "_limit", {numbers, reshaped(w, scale, along)});
  }

  /// Weights that are trained on: floats, rounded by nodes.
  Status roundedWeights(const Layer &layer, const Codes &codes, std::string &result) {
    const std::string &w = layer.weight;
    Format format = codes.format;
    DataType type = codeType(format, false);
    HostTensor scale = scales(layer, codes);
    auto zeros = stepTensor(layer, codes, type, [](Step step) { return float(step.zero); });
    std::string x = w, scaleName = constant(w + "_scale", scale);
    std::string zeroName = constant(w + "_zero_point", zeros);
    if (format.bits != 8 && format.bits != 16) {
      if (format.granularity == Granularity::Group)
        return invalidArgument("layer '" + layer.name +
                               "': groups of fewer than 8 bits can't be trained; take scales per "
                               "channel");
      Shape along(format.granularity == Granularity::Tensor ? 0 : layer.shape.size(), 1);
      if (!along.empty())
        along[size_t(layer.outputAxis)] = codes.rows;
      x = add("Max", w + "_above", {x, limit(layer, codes, format.lowest(), scaleName, along)});
      x = add("Min", w + "_limited", {x, limit(layer, codes, format.highest(), scaleName, along)});
    }
    onnx::NodeProto &quantise =
        model_.insertBefore(node_, "QuantizeLinear", w + "_quantized", {x, scaleName, zeroName});
    setAxis(layer, format, quantise);
    std::string stored = quantise.output(0);
    onnx::NodeProto &dequantise = model_.insertBefore(node_, "DequantizeLinear", w + "_dequantized",
                                                      {stored, scaleName, zeroName});
    setAxis(layer, format, dequantise);
    result = dequantise.output(0);
    return {};
  }

  /// In 32 bits, of the scale of the sums; empty where that isn't possible.
  std::string storedBias(const Layer &layer, const LayerCodes &codes) {
    auto bias = layer.bias.empty() ? std::nullopt : biasOf(model_, layer);
    const Format &format = codes.weights.format;
    if (!bias || !format.isInteger() || format.granularity == Granularity::Group)
      return {};
    HostTensor stored(DataType::I32, {int64_t(bias->size())});
    HostTensor scale(DataType::F32, {int64_t(bias->size())});
    constexpr double kMost = std::numeric_limits<int32_t>::max();
    for (int64_t i = 0; i < stored.size(); ++i) {
      float product = codes.input.scale * codes.weights.step(i, 0).scale;
      double code = std::nearbyint(double((*bias)[size_t(i)]) / double(product));
      if (!(std::abs(code) < kMost))
        return {};
      scale.setDouble(i, double(product));
      stored.setInt(i, int64_t(code));
    }
    onnx::NodeProto &node = model_.insertBefore(
        node_, "DequantizeLinear", layer.bias + "_dequantized",
        {constant(layer.bias + "_quantized", stored), constant(layer.bias + "_scale", scale)});
    setAttribute(node, "axis", 0);
    return node.output(0);
  }

  ModelGraph &model_;
  const Realisation &how_;
  int node_ = 0;
  std::string switch_;
  std::map<std::string, std::string> inputs_;
};

} // namespace

std::string switchName(size_t layer) { return "tensmith.quantised." + std::to_string(layer); }

Status realise(ModelGraph &model, const std::vector<Layer> &layers,
               const std::vector<LayerCodes> &codes, const Realisation &how) {
  int64_t needed = 0;
  for (const Layer &layer : layers)
    if (layer.kept.empty())
      needed = std::max(needed, neededOpset(layer, how.forTraining));
  if (needed > model.opset())
    if (Status status = model.raiseOpset(); !status.ok())
      return status;
  Writer writer(model, how);
  for (size_t i = 0; i < layers.size(); ++i)
    if (layers[i].kept.empty())
      if (Status status = writer.write(layers[i], codes[i], i); !status.ok())
        return status;
  model.insertAll();
  model.dropUnreadConstants();
  return {};
}

} // namespace tensmith::quantize

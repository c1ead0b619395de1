// Factors of channels, moved between layers; see Equalisation.h.
#include "quantize/Equalisation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tensmith::quantize {
namespace {

/// Repetitions after which the factors have settled.
constexpr int kRounds = 8;
/// Factors beyond this are of channels that hardly count.
constexpr double kMostFactor = 1e3;

/// Operators that give f * y where they are given f * x, for positive f of each channel.
bool commutes(const onnx::NodeProto &node) {
  static const std::set<std::string> kOperators = {
      "Relu",        "LeakyRelu",         "Identity",      "MaxPool",
      "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Dropout"};
  return isStandard(node) && kOperators.contains(node.op_type()) && node.output_size() == 1;
}

/// The layer that alone reads what this one gives; null: none, or others read it, too.
Layer *follower(const ModelGraph &model, std::vector<Layer> &layers, const Layer &layer) {
  std::string tensor = model.graph().node(layer.node).output(0);
  while (model.hasOneReader(tensor)) {
    int reader = model.readers(tensor)[0];
    const onnx::NodeProto &node = model.graph().node(reader);
    auto found = std::ranges::find(layers, reader, &Layer::node);
    if (found != layers.end())
      return found->kept.empty() && found->input == tensor ? &*found : nullptr;
    if (!commutes(node) || node.input(0) != tensor)
      return nullptr;
    tensor = node.output(0);
  }
  return nullptr;
}

std::vector<double> mostByInput(const Layer &layer) {
  std::vector<double> most(size_t(layer.inputChannels()), 0);
  for (int64_t i = 0; i < layer.weights.rows; ++i)
    for (int64_t j = 0; j < layer.weights.columns; ++j) {
      auto channel = size_t(layer.inputChannel(i, j));
      most[channel] = std::max(most[channel], std::abs(double(layer.weights.row(i)[size_t(j)])));
    }
  return most;
}

void scaleInputs(Layer &layer, const std::vector<double> &factors) {
  for (int64_t i = 0; i < layer.weights.rows; ++i)
    for (int64_t j = 0; j < layer.weights.columns; ++j)
      layer.weights.row(i)[size_t(j)] *= float(factors[size_t(layer.inputChannel(i, j))]);
}

double bounded(double factor) {
  return std::isfinite(factor) && factor > 0 ? std::clamp(factor, 1 / kMostFactor, kMostFactor) : 1;
}

void equalise(ModelGraph &model, Layer &first, Layer &second, std::vector<float> bias) {
  std::vector<double> read = mostByInput(second), factors(read.size(), 1);
  for (int64_t i = 0; i < first.weights.rows; ++i) {
    double made = 0;
    for (float weight : first.weights.row(i))
      made = std::max(made, std::abs(double(weight)));
    double factor = bounded(std::sqrt(made * read[size_t(i)]) / read[size_t(i)]);
    factors[size_t(i)] = factor;
    for (float &weight : first.weights.row(i))
      weight /= float(factor);
    bias[size_t(i)] /= float(factor);
  }
  scaleInputs(second, factors);
  if (!first.bias.empty())
    storeBias(model, first, bias);
}

/// Whether the tensor's factors can go into the layer normalisation that gives it.
bool foldIntoNorm(ModelGraph &model, const std::string &tensor, size_t readers,
                  const std::vector<double> &factors) {
  int producer = model.producer(tensor);
  if (producer < 0 || model.isReadElsewhere(tensor) || model.readers(tensor).size() != readers)
    return false;
  onnx::NodeProto &norm = *model.graph().mutable_node(producer);
  if (norm.op_type() != "LayerNormalization" || !isStandard(norm) || norm.input_size() < 2)
    return false;
  Shape shape = {int64_t(factors.size())};
  for (int i = 1; i < norm.input_size(); ++i) {
    auto parameter = model.constant(norm.input(i));
    if (!parameter || parameter->type() != DataType::F32 || parameter->shape() != shape)
      return false;
  }
  for (int i = 1; i < norm.input_size(); ++i) {
    auto parameter = model.constant(norm.input(i));
    HostTensor scaled(DataType::F32, shape);
    for (int64_t j = 0; j < scaled.size(); ++j)
      scaled.setDouble(j, parameter->getDouble(j) / factors[size_t(j)]);
    norm.set_input(i, model.addConstant(norm.input(i) + "_smoothed", scaled));
  }
  return true;
}

/// Divides what these layers read, and multiplies their weights.
void divideInput(ModelGraph &model, std::vector<Layer *> readers,
                 const std::vector<double> &factors) {
  std::string tensor = readers[0]->input;
  if (!foldIntoNorm(model, tensor, readers.size(), factors)) {
    HostTensor inverse(DataType::F32, {int64_t(factors.size())});
    for (int64_t i = 0; i < inverse.size(); ++i)
      inverse.setDouble(i, 1 / factors[size_t(i)]);
    std::string constant = model.addConstant(tensor + "_smoothing", inverse);
    std::string divided =
        model.insertBefore(readers[0]->node, "Mul", tensor + "_smoothed", {tensor, constant})
            .output(0);
    for (Layer *layer : readers) {
      model.graph().mutable_node(layer->node)->set_input(0, divided);
      layer->input = divided;
    }
  }
  for (Layer *layer : readers) {
    scaleInputs(*layer, factors);
    storeWeights(model, *layer);
  }
}

/// The layers by the tensor that they read, in the graph's order; matrices alone.
std::vector<std::vector<Layer *>> byInput(std::vector<Layer> &layers) {
  std::map<std::string, size_t> places;
  std::vector<std::vector<Layer *>> result;
  for (Layer &layer : layers) {
    if (layer.op == "Conv" || !layer.kept.empty())
      continue;
    auto [place, isNew] = places.emplace(layer.input, result.size());
    if (isNew)
      result.emplace_back();
    result[place->second].push_back(&layer);
  }
  return result;
}

/// Nodes came in between: layers are found by their outputs again.
void insertBetween(ModelGraph &model, std::vector<Layer> &layers) {
  std::vector<std::string> outputs;
  for (const Layer &layer : layers)
    outputs.push_back(model.graph().node(layer.node).output(0));
  model.insertAll();
  for (size_t i = 0; i < layers.size(); ++i)
    layers[i].node = model.producer(outputs[i]);
}

/// What the outputs err by with inputs that are scaled like that, where weights are rounded.
double errorOf(const Layer &layer, const Moments &moments, const std::vector<double> &factors,
               bool bestRange) {
  Layer scaled = layer;
  scaleInputs(scaled, factors);
  Matrix rounded = roundNearest(scaled.weights, layer.weightFormat, bestRange).decoded();
  for (int64_t i = 0; i < rounded.rows; ++i)
    for (int64_t j = 0; j < rounded.columns; ++j)
      rounded.row(i)[size_t(j)] /= float(factors[size_t(j)]);
  return outputError(layer.weights, rounded, moments);
}

std::vector<double> powers(const InputStatistics &input, double exponent) {
  std::vector<double> factors(input.most.size());
  double logs = 0;
  for (size_t i = 0; i < factors.size(); ++i) {
    factors[i] = bounded(std::pow(input.meanMagnitude(int64_t(i)), exponent));
    logs += std::log(factors[i]);
  }
  double mean = std::exp(logs / double(std::max<size_t>(factors.size(), 1)));
  for (double &factor : factors)
    factor = bounded(factor / mean);
  return factors;
}

} // namespace

int64_t equalise(ModelGraph &model, std::vector<Layer> &layers) {
  std::set<const Layer *> changed;
  int64_t pairs = 0;
  for (int round = 0; round < kRounds; ++round)
    for (Layer &layer : layers) {
      Layer *next = layer.kept.empty() ? follower(model, layers, layer) : nullptr;
      auto bias = next ? biasOf(model, layer) : std::nullopt;
      // A product of matrices has no bias of its own, and needs none.
      if (next && !bias && layer.op == "MatMul")
        bias = std::vector<float>(size_t(layer.weights.rows), 0.0f);
      if (!bias || next->inputChannels() != layer.weights.rows)
        continue;
      equalise(model, layer, *next, *bias);
      pairs += round == 0;
      changed.insert({&layer, next});
    }
  for (const Layer *layer : changed)
    storeWeights(model, *layer);
  return pairs;
}

void smooth(ModelGraph &model, std::vector<Layer> &layers, const Statistics &statistics,
            double exponent) {
  for (std::vector<Layer *> &readers : byInput(layers)) {
    const InputStatistics &input = statistics.of(*readers[0]);
    std::vector<double> weights(input.most.size(), 0), factors(input.most.size(), 1);
    for (Layer *layer : readers)
      std::ranges::transform(weights, mostByInput(*layer), weights.begin(),
                             [](double a, double b) { return std::max(a, b); });
    for (size_t i = 0; i < factors.size(); ++i)
      factors[i] = bounded(std::pow(input.most[i], exponent) / std::pow(weights[i], 1 - exponent));
    divideInput(model, readers, factors);
  }
  insertBetween(model, layers);
}

void scaleForWeights(ModelGraph &model, std::vector<Layer> &layers, const Statistics &statistics,
                     bool bestRange) {
  constexpr int kExponents = 10; // tried, from 0 on
  for (std::vector<Layer *> &readers : byInput(layers)) {
    const InputStatistics &input = statistics.of(*readers[0]);
    std::vector<double> best;
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kExponents; ++i) {
      std::vector<double> factors = powers(input, double(i) / kExponents);
      double error = 0;
      for (Layer *layer : readers)
        if (const Moments *moments = statistics.momentsOf(*layer))
          error += errorOf(*layer, *moments, factors, bestRange);
      if (error < least) {
        least = error;
        best = std::move(factors);
      }
    }
    bool changes = std::ranges::any_of(best, [](double factor) { return factor != 1; });
    if (changes)
      divideInput(model, readers, best);
  }
  insertBetween(model, layers);
}

} // namespace tensmith::quantize

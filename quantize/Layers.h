// The operators that are quantised: what each says of itself, and what becomes of it.
//
// A layer is a node whose weights are constant. Its record says where its weights lie, along which
// axis its outputs are counted, and in which formats it is quantised by default. Rules of the user
// change these formats for single layers.
#pragma once

#include "quantize/ModelGraph.h"
#include "quantize/Rounding.h"
#include "quantize/Settings.h"

namespace tensmith::quantize {

struct Layer {
  int node = 0; ///< its number in the graph; moves when nodes come in between
  std::string name, op;
  std::string input, weight, bias; ///< tensors; no bias: empty
  int64_t inputAxis = 1;           ///< of channels, from the front; -1: the last
  int64_t outputAxis = 0;          ///< of the weights
  int64_t groups = 1;              ///< of a convolution
  Shape shape;                     ///< of the weights
  Matrix weights;                  ///< a row for each output
  Format weightFormat, activationFormat;
  std::string kept; ///< why it stays in float; empty: it is quantised

  bool quantisesWeights() const { return kept.empty() && !weightFormat.isFloat(); }
  bool quantisesActivations() const { return kept.empty() && !activationFormat.isFloat(); }
  /// Of the inputs' channels, one for each of the weights' own.
  int64_t inputChannels() const;
  /// The input channel of a weight.
  int64_t inputChannel(int64_t row, int64_t column) const;
  /// How many columns each of a group's input channels has: the window of a convolution.
  int64_t window() const;
  /// Along which groups of a scale lie; of matrices alone.
  int64_t reductionAxis() const { return 1 - outputAxis; }
};

/// The layers of the main graph, in its order, with the formats that the settings give them.
/// InvalidArgument where a rule fits no layer.
Result<std::vector<Layer>> findLayers(ModelGraph &model, const Settings &settings);

/// The layer's weights as the model has them.
HostTensor weightTensor(const Layer &layer, const Matrix &weights, DataType type = DataType::F32);
/// Writes `weights` into the model.
void storeWeights(ModelGraph &model, const Layer &layer);
/// The bias, of zeros where there is none yet; nothing where the operator has none, or it isn't a
/// constant of a number for each output.
std::optional<std::vector<float>> biasOf(const ModelGraph &model, const Layer &layer);
/// Writes it, into a new constant.
void storeBias(ModelGraph &model, Layer &layer, const std::vector<float> &bias);

} // namespace tensmith::quantize

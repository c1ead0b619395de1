// Codes written into the model: QuantizeLinear and DequantizeLinear around its layers, which any
// runtime computes as floats, and a compiler as integers.
//
//   input ─ Q ─ DQ ─┐
//   codes ───── DQ ─┼─ layer        the bias: codes of 32 bits, of the product's scale
//   bias ────── DQ ─┘
//
// Activations of other than 8 or 16 bits are clipped before Q to what their codes reach, and stored
// in 8 bits; weights of up to 4 bits are stored in 4 where activations stay floats, and in bytes,
// which integer kernels multiply, elsewhere.
#pragma once

#include "quantize/Layers.h"

namespace tensmith::quantize {

/// What a layer is quantised to.
struct LayerCodes {
  Codes weights;
  Step input; ///< of activations
};

struct Realisation {
  /// Weights stay floats, which the model rounds.
  bool forTraining = false;
  /// Each layer has a constant of one boolean, `switchName` of its number, that says whether it is
  /// quantised.
  bool hasSwitches = false;
};

std::string switchName(size_t layer);

/// One entry of `codes` for each layer; those of layers that are kept are not read. Layers' numbers
/// of nodes are not kept up. Unsupported where the model's opset can't be raised as far as the
/// codes need; InvalidArgument of formats that can't be realised like that.
Status realise(ModelGraph &model, const std::vector<Layer> &layers,
               const std::vector<LayerCodes> &codes, const Realisation &how);

} // namespace tensmith::quantize

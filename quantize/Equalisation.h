// Weights and inputs scaled so that both are rounded more finely; what the model computes stays the
// same.
#pragma once

#include "quantize/Statistics.h"

namespace tensmith::quantize {

/// Cross-layer equalisation (Nagel et al., "Data-Free Quantization through Weight Equalization and
/// Bias Correction", 2019): output i of a layer is divided by s, and the weights that read it in
/// the next layer are multiplied by s, where both reach equally far then. Between the two may stand
/// what commutes with positive factors: rectifications, and pools of each channel. Gives how many
/// pairs there were.
int64_t equalise(ModelGraph &model, std::vector<Layer> &layers);

/// SmoothQuant (Xiao et al., 2023): input channels are divided by most(x)^a / most(w)^(1 - a), and
/// weights multiplied by it. The factor goes into the layer normalisation before, or else is a
/// multiplication. With matrices alone.
void smooth(ModelGraph &model, std::vector<Layer> &layers, const Statistics &statistics,
            double exponent);

/// AWQ: the factors are mean(|x|)^a, with that a of 0 to 1 by which the outputs of all layers that
/// read the tensor err least once their weights are rounded.
void scaleForWeights(ModelGraph &model, std::vector<Layer> &layers, const Statistics &statistics,
                     bool bestRange);

} // namespace tensmith::quantize

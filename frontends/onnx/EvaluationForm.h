// A model that was exported for training, as PyTorch's TrainingMode.PRESERVE does, in the form for
// evaluation, which others run as it is meant after training.
#pragma once

#include "frontends/onnx/Model.h"

namespace tensmith::onnx_import {

/// Dropout loses its operand training_mode, and BatchNormalization its attribute training_mode and
/// the outputs that only training has; where those are read, they are the running statistics.
/// Subgraphs and functions included.
void evaluationForm(onnx::ModelProto &model);

} // namespace tensmith::onnx_import

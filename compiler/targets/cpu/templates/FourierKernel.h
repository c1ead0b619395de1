// The transforms around the products of a convolution by Fourier transforms (graph.fourier_input,
// graph.fourier_output), and a depthwise one as a whole (graph.fourier_conv).
#pragma once
#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

/// Whether the operator is one of these that there is code for: of known channels, in f32.
bool isFourierRoot(mlir::Operation *op);

extern const Template kFourier;

} // namespace tensmith::kernel

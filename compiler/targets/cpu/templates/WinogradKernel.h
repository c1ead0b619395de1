// The transforms around the products of a Winograd convolution (graph.winograd_input,
// graph.winograd_output): tile by tile, vectors of channels through small constant matrices.
#pragma once
#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

/// Whether the operator is a transform of images that there is code for: of known channels, in f32,
/// or of integers, from i16 and back from i32.
bool isWinogradTransform(mlir::Operation *op);

extern const Template kWinograd;

} // namespace tensmith::kernel

// The transforms around the products of a Winograd convolution (graph.winograd_input,
// graph.winograd_output): tile by tile, vectors of channels through small constant matrices.
#pragma once
#include "compiler/kernel/KernelFrame.h"

namespace tensmith::kernel {

/// Whether the operator is a transform of images that there is code for: of known channels, in f32,
/// or of integers, from i16 and back from i32.
bool isWinogradTransform(mlir::Operation *op);

/// The region has one such operator, which reads a block argument; those that follow it are
/// element-wise and keep its shape.
Template winogradTemplate(graph::KernelOp kernel, mlir::Operation *root,
                          const MachineShape &machine);

} // namespace tensmith::kernel

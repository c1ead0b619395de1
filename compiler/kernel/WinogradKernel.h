// The transforms around the products of a Winograd convolution (graph.winograd_input,
// graph.winograd_output): tile by tile, vectors of channels through small constant matrices.
#pragma once
#include "compiler/kernel/KernelFrame.h"

namespace tensmith::kernel {

/// The transforms of images whose matrices are whole numbers: exact in integers.
inline constexpr int64_t kWholeOutputs = 2, kWholeTaps = 3;

/// Whether the operator is a transform of images that there is code for: of known channels, in f32,
/// or by whole numbers from i16 and back to i32.
bool isWinogradTransform(mlir::Operation *op);

/// The region has one such operator, which reads a block argument; those that follow it are
/// element-wise and keep its shape.
Template winogradTemplate(graph::KernelOp kernel, mlir::Operation *root,
                          const MachineShape &machine);

} // namespace tensmith::kernel

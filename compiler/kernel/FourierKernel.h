// The transforms around the products of a convolution by Fourier transforms (graph.fourier_input,
// graph.fourier_output), and a depthwise one as a whole (graph.fourier_conv).
#pragma once
#include "compiler/kernel/KernelFrame.h"

namespace tensmith::kernel {

/// Whether the operator is one of these that there is code for: of known channels, in f32.
bool isFourierRoot(mlir::Operation *op);

/// The region has one such operator, whose operands are block arguments (but a bias); those that
/// follow it are element-wise and keep its shape.
Template fourierTemplate(graph::KernelOp kernel, mlir::Operation *root,
                         const MachineShape &machine);

} // namespace tensmith::kernel

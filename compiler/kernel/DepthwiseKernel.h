// The template around a depthwise convolution: vectors of channels, one tap after the other.
#pragma once
#include "compiler/kernel/KernelFrame.h"

namespace tensmith::kernel {

/// Whether there is a tile for the depthwise convolution: channels-last, of f32, a window of few
/// taps.
bool takesDepthwise(graph::ConvOp conv);
/// The same in a kernel: its taps are in a buffer, its input too, or computed by a chain.
bool isDepthwiseRoot(graph::ConvOp conv);

/// Operators after the root are element-wise and keep its shape.
Template depthwiseTemplate(graph::KernelOp kernel, graph::ConvOp root, const MachineShape &machine,
                           const Schedule &asked);

} // namespace tensmith::kernel

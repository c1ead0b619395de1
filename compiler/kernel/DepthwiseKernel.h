// The template around a depthwise convolution: vectors of channels, one tap after the other.
#pragma once
#include "compiler/kernel/KernelFrame.h"

namespace tensmith::kernel {

/// Whether a depthwise template takes the convolution: channels-last, its input and its taps in
/// buffers, a window of few taps.
bool isDepthwiseRoot(graph::ConvOp conv);

/// Operators after the root are element-wise and keep its shape.
Template depthwiseTemplate(graph::KernelOp kernel, graph::ConvOp root, const MachineShape &machine,
                           const Schedule &asked);

} // namespace tensmith::kernel

// The template around a depthwise convolution, or one of small groups: vectors of channels, one tap
// after the other.
#pragma once
#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

/// Whether a kernel may be built around it: its weights are in a buffer, its input too, or (of a
/// depthwise one) computed by a chain.
bool isDepthwiseRoot(graph::ConvOp conv);
bool isSmallGroupsRoot(graph::ConvOp conv);

extern const Template kDepthwise;

} // namespace tensmith::kernel

// The template around a depthwise convolution, or one of small groups: vectors of channels, one tap
// after the other.
#pragma once
#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

/// Whether there is a kernel for the convolution, of small groups, whose weights are f32 in memory
/// as well.
bool takesSmallGroups(graph::ConvOp conv);
/// Whether there is a kernel for its pairs of bf16, of groups of at least eight channels, where
/// image and weights are bf16 or, being f32 both, were rounded.
bool takesPairsOfGroups(graph::ConvOp conv, const Machine &machine);
/// Whether a kernel may be built around it: its weights are in a buffer, its input too, or (of a
/// depthwise one) computed by a chain.
bool isDepthwiseRoot(graph::ConvOp conv);
bool isSmallGroupsRoot(graph::ConvOp conv);

extern const Template kDepthwise;

} // namespace tensmith::kernel

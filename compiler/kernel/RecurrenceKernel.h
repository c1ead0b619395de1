// The template for a loop of the model whose body is small: all its iterations in one kernel.
#pragma once

#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

/// Whether the loop can be a kernel, and is better one than called for each iteration: each
/// operator of its body has code for single elements and a result of known size, and an iteration
/// is less work than calling its kernels.
bool isRecurrence(graph::LoopOp loop, const Machine &machine);

extern const Template kRecurrence;

} // namespace tensmith::kernel

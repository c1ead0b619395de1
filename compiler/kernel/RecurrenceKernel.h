// The template for a loop of the model whose body is small: all its iterations in one kernel.
#pragma once

#include "compiler/kernel/KernelFrame.h"

namespace tensmith::kernel {

/// Whether the loop can be a kernel, and is better one than called for each iteration: each
/// operator of its body has code for single elements and a result of known size, and an iteration
/// is less work than calling its kernels.
bool isRecurrence(graph::LoopOp loop);

/// The kernel has nothing but the loop and scalar constants, and gives the loop's results.
Template recurrenceTemplate(graph::KernelOp kernel, graph::LoopOp loop);

} // namespace tensmith::kernel

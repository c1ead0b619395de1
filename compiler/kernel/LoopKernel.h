// The template that takes every region: a parallel loop nest over the elements of its results.
#pragma once
#include "compiler/kernel/KernelFrame.h"

namespace tensmith::kernel {

/// All results have one shape. An item is a block of consecutive elements along the last dimension.
Template loopTemplate(graph::KernelOp kernel, const MachineShape &machine, const Schedule &asked);

} // namespace tensmith::kernel

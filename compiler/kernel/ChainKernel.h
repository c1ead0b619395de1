// The template around a chain of convolutions: a band of lines of the last one at a time.
#pragma once
#include "compiler/kernel/ConvChain.h"
#include "compiler/kernel/KernelFrame.h"

namespace tensmith::kernel {

/// `chain` is what `chainBehind` gives of the region's root. Operators after each convolution are
/// element-wise and keep its shape.
Template chainTemplate(graph::KernelOp kernel, llvm::ArrayRef<graph::ConvOp> chain,
                       const MachineShape &machine, const Schedule &asked);

} // namespace tensmith::kernel

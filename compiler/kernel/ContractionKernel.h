// The template around a matrix product or a convolution: register tiles over packed panels, with
// the element-wise operators that follow applied to the tile before it is stored.
#pragma once
#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/KernelFrame.h"

namespace tensmith::kernel {

/// The region's root must match (Contraction.h). Operators after it are element-wise and keep its
/// shape; operators before its left operand are computed into the tile's own copy of the rows,
/// attention's scores among them.
Template contractionTemplate(graph::KernelOp kernel, const Contraction &contraction,
                             const MachineShape &machine, const Schedule &asked);

} // namespace tensmith::kernel

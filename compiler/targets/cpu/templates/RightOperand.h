// The right operand of a product or a convolution, as its kernel takes it: laid out in panels
// before the kernel, where the template finds it, and taken back to its own form inside
// (Template.h).
#pragma once

#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

LaidOut layOutRight(mlir::Operation *root, graph::GraphBuilder &graph, const Machine &machine,
                    const Point &asked);

} // namespace tensmith::kernel

// What the templates of products and convolutions compute beside their root: attention's scores,
// the convolutions of a chain, what a pointwise convolution's rows are made by (Template.h).
#pragma once

#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

Companions companionsOf(mlir::Operation *root, const Surroundings &around);

} // namespace tensmith::kernel

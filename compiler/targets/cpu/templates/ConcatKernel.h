// The template around a concatenation: one copy for each input, with the element-wise operators
// that follow.
#pragma once
#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

/// The inputs are block arguments; operators after the root are element-wise and keep its shape.
bool isConcatRoot(mlir::Operation *op);
extern const Template kConcat;

} // namespace tensmith::kernel

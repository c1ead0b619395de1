// What follows an operator, in the steps that libraries do with it; see Operators.h.
#pragma once

#include "compiler/kernel/Operators.h"

namespace tensmith::kernel {

/// The step that all uses of the value, which has the root's shape, are; nothing where there is
/// none.
std::optional<OperatorStep> stepBehind(mlir::Value value);

} // namespace tensmith::kernel

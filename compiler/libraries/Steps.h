// What follows an operator, in the steps that libraries do with it; see Libraries.h.
#pragma once

#include "compiler/libraries/Libraries.h"

namespace tensmith::libraries {

/// The step that all uses of the value, which has the root's shape, are; nothing where there is
/// none.
std::optional<Step> stepBehind(mlir::Value value);

} // namespace tensmith::libraries

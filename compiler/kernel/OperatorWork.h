// The work of an operator that is in no kernel (Work.h).
#pragma once

#include "compiler/kernel/Work.h"

namespace tensmith::kernel {

/// Nothing where a tensor of it has no known rank.
std::optional<Work> workOfOperator(mlir::Operation *op);

} // namespace tensmith::kernel

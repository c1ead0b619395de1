// Evaluation with the operators that only rewrites of the compiler make, and that have kernels
// wherever they are made (fourier_*): in a library of its own, which the runtime does without.
#pragma once

#include "reference/Reference.h"

namespace tensmith::reference {

/// `evaluate`, of these operators too.
Result<std::vector<HostTensor>> evaluateAll(const Invocation &invocation);

} // namespace tensmith::reference

// Operators on blocks of few bits; see Blocks.cpp. They are rows of quantisation's table.
#pragma once

#include "reference/Reference.h"

namespace tensmith::reference {

Result<std::vector<HostTensor>> evaluateBlockValues(const Invocation &invocation);
Result<std::vector<HostTensor>> evaluateBlockProduct(const Invocation &invocation);
Result<std::vector<HostTensor>> evaluateCachedAttention(const Invocation &invocation);

} // namespace tensmith::reference

// Operators on bit planes; see Bits.cpp. They are rows of quantisation's table.
#pragma once

#include "reference/Reference.h"

namespace tensmith::reference {

Result<std::vector<HostTensor>> evaluateBitPack(const Invocation &invocation);
Result<std::vector<HostTensor>> evaluateBitConv(const Invocation &invocation);

} // namespace tensmith::reference

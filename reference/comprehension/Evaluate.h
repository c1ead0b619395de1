// The meaning of a comprehension: its statements one after the other, a point at a time.
#pragma once

#include "base/HostTensor.h"
#include "reference/comprehension/Analysis.h"

namespace tensmith::comprehension {

/// The values of all tensors from those of the inputs; or of one statement's target from those of
/// its operands (operandsOf). Others are left empty. InvalidArgument where sizes or indices
/// contradict the function.
Result<std::vector<HostTensor>> evaluate(const Function &function,
                                         std::span<const HostTensor> operands,
                                         std::optional<size_t> statement);

} // namespace tensmith::comprehension

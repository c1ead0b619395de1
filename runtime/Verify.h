// What a plan must satisfy before anything in it is believed.
#pragma once

#include "base/Status.h"
#include "runtime/plan_generated.h"

#include <span>

namespace tensmith::runtime {

/// Nesting of functions through If and Loop; each level takes stack of the running thread.
inline constexpr int kMaxCallDepth = 256;

/// Checks bytes that come from a file: the FlatBuffer's own structure, then every index, type,
/// order of definition, storage and signature. After it the interpreter reads nothing out of
/// bounds, whatever the plan says; kernels' code is trusted by the hash alone. Errors:
/// InvalidModule.
Result<const plan::Module *> verifyPlan(std::span<const std::byte> bytes, uint64_t weightsBytes);

} // namespace tensmith::runtime

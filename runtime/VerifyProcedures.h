// Verification of a plan's procedures and of what they refer to; part of runtime/Verify.h.
#pragma once

#include "runtime/plan_generated.h"

#include <string>

namespace tensmith::runtime {

/// What is wrong with the first procedure or constant that is not valid, or an empty text. Ensures
/// that every position that control can reach is an instruction whose registers, targets and
/// numbers of operands fit. What registers hold is checked as the instructions run.
std::string verifyProcedures(const plan::Module &module, uint64_t weightsBytes);

/// The words of the instruction at `position`, or 0 where it is none or goes past the end.
uint32_t instructionLength(const uint32_t *code, uint32_t size, uint32_t position);

} // namespace tensmith::runtime

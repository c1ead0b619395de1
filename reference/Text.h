// The operators of the text family that have files of their own.
#pragma once

#include "reference/Workspace.h"

namespace tensmith::reference {

Outcome evaluateRegexFullMatch(const Invocation &invocation);
Outcome evaluateCountNgrams(const Invocation &invocation);
Outcome evaluateLookUp(const Invocation &invocation);
Outcome evaluateDecodeImage(const Invocation &invocation);

/// A required operand of strings.
const HostTensor &stringOperand(Workspace &workspace, size_t index, std::string_view name);

} // namespace tensmith::reference

// The evaluator of attention, part of the normalisation family's table.
#pragma once

#include "reference/Workspace.h"

namespace tensmith::reference {

Outcome evaluateAttention(const Invocation &invocation);

} // namespace tensmith::reference

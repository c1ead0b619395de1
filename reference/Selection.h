// Choosing boxes, which has a file of its own.
#pragma once

#include "reference/Workspace.h"

namespace tensmith::reference {

/// ONNX NonMaxSuppression.
Outcome evaluateNonMaxSuppression(const Invocation &invocation);

} // namespace tensmith::reference

// The evaluators of the resampling family that have a file of their own.
#pragma once

#include "reference/Workspace.h"

namespace tensmith::reference {

Outcome evaluateResize(const Invocation &invocation);
Outcome evaluateGridSample(const Invocation &invocation);
Outcome evaluateAffineGrid(const Invocation &invocation);
Outcome evaluateRoiAlign(const Invocation &invocation);
Outcome evaluateMaxRoiPool(const Invocation &invocation);

} // namespace tensmith::reference

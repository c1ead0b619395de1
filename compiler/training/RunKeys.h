// Random numbers of a step that follow from the steps before it alone.
//
// before: random_normal(run_key)      after: random_normal(step, or that and the process's number)
//
// So a step that is made again draws what it drew, as after a run that was resumed from its
// checkpoint; see Dropout.h, which counts by the same.
#pragma once

#include "compiler/training/StepFunction.h"

#include "compiler/graph/GraphCode.h"

namespace tensmith::training {

/// `step` counts the runs before this one; `process` is null where there is one process.
void replaceRunKeys(StepFunction &function, mlir::Value step, mlir::Value process,
                    graph::GraphCode &code);

} // namespace tensmith::training

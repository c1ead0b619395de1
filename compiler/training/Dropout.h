// Dropout with numbers that are a function of the seed, the step and the element alone.
//
// before: dropout(x, ratio, true) {seed}      after: where(philox(seed; element, step) >= ratio, x
// / (1 - ratio), 0)
//
// So the masks of a step that is made again are the same ones, as after a run that was resumed from
// its checkpoint, and all that a mask depends on is a state that is saved: the count of steps.
#pragma once

#include "compiler/training/StepFunction.h"

#include "compiler/graph/GraphCode.h"

namespace tensmith::training {

/// Replaces the operators of the function that drop; `step` counts the runs before this one. With a
/// `process` (its number; null: the only one) the numbers are those that the elements have in the
/// batch of all processes, of which each has as many samples, along the first dimension.
Status replaceDropout(StepFunction &function, mlir::Value step, mlir::Value process,
                      graph::GraphCode &code);

} // namespace tensmith::training

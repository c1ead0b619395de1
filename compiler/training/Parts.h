// The update of whole tensors made one of the parts that each of several processes has of them.
//
// before: main(gradient.w: [m, n], scale, w: [m, n], mean.w: [m, n], step) -> (w', mean.w', step')
// after:  main(gradient.w: [p], scale, process, w: [p], mean.w: [p], step) -> (w', mean.w', step')
//
// A tensor is shared out as one vector, row by row, of which each process has p elements; the last
// parts are filled up. Element-wise operators take parts as they take the whole. A sum over all
// elements is one over the part's own, and then over the processes; sums that wait for no other of
// these go together, as one vector. Sizes were put in before, so that a mean is that of the whole.
// What reads the elements in any other way is refused.
#pragma once

#include "compiler/training/StepFunction.h"
#include "compiler/training/Updates.h"

#include "compiler/graph/GraphCode.h"

namespace tensmith::training {

/// Of a function whose arguments are "<any>.<name>" of those tensors that are shared out, and
/// numbers. `process` is the number of the process, an i64.
Status takeParts(StepFunction &function, llvm::ArrayRef<Updated> tensors, int64_t processes,
                 mlir::Value process, graph::GraphCode &code);

} // namespace tensmith::training

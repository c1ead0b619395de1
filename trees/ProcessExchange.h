// Training by several processes, over the transport of `tensmith train` (train/Processes.h): each
// has some of the rows, in the order of the processes, and all get the same forest.
#pragma once

#include "trees/Training.h"

namespace tensmith::trees {

/// As `train`. `together`: by all processes that this one was started with (mpirun), if there are
/// others. Errors: that MPI's library is missing, or that another process failed.
Result<Forest> trainTogether(const TrainingInput &input, const Parameters &parameters,
                             bool together);

} // namespace tensmith::trees

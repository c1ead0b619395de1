// Which split finder a training uses.
#pragma once

#include "trees/Cuts.h"
#include "trees/SplitFinder.h"
#include "trees/Training.h"

#include <memory>

namespace tensmith::trees {

/// A finder, and what it reads.
struct FinderWithCuts {
  Matrix matrix; // of another form than the caller's, where that suits the finder better
  Cuts cuts;
  std::unique_ptr<SplitFinder> finder;
};

/// By the method, and for histograms by how many of the values are present: rows with fewer than
/// one in five are kept sparse, others dense, however they came.
Result<std::unique_ptr<FinderWithCuts>> openFinder(const TrainingInput &input,
                                                   const Parameters &parameters, Threads &threads);

} // namespace tensmith::trees

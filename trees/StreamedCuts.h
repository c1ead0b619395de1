// The cuts of Cuts.h for data that is larger than memory: exactly the same ones, found in passes
// over the rows in the order in which they lie.
//
// Of a feature with few values a small set of them is kept. Else the first pass sums weights by the
// upper 16 bits of the values' keys, and two more by the next 8 bits each, behind those prefixes
// alone that a sought rank falls under. A key finds its prefix by two look-ups, since the branches
// of a search among the prefixes can't be foreseen. Memory is about 0.8 MB a feature with 256 bins,
// more with more bins, whatever the rows.
#pragma once

#include "trees/Cuts.h"

namespace tensmith::trees {

struct StreamedCuts {
  Cuts cuts;
  std::vector<uint8_t> hasMissing; // by feature
};

/// `matrix` is dense, and may be a mapped file.
StreamedCuts makeCutsInPasses(const Matrix &matrix, int64_t maxBins, Threads &threads);

} // namespace tensmith::trees

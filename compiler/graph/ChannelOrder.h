// The two orders of an image's dimensions, as permutations for `graph.transpose`.
#pragma once

#include "llvm/ADT/SmallVector.h"

namespace tensmith::graph {

/// From [N, C, spatial...] to [N, spatial..., C].
inline llvm::SmallVector<int64_t> toChannelsLast(int64_t rank) {
  llvm::SmallVector<int64_t> permutation{0};
  for (int64_t dim = 2; dim < rank; ++dim)
    permutation.push_back(dim);
  permutation.push_back(1);
  return permutation;
}

/// And back.
inline llvm::SmallVector<int64_t> toChannelsFirst(int64_t rank) {
  llvm::SmallVector<int64_t> permutation{0, rank - 1};
  for (int64_t dim = 1; dim + 1 < rank; ++dim)
    permutation.push_back(dim);
  return permutation;
}

} // namespace tensmith::graph

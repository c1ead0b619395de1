// What statements touch of a tensor within one iteration of loops: a box of fixed size that holds
// it, and which of the box's elements there are.
//
// The image of the accesses at the values of the loops is a relation of isl; of its hull the
// constraints on a single index are bounds, and a pair whose distance is affine in the sizes alone
// gives the box. So the box of a tile that is cut off is that of a whole one, and of a triangle the
// square around it.
#pragma once

#include "compiler/nest/NestChange.h"

namespace tensmith::nest {

struct Footprint {
  std::vector<std::string> at;      // names for the values of the loops
  std::vector<Affine> low;          // the least index of each dimension, over `at` and parameters
  std::vector<Affine> extents;      // of the box, over parameters
  std::vector<std::string> indices; // names for the tensor's indices
  /// Of all that is touched; over `at`, `indices` and parameters. Some more may fulfil them.
  std::vector<Constraint> points;
  bool isExact = false; // none more
};

struct Bounds {
  Affine low, extent;
};

/// Of a relation to one index: by the pair of constraints that is nearest, where the extent is
/// affine in parameters alone.
std::optional<Bounds> boundsOf(const isl::map &map, const std::vector<std::string> &at);

/// { [values of the loops] -> T[index...] : some of the accesses touch it }
isl::map touched(const NestChange &change, const std::vector<const Node *> &loops,
                 const std::vector<std::string> &statements,
                 const std::function<bool(const Access &)> &isMeant);

/// Of the relation, which is within the tensor. Fails where there is no such box, in words.
Result<Footprint> footprintOf(const isl::map &touched, const Tensor &tensor,
                              const Relations &relations, std::vector<std::string> at);

} // namespace tensmith::nest

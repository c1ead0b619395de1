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

/// The box's names for the loops' values, and these.
std::map<std::string, Affine> valuesAt(const Footprint &box, const std::vector<Affine> &at);

/// Where an element of the tensor is in one that holds the box, with an instance for each value of
/// the loops: their values `at`, then the places within the box, its dimensions in `order`.
std::vector<Affine> placed(const Footprint &box, const std::vector<int64_t> &order,
                           const std::vector<Affine> &at, const std::vector<Affine> &indices);

/// The first `rank` indices, which are affine.
std::vector<Affine> affineIndices(const std::vector<Expr> &indices, size_t rank);
std::vector<Expr> asIndices(const std::vector<Affine> &indices);

/// The statement loads from `to`, at what `place` makes of the indices, what it loaded from `from`.
void redirectLoads(
    Statement &statement, const std::string &from, const std::string &to,
    const std::function<std::vector<Affine>(const std::vector<Affine> &indices)> &place);

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

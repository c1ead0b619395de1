// Elements that a loop accumulates into, kept in registers for all of its iterations.
//
// Problem: the sum of a register tile must not go to memory with every step of k. LLVM finds that
// for few shapes, and not for vectors that are cut off.
// Method: of an outermost serial loop whose body writes a tensor at places that do not depend on
// the loop or the loops within, and which are the same or apart, all of them are loaded before the
// loop and stored behind it. A reduction along the vector loop is kept as a vector of partial
// results. Invariant: within the loop the tensor's elements are touched through those registers
// alone.
#pragma once

#include "compiler/nest/LoopProgram.h"

namespace tensmith::nest {

/// Notes the accumulators on loops; of more than so many none.
void promoteAccumulators(LoopProgram &program, const Nest &nest, size_t most);

/// Where a statement's point touches a tensor.
struct Place {
  std::string tensor;
  std::vector<Affine> indices; // over loops' variables; empty where isAffine is not
  bool isAffine = true;
};
/// An affine index of a statement at a point.
Affine composed(const Affine &affine, const Statement &statement,
                const std::vector<Affine> &arguments);
Place placeOf(const std::string &tensor, const std::vector<Expr> &indices, size_t rank,
              const Statement &statement, const std::vector<Affine> &arguments);

/// How a place changes from lane to lane.
enum class Along : uint8_t { Uniform, Contiguous, Scattered };
Along alongLanes(const LoopProgram &program, const Tensor &tensor, const Place &place,
                 const Lanes &lanes);

/// Of a tile, the arguments of its points in each row of results: the variables of the result's
/// dimensions but the last are replaced. And the lanes of a row.
std::vector<std::vector<Affine>> rowsOf(const Step &tile);
Lanes lanesOf(const Step &tile);

} // namespace tensmith::nest

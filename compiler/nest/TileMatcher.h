// Unification of one tile of loops with a declaration (TileIntrinsic.h).
//
// The value is read as the declaration's, up to commuted operands; then an order of the loops is
// looked for in which each operand depends on its dimensions alone, and lies in memory as the
// instruction takes it: from inside out its strides are those of dense rows.
#pragma once

#include "compiler/nest/Tensorize.h"

namespace tensmith::nest {

struct TileLoop {
  std::string variable, name; // in the program, and in the tree
  int64_t count;
};

struct TileFit {
  std::vector<size_t> loops;              // by the declaration's dimensions
  std::vector<const Expression *> inputs; // loads of the statement's value, by its inputs
};

/// `point` is a point over the loops' variables. Where it doesn't fit, `refusal` says why.
std::optional<TileFit> fitTile(const LoopProgram &program, const Nest &nest, const Step &point,
                               const std::vector<TileLoop> &loops, const TileIntrinsic &intrinsic,
                               TileRefusal &refusal);

} // namespace tensmith::nest

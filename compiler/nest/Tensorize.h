// Tiles of loops that one instruction computes.
//
// Problem: an instruction that adds up products of whole tiles is worth several vectors, and a loop
// that computes something else must never become one.
// Method: the loops of a tile are marked in the tree. When loops have been generated and whole
// tiles told apart (LoopProgram.h), the body of each whole one is unified with the instruction's
// declaration (TileIntrinsic.h): its value up to commuted operands, its loops up to their order,
// and each operand's place in memory by its strides. An operand that does not depend on a dimension
// is the same along it. What is found is a step of its own; tiles that are cut off stay loops.
// Invariant: a tile has one statement and nothing else; its loops carry no dependence but that
// statement's accumulation (Dependences.h). So the points of a tile may run at once, and the
// instruction does what they do, since all that it reads and writes was found equal.
//
// Source: T. Chen et al., TVM, OSDI 2018 (tensorization).
#pragma once

#include "compiler/nest/LoopProgram.h"
#include "compiler/nest/TileIntrinsic.h"

namespace tensmith::nest {

struct Tile {
  std::shared_ptr<const TileIntrinsic> intrinsic;
  std::vector<std::string> variables;     // of the loops, by the instruction's dimensions
  std::vector<const Expression *> inputs; // loads of the statement's value

  int64_t points() const;
};

/// Why a statement's tile is no instruction's, in words; and the copy in a layout that would help.
struct TileRefusal {
  std::string words; // empty: there is no refusal
  std::optional<CacheRequest> packing = {};
};

/// Turns the loops of whole tiles into steps of instructions, all others into serial loops. Refuses
/// if a statement that the tree marks has no tile that is one.
TileRefusal formTiles(LoopProgram &program, const Nest &nest, const Node &tree,
                      const TileIntrinsics &intrinsics);

/// What the marks of the tree ask for that can't be done; nothing where there are none. May throw
/// isl::exception.
TileRefusal refusedTiles(const Nest &nest, const Node &tree, const Relations &relations,
                         const TileIntrinsics &intrinsics);

} // namespace tensmith::nest

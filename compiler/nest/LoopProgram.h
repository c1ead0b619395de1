// Loops over statements' points, as plain data: what stands between the schedule tree and code.
//
// isl generates loops from the tree (bounds, guards, whole tiles apart). They are turned into this
// form, in which indices are affine in the loops' variables, so that unrolling is a substitution
// and the elements which a loop's body accumulates into can be told apart and kept in registers
// (Promotion.h). What is not affine, a quotient or a minimum, is a variable with a definition.
//
// Source of the generation: T. Grosser, S. Verdoolaege, A. Cohen, Polyhedral AST generation is more
// than scanning polyhedra, TOPLAS 2015.
#pragma once

#include "compiler/nest/ScheduleState.h"

namespace tensmith::nest {

/// A variable that is no loop's.
struct Definition {
  enum class Kind : uint8_t { FloorQuotient, Remainder, Minimum, Maximum, Select };

  Kind kind;
  std::vector<Affine> operands; // of quotients and remainders one; Select: where true, where false
  int64_t divisor = 1;
  std::shared_ptr<struct Condition> condition = {};
};

struct Condition {
  enum class Kind : uint8_t { NotNegative, Zero, And, Or };

  Kind kind;
  Affine value = {};
  std::vector<Condition> parts = {};

  bool operator==(const Condition &) const = default;
};

/// The points of a vector loop: so many from `least` on, of which those within the bounds are done.
struct Lanes {
  std::string variable; // empty: there is no vector loop
  int64_t count = 1, least = 0;
  std::vector<Affine> lower = {}, upper = {}; // those that may cut lanes off

  bool operator==(const Lanes &) const = default;
};

/// What a loop carries in registers: an element, or a vector of them, of a tensor.
struct Accumulator {
  std::string tensor;
  std::vector<Affine> indices;
  Lanes lanes = {};
  /// Along the vector loop the element stays: the lanes hold parts of the sum, which are added up
  /// behind the loop.
  bool isSpread = false;
  Reduction reduction = Reduction::None; // of isSpread
  /// The loop touches it only where they hold: else it may not be there.
  std::vector<Condition> conditions = {};
  /// And only where something holds that changes within the loop: it is looked at whether it is
  /// there.
  bool isLookedAt = false;
};

struct Step {
  enum class Kind : uint8_t { Block, For, If, Point, Tile };

  Kind kind = Kind::Block;
  std::vector<Step> body = {}; // of If: what is done where the condition holds
  std::vector<Step> otherwise = {};

  // For: from the greatest of `lower` to the least of `upper`, both included.
  std::string variable = {}; // of its own in the program
  std::string loop = {};     // in the tree
  Execution execution = Execution::Serial;
  std::vector<Affine> lower = {}, upper = {};
  int64_t step = 1;
  Lanes lanes = {}; // of vector loops, and of those of instructions' tiles
  std::vector<Accumulator> accumulators = {};

  Condition condition = {Condition::Kind::And}; // If

  std::string statement = {}; // Point; of a Tile, over the variables of its loops as well
  std::vector<Affine> arguments = {};
  std::shared_ptr<const struct Tile> tile = {}; // Tensorize.h
};

struct LoopProgram {
  Step root;
  std::map<std::string, Definition> definitions;
  int variables = 0; // that have names: v0, v1, ...

  std::string fresh() { return "v" + std::to_string(variables++); }
};

/// Loops of the tree, in `into`; returns what has no form. May throw isl::exception.
std::string makeLoops(LoopProgram &into, const Node &tree, const Relations &relations);
/// What is done with them before instructions and registers: unrolled, lanes united, whole tiles
/// apart.
void finishLoops(LoopProgram &program);
/// Both, of a schedule. ResourceExhausted where isl's limit was reached.
Result<LoopProgram> generateLoops(ScheduleState &state);

/// The value with the variable replaced, within definitions too.
Affine substituted(LoopProgram &program, const Affine &value, const std::string &variable,
                   const Affine &by);
void substitute(LoopProgram &program, Step &step, const std::string &variable, const Affine &by);
/// Whether the value depends on the variable.
bool involves(const LoopProgram &program, const Affine &value, const std::string &variable);

/// Gives the step's loops variables of their own: for a copy of it.
void renameLoops(LoopProgram &program, Step &step);

/// Unrolled loops of known bounds become what they do, one after the other.
void unrollLoops(LoopProgram &program);

/// Vector loops in which all lanes take the same way: conditions on the vector's variable become
/// bounds of the loop, and a loop with others within runs lane after lane.
void uniteLanes(LoopProgram &program);

/// Tiles that are whole get code without the conditions that cut others off: around a loop of which
/// these do not depend, there is a branch.
void tellWholeTiles(LoopProgram &program);

std::string text(const LoopProgram &program);

} // namespace tensmith::nest

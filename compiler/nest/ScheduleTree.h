// The schedule tree: in which order a nest's points run.
//
// A node is a loop, a sequence or a statement. A loop has, for each statement below, an affine
// function of its iterators, the value of the loop at which the point runs; below it the points of
// one value run before those of the next. A sequence runs its children one after the other. isl's
// schedule trees say the same (bands of one member under marks with the loops' names): `toIsl`
// makes one, which isl prints, and generates loops from; `fromText` reads it back.
//
// Source: S. Verdoolaege, S. Guelton, T. Grosser, A. Cohen, Schedule trees, IMPACT 2014.
#pragma once

#include "compiler/nest/Relations.h"

#include <functional>

namespace tensmith::nest {

/// How a loop's iterations run.
/// Tensorized: the loop is of a tile that one instruction computes (Tensorize.h).
enum class Execution : uint8_t { Serial, Parallel, Vector, Unrolled, Tensorized };

struct Node {
  enum class Kind : uint8_t { Loop, Sequence, Statement };

  Kind kind = Kind::Statement;
  std::string name = {}; // of the loop or the statement
  Execution execution = Execution::Serial;
  std::string intrinsic = {};                     // of a loop that is tensorized
  std::map<std::string, isl::pw_aff> values = {}; // of a loop, by statement
  std::vector<Node> children = {};                // of a loop one

  bool isLoop() const { return kind == Kind::Loop; }
  /// Names of all statements at or below it, in order.
  std::vector<std::string> statements() const;
  void visit(const std::function<void(Node &)> &visit);
  void visit(const std::function<void(const Node &)> &visit) const;
};

/// The textual order: statements' positions as sequences, and their iterators as loops. A loop has
/// the name of its iterator in the first statement below it, with that statement's behind it where
/// two loops would have one name: "i", "i_add".
Node textualTree(const Nest &nest, const Relations &relations);

/// From the root to the loop or statement of that name; empty: there is none.
std::vector<Node *> pathTo(Node &root, const std::string &name);

/// When each point runs: one dimension for each loop and sequence above, with zeros up to a common
/// length. { S[i...] -> [t...] }
std::map<std::string, isl::map> times(const Node &root, const Relations &relations);
/// The values of these loops, which are above the statement, one after the other.
isl::map valuesOf(const std::vector<const Node *> &loops, const std::string &statement,
                  const Relations &relations);

/// Sequences of one child and nested ones are straightened.
void straighten(Node &node);

/// Of the word behind a loop's name in its mark.
Execution executionOf(const std::string &word);

isl::schedule toIsl(const Node &root, const Relations &relations);
/// isl's YAML, as people read it.
std::string text(const Node &root, const Relations &relations);
/// Names of loops from marks; "loop1", ... where there are none. Throws isl::exception, or returns
/// what is not supported in words.
Result<Node> fromText(const std::string &text, const Nest &nest, const Relations &relations);
Result<Node> fromIsl(const isl::schedule &schedule, const Nest &nest, const Relations &relations);

} // namespace tensmith::nest

// The dependences of a nest, exact where its accesses are affine, and what an order breaks of them.
//
// Two points that touch one element, one of which at least writes it, must keep their textual
// order: a read after a write (flow), a write after a read (anti), a write after a write (output).
// Between reads there is none. Points that accumulate into one element by the same operation may
// change places, but can't run at once (`Accumulation`). All pairs count, not the nearest alone: so
// the check of an order is one intersection for each pair of statements.
//
// Sources: U. Banerjee, Dependence Analysis, 1997; W. Pugh, The Omega test, 1991.
#pragma once

#include "compiler/nest/ScheduleTree.h"

namespace tensmith::nest {

struct Dependence {
  enum class Kind : uint8_t { Flow, Anti, Output, Accumulation };

  Kind kind;
  std::string source, sink, tensor;
  isl::map points; // { source[i...] -> sink[i...] }, the source before the sink

  /// "the flow of 'C' from 'add' to 'relu'"
  std::string text() const;
};

/// Of the order of `tree`.
std::vector<Dependence> dependences(const Nest &nest, const Relations &relations, const Node &tree);

/// Dependence kinds that checks leave out: for tests alone, which must fail then.
struct Unchecked {
  bool flow = false, anti = false, output = false, accumulation = false;
  bool operator[](Dependence::Kind kind) const;
};

/// What of an earlier, legal tree a primitive may have changed: in which order points run, only how
/// the iterations of loops do, or neither, as where a loop is cut in two.
enum class Changes : uint8_t { Order, Execution, Nothing };

/// What the tree breaks by what has changed: a dependence whose order is turned round, or which a
/// parallel or vector loop carries; in words with the statements, the loop and two points. Empty:
/// the tree is legal.
std::string violation(const std::vector<Dependence> &dependences, const Node &tree,
                      const Relations &relations, Unchecked unchecked = {},
                      Changes changes = Changes::Order);

/// { a -> b : a's time is before b's }
isl::map inOrder(const isl::map &a, const isl::map &b);

/// What of one dependence an order turns round, by the statements' times; empty: nothing.
std::string brokenOrder(const Dependence &dependence, const std::map<std::string, isl::map> &time,
                        const Relations &relations);

/// Whether no dependence is carried by the loop; those of accumulations count where `strict`.
bool isCoincident(const std::vector<Dependence> &dependences, const Node &tree, const Node &loop,
                  const Relations &relations, bool strict);

} // namespace tensmith::nest

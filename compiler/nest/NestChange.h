// A change of statements, tensors and order at once: what caches, recomputation and partial sums
// are made of.
//
// Problem: such a primitive adds statements, gives statements iterators that they did not have, and
// must be refused as a whole.
// Method: nest and tree are changed as copies. The value of a loop around a statement may be a
// quotient of its iterators; it becomes an iterator of its own (`expose`), so that indices over it
// are affine. How the points before the change became those after it is kept as relations, by which
// dependences from before can be asked for in the new order.
// Invariant: the schedule stays as it was until `commit` has found the result legal.
#pragma once

#include "compiler/nest/ScheduleState.h"

namespace tensmith::nest {

/// The value over these iterators and the parameters, if it is affine in one piece.
std::optional<Affine> affineOf(const isl::pw_aff &value, const std::vector<std::string> &iterators);
/// The constraints over names of the two tuples and parameters; nothing where one is not affine in
/// them, as a quotient.
std::optional<std::vector<Constraint>> constraintsOf(const isl::basic_map &map,
                                                     const std::vector<std::string> &in,
                                                     const std::vector<std::string> &out);

class NestChange {
public:
  explicit NestChange(ScheduleState &state);

  Nest nest;
  Node tree;
  std::unique_ptr<Relations> relations; // of the nest, as of the last `renew`
  void renew() { relations = std::make_unique<Relations>(state_.isl->get(), nest); }

  /// Loops from the root to the one of that name, itself included; none for an empty name.
  std::vector<Node *> loops(const std::string &loop);
  /// Their values as affine functions of the statement's iterators, of which it gets new ones where
  /// there are no such. Returns what is in the way, in words.
  std::string expose(const std::string &statement, const std::string &loop,
                     std::vector<Affine> &values);
  /// { S[i...] before -> S[i..., v...] after }
  isl::map lift(const std::string &statement) const;

  void setLift(const std::string &statement, isl::map points) {
    lifts_[statement] = std::move(points);
  }

  /// The name, with underscores until the statement has none such.
  std::string newIterator(const Statement &statement, std::string name) const;
  /// An identifier that no tensor, statement or parameter has.
  bool isFree(const std::string &name) const;
  /// A new statement stands in the loop: its first iterators are the values of the loops down to
  /// there, the others have loops of these names. `renew` comes before.
  std::string place(const std::string &statement, const std::string &loop,
                    const std::vector<std::string> &names, bool isInFront);
  /// Says which of the names a loop has already.
  std::string taken(const std::vector<std::string> &loopNames) const;
  /// Takes the statement out of the tree.
  void remove(const std::string &statement);
  /// A loop for each of the statement's iterators from `first` on.
  Node ownLoops(const std::string &statement, size_t first,
                const std::vector<std::string> &names) const;

  /// What a dependence between points after the change says of the new order; empty: it is kept.
  std::string broken(const Dependence &dependence) const;
  /// Takes the change over, if the result is a legal schedule; else says why it isn't.
  std::string commit();

private:
  ScheduleState &state_;
  std::map<std::string, isl::map> lifts_;
};

/// Runs the change; the status says what the primitive's function returned in words.
Status changeNest(ScheduleState &state, const std::string &primitive,
                  const std::function<std::string(NestChange &change)> &run);

} // namespace tensmith::nest

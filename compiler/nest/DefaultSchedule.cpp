// An order without tuning: `default`.
//
// Each statement is looked at by itself, as far as its loops are its own. The vector loop is one
// along which the result is contiguous; a sum has a register tile of it and one more loop that the
// result has, around its innermost reduction; what starts it joins it at the tile. Outermost loops
// are parallel where they carry nothing. Whatever a dependence forbids is left out, so that the
// result is legal for every nest.
#include "compiler/nest/ScheduleState.h"

#include <isl/aff.h>

#include <algorithm>

namespace tensmith::nest {
namespace {

/// Loops that are a statement's alone and stand directly in one another, from outside in.
std::vector<std::string> ownLoops(Node &tree, const std::string &statement) {
  std::vector<std::string> result;
  std::vector<Node *> path = pathTo(tree, statement);
  for (Node *each : path) {
    if (each->kind == Node::Kind::Sequence)
      result.clear();
    if (each->isLoop() && each->values.size() == 1 && each->execution == Execution::Serial)
      result.push_back(each->name);
  }
  return result;
}

/// The iterator that the loop goes over, if it is one as it stands.
std::optional<std::string> iteratorOf(Node &tree, const std::string &loop,
                                      const Statement &statement, const Relations &relations) {
  std::vector<Node *> loops = loopsTo(tree, loop);
  for (size_t number = 0; number < statement.iterators.size(); ++number) {
    isl::pw_aff own = relations.iterator(statement, number);
    if (isl_pw_aff_plain_is_equal(own.get(), loops.back()->values.at(statement.name).get()))
      return statement.iterators[number];
  }
  return std::nullopt;
}

struct Roles {
  std::string vector, row;             // loops; empty: there is none
  std::vector<std::string> reductions; // loops that the result does not have
  std::vector<std::string> others;
};

Roles rolesOf(ScheduleState &state, const Statement &statement) {
  Roles result;
  for (const std::string &loop : ownLoops(state.tree, statement.name)) {
    auto iterator = iteratorOf(state.tree, loop, statement, *state.relations);
    if (!iterator)
      continue;
    bool isLast = false, isUsed = false;
    for (const Expr &each : statement.indices) {
      bool isIn = each->operation != Operation::Index || each->affine.coefficient(*iterator) != 0;
      isUsed |= isIn;
      isLast =
          isIn && each->operation == Operation::Index && each->affine.coefficient(*iterator) == 1;
    }
    if (!isUsed)
      result.reductions.push_back(loop);
    else if (isLast && result.vector.empty())
      result.vector = loop;
    else
      result.others.push_back(loop);
  }
  if (!result.others.empty())
    result.row = result.others.back();
  return result;
}

class Estimate {
public:
  Estimate(Schedule &schedule, int64_t lanes, int64_t registers, RegisterTile tile)
      : schedule_(schedule), lanes_(lanes), tile_(tile.completed(registers)) {}

  void run() {
    std::vector<std::string> names;
    for (const Statement &each : schedule_.nest().statements)
      names.push_back(each.name);
    for (const std::string &name : names)
      statement(Statement(*schedule_.nest().statement(name)));
    std::vector<std::string> outermost;
    collectOutermost(schedule_.state().tree, outermost);
    for (const std::string &loop : outermost)
      attempt(schedule_.parallel(loop));
  }

private:
  static bool attempt(const Status &status) { return status.ok(); }

  static void collectOutermost(const Node &node, std::vector<std::string> &into) {
    if (node.isLoop())
      into.push_back(node.name);
    else
      for (const Node &child : node.children)
        collectOutermost(child, into);
  }

  void statement(const Statement &own) {
    Roles roles;
    Status status = guarded(schedule_.state(), "default", [&]() -> Status {
      roles = rolesOf(schedule_.state(), own);
      return {};
    });
    if (!status.ok() || roles.vector.empty())
      return;
    bool tiles = own.reduction != Reduction::None && !roles.reductions.empty() &&
                 !roles.row.empty() && registerTile(own, roles);
    if (!tiles)
      vectors(own, roles);
  }

  /// All or nothing, on a copy.
  bool registerTile(const Statement &own, const Roles &roles) {
    std::string r0 = roles.row + "0", r1 = roles.row + "1", v0 = roles.vector + "0",
                v1 = roles.vector + "1", v2 = roles.vector + "2", v3 = roles.vector + "3";
    Schedule trial = schedule_.copy();
    std::vector<std::string> order;
    for (const std::string &each : roles.others)
      if (each != roles.row)
        order.push_back(each);
    order.insert(order.end(), {v0, r0});
    order.insert(order.end(), roles.reductions.begin(), roles.reductions.end());
    order.insert(order.end(), {r1, v1});
    bool done = attempt(trial.split(roles.row, tile_.rows, r0, r1)) &&
                attempt(trial.split(roles.vector, tile_.vectors * lanes_, v0, v1)) &&
                attempt(trial.reorder(order)) && attempt(trial.unroll(r1)) &&
                attempt(trial.split(v1, lanes_, v2, v3)) && attempt(trial.unroll(v2)) &&
                attempt(trial.vectorize(v3));
    if (done)
      schedule_ = std::move(trial);
    return done;
  }

  void vectors(const Statement &own, const Roles &roles) {
    Schedule trial = schedule_.copy();
    std::vector<std::string> loops = ownLoops(trial.state().tree, own.name), order;
    for (const std::string &each : loops)
      if (each != roles.vector)
        order.push_back(each);
    order.push_back(roles.vector);
    if (order.size() > 1 && order != loops && !attempt(trial.reorder(order)))
      return;
    if (attempt(trial.vectorize(roles.vector, lanes_)))
      schedule_ = std::move(trial);
  }

  Schedule &schedule_;
  int64_t lanes_;
  RegisterTile tile_;
};

} // namespace

RegisterTile RegisterTile::completed(int64_t registers) const {
  bool isMany = registers >= 32;
  return {rows ? rows : isMany ? 6 : 4, vectors ? vectors : isMany ? 4 : 2};
}

Status Schedule::byEstimate(int64_t lanes, int64_t registers, RegisterTile tile) {
  if (lanes < 1 || lanes > 64)
    return invalidArgument("default: the number of lanes must be from 1 to 64");
  Estimate(*this, lanes, registers, tile).run();
  return {};
}

} // namespace tensmith::nest

// A statement moves into another's loops: `fuse_at`.
//
// Problem: a sum's start, or what follows it, goes over the whole result in loops of its own, and
// the result goes through memory twice.
// Method: the statement's points get values for the loops down to the one that is named: of all
// points within that depend on it those of the first, or of those that it depends on those of the
// last, as far as dependences tell. Its own loops come along, within. The legality of the new order
// is checked like that of any other.
// Invariant: every point runs once; what no other point has to do with can't be placed, and is
// refused.
#include "compiler/nest/ScheduleState.h"

#include <isl/aff.h>
#include <isl/map.h>
#include <isl/set.h>

#include <algorithm>

namespace tensmith::nest {
namespace {

bool isAlone(const Node &node, const std::string &statement) {
  return node.statements() == std::vector<std::string>{statement};
}

/// Takes the statement out of the tree, with loops of its own for all that was around it.
std::optional<Node> detach(Node &root, const std::string &statement) {
  std::vector<Node *> path = pathTo(root, statement);
  if (path.empty() || isAlone(root, statement))
    return std::nullopt;
  size_t own = 0;
  while (!isAlone(*path[own], statement))
    ++own;
  Node result = *path[own];
  for (size_t at = own; at-- > 0;)
    if (path[at]->isLoop()) {
      Node around{Node::Kind::Loop, path[at]->name + "_" + statement};
      around.values[statement] = path[at]->values.at(statement);
      around.children.push_back(std::move(result));
      result = std::move(around);
      path[at]->values.erase(statement);
    }
  Node &parent = *path[own - 1]; // a sequence, since it has more than this statement
  std::erase_if(parent.children, [&](const Node &child) { return isAlone(child, statement); });
  return result;
}

/// Where the points of the statement go: { S[i...] -> [values of the loops] }.
struct Placement {
  isl::map values;
  bool isBefore = true;
};

std::optional<Placement> placementOf(const std::vector<Dependence> &dependences,
                                     const std::vector<const Node *> &loops,
                                     const std::string &statement, const Relations &relations) {
  isl::map later, earlier;
  for (const Dependence &each : dependences) {
    bool isSource = each.source == statement, isSink = each.sink == statement;
    const std::string &other = isSource ? each.sink : each.source;
    if (isSource == isSink || !loops.back()->values.count(other))
      continue;
    isl::map values = valuesOf(loops, other, relations);
    isl::map own = (isSource ? each.points : each.points.reverse()).apply_range(values);
    isl::map &into = isSource ? later : earlier;
    into = into.is_null() ? own : into.unite(own);
  }
  if (later.is_null() && earlier.is_null())
    return std::nullopt;
  if (!later.is_null())
    return Placement{later.lexmin(), true};
  return Placement{earlier.lexmax(), false};
}

std::string fuseStatement(Node &tree, const ScheduleState &state, const std::string &statement,
                          const std::string &loop) {
  const Relations &relations = *state.relations;
  if (!state.nest.statement(statement))
    return "there is no statement '" + statement + "'";
  std::vector<Node *> path = loopsTo(tree, loop);
  if (path.empty())
    return noLoop(tree, loop);
  if (path.back()->values.count(statement))
    return "statement '" + statement + "' stands in loop '" + loop + "' already";
  std::vector<const Node *> loops(path.begin(), path.end());
  auto placement = placementOf(state.dependences, loops, statement, relations);
  if (!placement)
    return "nothing in loop '" + loop + "' depends on '" + statement + "', or the other way round";
  isl::set domain = relations.of(statement).domain;
  if (!domain.is_subset(placement->values.domain()))
    return "nothing in loop '" + loop + "' has to do with some points of '" + statement +
           "', so that they have no place there";
  std::optional<Node> own = detach(tree, statement);
  if (!own)
    return "statement '" + statement + "' is the only one";
  isl_pw_multi_aff *values = isl_pw_multi_aff_from_map(placement->values.copy());
  path = loopsTo(tree, loop);
  for (size_t at = 0; at < path.size(); ++at)
    path[at]->values[statement] = isl::manage(isl_pw_multi_aff_get_pw_aff(values, int(at)));
  isl_pw_multi_aff_free(values);
  Node body{Node::Kind::Sequence};
  body.children.push_back(std::move(path.back()->children[0]));
  body.children.insert(placement->isBefore ? body.children.begin() : body.children.end(),
                       std::move(*own));
  path.back()->children[0] = std::move(body);
  return {};
}

} // namespace

Status Schedule::fuseAt(const std::string &statement, const std::string &loop) {
  return changeTree(*state_, "fuse_at " + statement,
                    [&](Node &tree) { return fuseStatement(tree, *state_, statement, loop); });
}

} // namespace tensmith::nest

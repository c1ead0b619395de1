// Exposed loop values, placement, and the checks of the result; see NestChange.h.
#include "compiler/nest/NestChange.h"

#include <isl/aff.h>
#include <isl/constraint.h>
#include <isl/map.h>
#include <isl/set.h>
#include <isl/space.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace tensmith::nest {
namespace {

std::optional<int64_t> integerOf(isl_val *value) {
  std::optional<int64_t> result;
  if (value && isl_val_is_int(value) && isl_val_n_abs_num_chunks(value, 8) <= 1)
    result = isl_val_get_num_si(value);
  isl_val_free(value);
  return result;
}

/// Adds the terms of one kind of dimension; false where a coefficient is no integer.
template <typename Coefficient>
bool addTerms(Affine &into, const std::vector<std::string> &names, Coefficient coefficient) {
  for (size_t at = 0; at < names.size(); ++at) {
    auto factor = integerOf(coefficient(int(at)));
    if (!factor)
      return false;
    into = into + *factor * Affine(names[at]);
  }
  return true;
}

std::vector<std::string> parametersOf(isl_space *space) {
  std::vector<std::string> names;
  for (int at = 0; at < int(isl_space_dim(space, isl_dim_param)); ++at)
    names.push_back(isl_space_get_dim_name(space, isl_dim_param, unsigned(at)));
  isl_space_free(space);
  return names;
}

std::optional<Affine> affineOf(isl_aff *aff, const std::vector<std::string> &iterators) {
  bool isPlain = isl_aff_dim(aff, isl_dim_div) == 0;
  Affine result;
  auto constant = integerOf(isl_aff_get_constant_val(aff));
  auto of = [&](isl_dim_type type) {
    return [aff, type](int at) { return isl_aff_get_coefficient_val(aff, type, at); };
  };
  if (!isPlain || !constant || !addTerms(result, iterators, of(isl_dim_in)) ||
      !addTerms(result, parametersOf(isl_aff_get_domain_space(aff)), of(isl_dim_param)))
    return std::nullopt;
  return result + Affine(*constant);
}

std::optional<Constraint> constraintOf(isl_constraint *own, const std::vector<std::string> &in,
                                       const std::vector<std::string> &out) {
  auto divs = unsigned(isl_constraint_dim(own, isl_dim_div));
  Constraint result;
  result.isEquality = isl_constraint_is_equality(own);
  auto constant = integerOf(isl_constraint_get_constant_val(own));
  auto of = [&](isl_dim_type type) {
    return [own, type](int at) { return isl_constraint_get_coefficient_val(own, type, at); };
  };
  if (isl_constraint_involves_dims(own, isl_dim_div, 0, divs) || !constant ||
      !addTerms(result.value, in, of(isl_dim_in)) ||
      !addTerms(result.value, out, of(isl_dim_out)) ||
      !addTerms(result.value, parametersOf(isl_constraint_get_space(own)), of(isl_dim_param)))
    return std::nullopt;
  result.value = result.value + Affine(*constant);
  return result;
}

/// { S[i..., v...] -> S[i...] }
isl::multi_aff withoutLast(const isl::set &domain, size_t count) {
  isl_space *space = isl_set_get_space(domain.get());
  auto dims = unsigned(isl_space_dim(space, isl_dim_set));
  isl_id *name = isl_space_get_tuple_id(space, isl_dim_set);
  isl_multi_aff *result =
      isl_multi_aff_project_out_map(space, isl_dim_set, dims - unsigned(count), unsigned(count));
  return isl::manage(isl_multi_aff_set_tuple_id(result, isl_dim_out, name));
}

} // namespace

std::optional<Affine> affineOf(const isl::pw_aff &value,
                               const std::vector<std::string> &iterators) {
  if (isl_pw_aff_n_piece(value.get()) != 1)
    return std::nullopt;
  struct State {
    const std::vector<std::string> &iterators;
    std::optional<Affine> result;
  } state{iterators, {}};
  isl_pw_aff_foreach_piece(
      value.get(),
      [](isl_set *set, isl_aff *aff, void *user) {
        auto &state = *static_cast<State *>(user);
        state.result = affineOf(aff, state.iterators);
        isl_set_free(set);
        isl_aff_free(aff);
        return isl_stat_ok;
      },
      &state);
  return state.result;
}

std::optional<std::vector<Constraint>> constraintsOf(const isl::basic_map &map,
                                                     const std::vector<std::string> &in,
                                                     const std::vector<std::string> &out) {
  isl_constraint_list *list = isl_basic_map_get_constraint_list(map.get());
  std::optional<std::vector<Constraint>> result(std::in_place);
  for (int at = 0; at < int(isl_constraint_list_n_constraint(list)) && result; ++at) {
    isl_constraint *own = isl_constraint_list_get_constraint(list, at);
    auto constraint = constraintOf(own, in, out);
    isl_constraint_free(own);
    if (constraint)
      result->push_back(std::move(*constraint));
    else
      result.reset();
  }
  isl_constraint_list_free(list);
  return result;
}

NestChange::NestChange(ScheduleState &state)
    : nest(state.nest), tree(state.tree), relations(std::make_unique<Relations>(*state.relations)),
      state_(state) {
  // The order is the tree's from now on.
  for (Statement &each : nest.statements)
    each.position.clear();
}

std::vector<Node *> NestChange::loops(const std::string &loop) {
  return loop.empty() ? std::vector<Node *>() : loopsTo(tree, loop);
}

std::string NestChange::expose(const std::string &name, const std::string &loop,
                               std::vector<Affine> &values) {
  Statement &statement = *nest.statement(name);
  std::vector<std::string> before = statement.iterators, added;
  std::vector<const Node *> unknown;
  std::vector<std::pair<Node *, size_t>> exposed; // loops, with the iterators that they are now
  for (Node *each : loops(loop)) {
    if (auto known = affineOf(each->values.at(name), before)) {
      values.push_back(*known);
      continue;
    }
    added.push_back(newIterator(statement, each->name));
    exposed.push_back({each, statement.iterators.size()});
    statement.iterators.push_back(added.back());
    values.push_back(Affine(added.back()));
    unknown.push_back(each);
  }
  if (added.empty())
    return {};
  // Of a split loop the remainder has a quotient that is the other loop's value: an equality says
  // so.
  isl_map *quotients = isl_map_detect_equalities(valuesOf(unknown, name, *relations).release());
  isl::map graph = isl::manage(quotients).coalesce();
  std::optional<std::vector<Constraint>> constraints;
  if (isl_map_n_basic_map(graph.get()) == 1) {
    isl_basic_map_list *list = isl_map_get_basic_map_list(graph.get());
    constraints =
        constraintsOf(isl::manage(isl_basic_map_list_get_basic_map(list, 0)), before, added);
    isl_basic_map_list_free(list);
  }
  if (!constraints)
    return "the values of the loops around '" + name + "' down to '" + loop +
           "' are no quotients of its iterators";
  statement.domain = std::move(*constraints);
  renew();
  const isl::set &domain = relations->of(name).domain;
  isl::multi_aff back = withoutLast(domain, added.size());
  tree.visit([&](Node &node) {
    if (auto found = node.values.find(name); found != node.values.end())
      found->second = isl::manage(isl_pw_aff_pullback_multi_aff(found->second.copy(), back.copy()));
  });
  for (auto &[node, iterator] : exposed)
    node->values[name] = relations->iterator(statement, iterator);
  isl::map forth = isl::manage(isl_map_from_multi_aff(back.copy())).reverse();
  lifts_[name] = forth.intersect_range(domain);
  return {};
}

isl::map NestChange::lift(const std::string &statement) const {
  if (auto found = lifts_.find(statement); found != lifts_.end())
    return found->second;
  return isl::manage(isl_set_identity(state_.relations->of(statement).domain.copy()));
}

std::string NestChange::newIterator(const Statement &statement, std::string name) const {
  auto isTaken = [&](const std::string &each) {
    return std::count(statement.iterators.begin(), statement.iterators.end(), each) ||
           std::any_of(nest.parameters.begin(), nest.parameters.end(),
                       [&](const Parameter &p) { return p.name == each; });
  };
  while (isTaken(name))
    name += "_";
  return name;
}

bool NestChange::isFree(const std::string &name) const {
  bool isWord = !name.empty() && !std::isdigit((unsigned char)(name[0])) &&
                std::all_of(name.begin(), name.end(),
                            [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  return isWord && !nest.tensor(name) && !nest.statement(name) &&
         std::none_of(nest.parameters.begin(), nest.parameters.end(),
                      [&](const Parameter &each) { return each.name == name; });
}

Node NestChange::ownLoops(const std::string &statement, size_t first,
                          const std::vector<std::string> &names) const {
  const Statement &own = *nest.statement(statement);
  Node result{Node::Kind::Statement, statement};
  for (size_t at = own.iterators.size(); at-- > first;) {
    Node loop{Node::Kind::Loop, names[at - first]};
    loop.values[statement] = relations->iterator(own, at);
    loop.children.push_back(std::move(result));
    result = std::move(loop);
  }
  return result;
}

std::string NestChange::taken(const std::vector<std::string> &loopNames) const {
  std::set<std::string> all;
  tree.visit([&](const Node &node) { all.insert(node.name); });
  for (const std::string &each : loopNames)
    if (!all.insert(each).second)
      return "the name '" + each + "' of a loop is taken";
  return {};
}

/// Whether nothing of the node is left.
static bool removeFrom(Node &node, const std::string &statement) {
  if (node.kind == Node::Kind::Statement)
    return node.name == statement;
  node.values.erase(statement);
  std::erase_if(node.children, [&](Node &child) { return removeFrom(child, statement); });
  return node.children.empty();
}

void NestChange::remove(const std::string &statement) {
  removeFrom(tree, statement);
  straighten(tree);
}

std::string NestChange::place(const std::string &statement, const std::string &loop,
                              const std::vector<std::string> &names, bool isInFront) {
  if (std::string problem = taken(names); !problem.empty())
    return problem;
  std::vector<Node *> path = loops(loop);
  for (size_t at = 0; at < path.size(); ++at)
    path[at]->values[statement] = relations->iterator(*nest.statement(statement), at);
  Node &body = path.empty() ? tree : path.back()->children[0];
  Node both{Node::Kind::Sequence};
  both.children.push_back(std::move(body));
  both.children.insert(isInFront ? both.children.begin() : both.children.end(),
                       ownLoops(statement, path.size(), names));
  body = std::move(both);
  straighten(body);
  return {};
}

std::string NestChange::broken(const Dependence &dependence) const {
  if (state_.unchecked[dependence.kind])
    return {};
  return brokenOrder(dependence, times(tree, *relations), *relations);
}

std::string NestChange::commit() {
  if (Status status = verify(nest); !status.ok())
    return status.message();
  straighten(tree);
  if (std::string problem = relations->outside(nest); !problem.empty())
    return problem;
  std::vector<Dependence> dependences = nest::dependences(nest, *relations, tree);
  if (std::string problem = illegality(state_, dependences, nest, tree, *relations);
      !problem.empty())
    return problem;
  state_.dependences = std::move(dependences);
  state_.tree = std::move(tree);
  state_.relations = std::move(relations);
  state_.nest = std::move(nest);
  return {};
}

Status changeNest(ScheduleState &state, const std::string &primitive,
                  const std::function<std::string(NestChange &change)> &run) {
  return guarded(state, primitive, [&]() -> Status {
    NestChange change(state);
    std::string problem = run(change);
    if (problem.empty())
      problem = change.commit();
    return problem.empty() ? Status() : invalidArgument(primitive + ": " + problem);
  });
}

} // namespace tensmith::nest

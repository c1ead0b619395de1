// Pairs of accesses, and checks of orders against them; see Dependences.h.
#include "compiler/nest/Dependences.h"

#include <isl/map.h>
#include <isl/point.h>
#include <isl/set.h>
#include <isl/space.h>

#include <algorithm>

namespace tensmith::nest {

std::string Dependence::text() const {
  static const char *const kWords[] = {"flow", "anti-dependence", "output dependence",
                                       "accumulation"};
  std::string result = std::string("the ") + kWords[size_t(kind)] + " of '" + tensor + "'";
  return result +
         (source == sink ? " within '" + source + "'" : " from '" + source + "' to '" + sink + "'");
}

bool Unchecked::operator[](Dependence::Kind kind) const {
  using enum Dependence::Kind;
  return kind == Flow ? flow : kind == Anti ? anti : kind == Output ? output : accumulation;
}

namespace {

/// { [t...] -> [t'...] : t before t' }, of so many dimensions.
isl::map before(const isl::map &time) {
  isl_space *space = isl_space_range(isl_map_get_space(time.get()));
  return isl::manage(isl_map_lex_lt(space));
}

std::optional<Dependence::Kind> kindOf(const Access &first, const Access &second,
                                       const Statement &source, const Statement &sink) {
  using enum Dependence::Kind;
  if (!first.isWrite && !second.isWrite)
    return std::nullopt;
  bool accumulate = first.accumulates && second.accumulates && source.reduction == sink.reduction;
  if (accumulate) // one of the three pairs says it
    return first.isWrite && second.isWrite ? std::optional(Accumulation) : std::nullopt;
  return first.isWrite ? (second.isWrite ? Output : Flow) : Anti;
}

std::string pointText(const isl::set &point, const Relations &relations) {
  isl::set one = isl::manage(isl_set_from_point(isl_set_sample_point(point.copy())));
  std::string result;
  for (unsigned dim = 0; dim < unsigned(isl_set_dim(one.get(), isl_dim_set)); ++dim) {
    isl_val *value = isl_set_plain_get_val_if_fixed(one.get(), isl_dim_set, dim);
    result += (dim ? ", " : "") + std::to_string(isl_val_get_num_si(value));
    isl_val_free(value);
  }
  return "[" + result + "]";
}

/// Words for one pair of the points.
std::string exampleOf(const Dependence &dependence, const isl::map &points,
                      const Relations &relations) {
  isl::map one = isl::manage(isl_map_from_basic_map(isl_map_sample(points.copy())));
  return dependence.source + pointText(one.domain(), relations) + " comes before " +
         dependence.sink + pointText(one.range(), relations);
}

/// Pairs that the loop carries: equal above it, different in it.
isl::map carried(const Dependence &dependence, const std::vector<const Node *> &loops,
                 const Relations &relations) {
  isl::map source = valuesOf(loops, dependence.source, relations);
  isl::map sink = valuesOf(loops, dependence.sink, relations);
  isl_space *space = isl_space_range(isl_map_get_space(source.get()));
  isl_map *different = isl_map_universe(isl_space_map_from_set(space));
  unsigned last = unsigned(loops.size()) - 1;
  for (unsigned dim = 0; dim < last; ++dim)
    different = isl_map_equate(different, isl_dim_in, int(dim), isl_dim_out, int(dim));
  isl_map *same =
      isl_map_equate(isl_map_copy(different), isl_dim_in, int(last), isl_dim_out, int(last));
  isl::map apart = isl::manage(isl_map_subtract(different, same));
  return dependence.points.intersect(source.apply_range(apart).apply_range(sink.reverse()));
}

bool isBelow(const Node &loop, const std::string &statement) {
  return loop.values.count(statement);
}

std::string carriedText(const std::vector<Dependence> &dependences, const Node &node,
                        std::vector<const Node *> above, const Relations &relations,
                        Unchecked unchecked) {
  if (node.isLoop())
    above.push_back(&node);
  bool isTile = node.execution == Execution::Tensorized;
  bool isVector = node.execution == Execution::Vector || isTile;
  if (node.isLoop() && (isVector || node.execution == Execution::Parallel))
    for (const Dependence &each : dependences) {
      bool isReduced = isVector && each.kind == Dependence::Kind::Accumulation;
      if (unchecked[each.kind] || isReduced || !isBelow(node, each.source) ||
          !isBelow(node, each.sink))
        continue;
      isl::map broken = carried(each, above, relations);
      if (!broken.is_empty())
        return "loop '" + node.name + "' can't be " +
               (isTile     ? "of an instruction"
                : isVector ? "of vectors"
                           : "parallel") +
               ": it carries " + each.text() + "; " + exampleOf(each, broken, relations);
    }
  for (const Node &child : node.children)
    if (std::string text = carriedText(dependences, child, above, relations, unchecked);
        !text.empty())
      return text;
  return {};
}

} // namespace

isl::map inOrder(const isl::map &a, const isl::map &b) {
  return a.apply_range(before(a)).apply_range(b.reverse());
}

std::vector<Dependence> dependences(const Nest &nest, const Relations &relations,
                                    const Node &tree) {
  std::vector<Dependence> result;
  std::map<std::string, isl::map> time = times(tree, relations);
  auto addPair = [&](const Statement &source, const Statement &sink) {
    isl::map order;
    for (const Access &first : relations.of(source.name).accesses)
      for (const Access &second : relations.of(sink.name).accesses) {
        auto kind =
            first.tensor == second.tensor ? kindOf(first, second, source, sink) : std::nullopt;
        if (!kind)
          continue;
        isl::map points = first.elements.apply_range(second.elements.reverse());
        if (order.is_null())
          order = inOrder(time.at(source.name), time.at(sink.name));
        points = points.intersect(order).coalesce();
        if (!points.is_empty())
          result.push_back({*kind, source.name, sink.name, first.tensor, points});
      }
  };
  for (const Statement &source : nest.statements)
    for (const Statement &sink : nest.statements)
      addPair(source, sink);
  return result;
}

std::string brokenOrder(const Dependence &dependence, const std::map<std::string, isl::map> &time,
                        const Relations &relations) {
  isl::map kept = inOrder(time.at(dependence.source), time.at(dependence.sink));
  if (dependence.points.is_subset(kept))
    return {};
  isl::map broken = dependence.points.subtract(kept);
  return "it would break " + dependence.text() + ": " + exampleOf(dependence, broken, relations);
}

std::string violation(const std::vector<Dependence> &dependences, const Node &tree,
                      const Relations &relations, Unchecked unchecked, Changes changes) {
  if (changes == Changes::Nothing)
    return {};
  std::map<std::string, isl::map> time;
  if (changes == Changes::Order)
    time = times(tree, relations);
  for (const Dependence &each : dependences) {
    if (time.empty() || each.kind == Dependence::Kind::Accumulation || unchecked[each.kind])
      continue;
    if (std::string broken = brokenOrder(each, time, relations); !broken.empty())
      return broken;
  }
  return carriedText(dependences, tree, {}, relations, unchecked);
}

bool isCoincident(const std::vector<Dependence> &dependences, const Node &tree, const Node &loop,
                  const Relations &relations, bool strict) {
  Node root = tree;
  std::vector<const Node *> loops;
  for (Node *each : pathTo(root, loop.name))
    if (each->isLoop())
      loops.push_back(each);
  return std::all_of(dependences.begin(), dependences.end(), [&](const Dependence &each) {
    bool counts = strict || each.kind != Dependence::Kind::Accumulation;
    if (!counts || !isBelow(loop, each.source) || !isBelow(loop, each.sink))
      return true;
    return carried(each, loops, relations).is_empty();
  });
}

} // namespace tensmith::nest

// Primitives that change the tree alone; see Schedule.h.
#include "compiler/nest/ScheduleState.h"

#include <isl/aff.h>
#include <isl/set.h>
#include <isl/val.h>

#include <algorithm>

namespace tensmith::nest {

std::vector<Node *> loopsTo(Node &root, const std::string &loop) {
  std::vector<Node *> path = pathTo(root, loop);
  if (path.empty() || !path.back()->isLoop())
    return {};
  std::erase_if(path, [](Node *each) { return !each->isLoop(); });
  return path;
}

std::string noLoop(const Node &tree, const std::string &name) {
  std::string names;
  tree.visit([&](const Node &node) {
    if (node.isLoop())
      names += (names.empty() ? "" : ", ") + node.name;
  });
  return "there is no loop '" + name + "'; there " + (names.empty() ? "is none" : "are " + names);
}

static std::optional<int64_t> valueOf(isl_val *value) {
  std::optional<int64_t> result;
  if (value && isl_val_is_int(value) && isl_val_cmp_si(value, INT32_MAX) <= 0 &&
      isl_val_cmp_si(value, INT32_MIN) >= 0)
    result = isl_val_get_num_si(value);
  isl_val_free(value);
  return result;
}

Extent extentOf(const Node &loop, const Relations &relations) {
  isl::set values;
  for (const auto &[name, value] : loop.values) {
    isl_set *own = isl_map_range(isl_map_intersect_domain(isl_map_from_pw_aff(value.copy()),
                                                          relations.of(name).domain.copy()));
    isl::set set = isl::manage(own);
    values = values.is_null() ? set : values.unite(set);
  }
  if (values.is_empty())
    return {0, -1};
  auto parameters = unsigned(isl_set_dim(values.get(), isl_dim_param));
  values = isl::manage(isl_set_project_out(values.release(), isl_dim_param, 0, parameters));
  Extent result;
  if (isl_set_dim_has_any_lower_bound(values.get(), isl_dim_set, 0))
    result.least = valueOf(isl_set_dim_min_val(values.copy(), 0));
  if (isl_set_dim_has_any_upper_bound(values.get(), isl_dim_set, 0))
    result.most = valueOf(isl_set_dim_max_val(values.copy(), 0));
  return result;
}

namespace {

bool isTaken(const Node &tree, const std::string &name) {
  bool taken = false;
  tree.visit([&](const Node &node) { taken |= node.name == name && !name.empty(); });
  return taken;
}

bool isName(const std::string &name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum((unsigned char)(c)) || c == '_';
  });
}

std::string badName(const Node &tree, const std::string &name) {
  if (!isName(name))
    return "'" + name + "' is no name of a loop";
  return isTaken(tree, name) ? "the name '" + name + "' is taken" : "";
}

isl::pw_aff floorDivided(const isl::pw_aff &value, int64_t by) {
  isl_val *divisor = isl_val_int_from_si(isl_pw_aff_get_ctx(value.get()), by);
  return isl::manage(isl_pw_aff_floor(isl_pw_aff_scale_down_val(value.copy(), divisor)));
}

isl::pw_aff scaled(const isl::pw_aff &value, int64_t by) {
  isl_val *factor = isl_val_int_from_si(isl_pw_aff_get_ctx(value.get()), by);
  return isl::manage(isl_pw_aff_scale_val(value.copy(), factor));
}

const char kHasExecution[] = " is parallel, unrolled, of vectors or of an instruction already";

std::string splitLoop(Node &tree, const Relations &relations, const std::string &name,
                      int64_t factor, const std::string &outer, const std::string &inner) {
  std::vector<Node *> loops = loopsTo(tree, name);
  if (loops.empty())
    return noLoop(tree, name);
  if (factor < 1 || factor > (1 << 20))
    return "the factor must be from 1 to 2^20";
  Node &loop = *loops.back();
  if (loop.execution != Execution::Serial)
    return "loop '" + name + "'" + kHasExecution + "; split it before";
  for (const std::string &each : {outer, inner})
    if (std::string problem = each == name ? "" : badName(tree, each); !problem.empty())
      return problem;
  if (outer == inner)
    return "both loops would be called '" + outer + "'";
  Node point{Node::Kind::Loop, inner};
  int64_t least = extentOf(loop, relations).least.value_or(0);
  for (auto &[statement, value] : loop.values) {
    isl::pw_aff from = value.add_constant(-least);
    isl::pw_aff tile = floorDivided(from, factor);
    point.values[statement] = from.sub(scaled(tile, factor));
    value = tile;
  }
  point.children = std::move(loop.children);
  loop.children.clear();
  loop.children.push_back(std::move(point));
  loop.name = outer;
  return {};
}

void swapHeaders(Node &a, Node &b) {
  std::swap(a.name, b.name);
  std::swap(a.execution, b.execution);
  std::swap(a.intrinsic, b.intrinsic);
  std::swap(a.values, b.values);
}

/// What stands between loops that are to change places, in words.
std::string notNested(const std::vector<Node *> &path, const std::vector<std::string> &names) {
  for (size_t number = 0; number + 1 < path.size(); ++number)
    if (path[number]->kind == Node::Kind::Sequence) {
      std::string statements;
      for (const std::string &each : path[number]->statements())
        statements += (statements.empty() ? "" : ", ") + each;
      return "between the loops stands a sequence of the statements " + statements +
             "; only loops that are nested directly change places";
    }
  return {};
}

std::string reorderLoops(Node &tree, const std::vector<std::string> &names) {
  std::vector<Node *> longest;
  for (const std::string &name : names) {
    std::vector<Node *> path = pathTo(tree, name);
    if (path.empty() || !path.back()->isLoop())
      return noLoop(tree, name);
    if (path.size() > longest.size())
      longest = path;
  }
  std::vector<Node *> places; // of the loops that are named, from outside in
  for (Node *each : longest)
    if (std::count(names.begin(), names.end(), each->name))
      places.push_back(each);
  if (places.size() != names.size())
    return "the loops do not all stand in one another, or one is named twice";
  std::vector<Node *> between(std::find(longest.begin(), longest.end(), places.front()),
                              longest.end());
  if (std::string problem = notNested(between, names); !problem.empty())
    return problem;
  for (size_t number = 0; number < places.size(); ++number)
    for (size_t other = number + 1; other < places.size(); ++other)
      if (places[other]->name == names[number])
        swapHeaders(*places[number], *places[other]);
  return {};
}

std::string fuseLoops(Node &tree, const Relations &relations, const std::string &outer,
                      const std::string &inner, const std::string &name) {
  std::vector<Node *> loops = loopsTo(tree, outer);
  if (loops.empty())
    return noLoop(tree, outer);
  Node &loop = *loops.back();
  Node &child = loop.children[0];
  if (!child.isLoop() || child.name != inner)
    return "loop '" + inner + "' does not stand directly in '" + outer + "'";
  if (std::string problem = name == outer || name == inner ? "" : badName(tree, name);
      !problem.empty())
    return problem;
  for (const Node *each : {&loop, &child})
    if (each->execution != Execution::Serial)
      return "loop '" + each->name + "'" + kHasExecution;
  Extent extent = extentOf(child, relations);
  if (!extent.points() || *extent.points() < 1 || *extent.points() > (1 << 20))
    return "the number of iterations of '" + inner + "' is not known, or beyond 2^20";
  for (auto &[statement, value] : loop.values)
    value = scaled(value, *extent.points())
                .add(child.values.at(statement).add_constant(-*extent.least));
  loop.name = name;
  std::vector<Node> below = std::move(child.children);
  loop.children = std::move(below);
  return {};
}

std::string skewLoop(Node &tree, const std::string &name, int64_t factor, const std::string &by) {
  std::vector<Node *> loops = loopsTo(tree, name);
  if (loops.empty())
    return noLoop(tree, name);
  auto outer = std::find_if(loops.begin(), loops.end() - 1,
                            [&](const Node *each) { return each->name == by; });
  if (outer == loops.end() - 1)
    return "loop '" + by + "' does not stand around '" + name + "'";
  if (loops.back()->execution != Execution::Serial)
    return "loop '" + name + "'" + kHasExecution;
  if (factor < -1024 || factor > 1024)
    return "the factor must be from -1024 to 1024";
  for (auto &[statement, value] : loops.back()->values)
    value = value.add(scaled((*outer)->values.at(statement), factor));
  return {};
}

} // namespace

std::string setExecution(Node &tree, const Relations &relations, const std::string &name,
                         Execution execution) {
  std::vector<Node *> loops = loopsTo(tree, name);
  if (loops.empty())
    return noLoop(tree, name);
  Node &loop = *loops.back();
  if (loop.execution != Execution::Serial)
    return "loop '" + name + "'" + kHasExecution;
  if (execution != Execution::Parallel) {
    std::optional<int64_t> points = extentOf(loop, relations).points();
    if (!points || *points > 64)
      return "loop '" + name + "' must have a known number of iterations, at most 64; split it";
  }
  if (execution == Execution::Vector)
    for (const Node *each : loops)
      if (each->execution == Execution::Vector)
        return "loop '" + each->name + "' around '" + name + "' is of vectors";
  bool hasVectors = false;
  loop.visit([&](const Node &each) { hasVectors |= each.execution == Execution::Vector; });
  if (execution == Execution::Vector && hasVectors)
    return "a loop within '" + name + "' is of vectors";
  loop.execution = execution;
  return {};
}

Status Schedule::split(const std::string &loop, int64_t factor, const std::string &outer,
                       const std::string &inner) {
  return changeTree(
      *state_, "split " + loop,
      [&](Node &tree) { return splitLoop(tree, *state_->relations, loop, factor, outer, inner); },
      Changes::Nothing);
}

Status Schedule::tile(const std::vector<std::string> &loops, const std::vector<int64_t> &factors,
                      const std::vector<std::string> &names) {
  if (loops.empty() || factors.size() != loops.size() || names.size() != 2 * loops.size())
    return invalidArgument("tile: give a factor and two names for each loop");
  return changeTree(*state_, "tile " + loops[0], [&](Node &tree) {
    std::string problem;
    for (size_t number = 0; number < loops.size() && problem.empty(); ++number)
      problem = splitLoop(tree, *state_->relations, loops[number], factors[number], names[number],
                          names[loops.size() + number]);
    return problem.empty() ? reorderLoops(tree, names) : problem;
  });
}

Status Schedule::fuse(const std::string &outer, const std::string &inner, const std::string &name) {
  return changeTree(*state_, "fuse " + outer, [&](Node &tree) {
    return fuseLoops(tree, *state_->relations, outer, inner, name);
  });
}

Status Schedule::reorder(const std::vector<std::string> &loops) {
  if (loops.size() < 2)
    return invalidArgument("reorder: give two loops or more");
  return changeTree(*state_, "reorder", [&](Node &tree) { return reorderLoops(tree, loops); });
}

Status Schedule::skew(const std::string &loop, int64_t factor, const std::string &by) {
  return changeTree(*state_, "skew " + loop,
                    [&](Node &tree) { return skewLoop(tree, loop, factor, by); });
}

Status Schedule::parallel(const std::string &loop) {
  return changeTree(
      *state_, "parallel " + loop,
      [&](Node &tree) { return setExecution(tree, *state_->relations, loop, Execution::Parallel); },
      Changes::Execution);
}

Status Schedule::vectorize(const std::string &loop, int64_t lanes) {
  auto change = [&](Node &tree) {
    if (lanes < 0 || lanes > 64)
      return std::string("the number of lanes must be from 1 to 64");
    if (lanes == 0)
      return setExecution(tree, *state_->relations, loop, Execution::Vector);
    std::vector<Node *> loops = loopsTo(tree, loop);
    if (loops.empty())
      return noLoop(tree, loop);
    if (extentOf(*loops.back(), *state_->relations).points().value_or(lanes + 1) <= lanes)
      return setExecution(tree, *state_->relations, loop, Execution::Vector);
    std::string inner = loop + "v";
    std::string problem = splitLoop(tree, *state_->relations, loop, lanes, loop, inner);
    return problem.empty() ? setExecution(tree, *state_->relations, inner, Execution::Vector)
                           : problem;
  };
  return changeTree(*state_, "vectorize " + loop, change, Changes::Execution);
}

Status Schedule::unroll(const std::string &loop) {
  return changeTree(
      *state_, "unroll " + loop,
      [&](Node &tree) { return setExecution(tree, *state_->relations, loop, Execution::Unrolled); },
      Changes::Nothing);
}

} // namespace tensmith::nest

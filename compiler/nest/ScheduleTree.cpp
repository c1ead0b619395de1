// Trees, their times, and the way to isl's trees and back; see ScheduleTree.h.
#include "compiler/nest/ScheduleTree.h"

#include <isl/aff.h>
#include <isl/ast_build.h>
#include <isl/map.h>
#include <isl/schedule.h>
#include <isl/schedule_node.h>
#include <isl/set.h>
#include <isl/union_map.h>
#include <isl/union_set.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace tensmith::nest {

std::vector<std::string> Node::statements() const {
  std::vector<std::string> result;
  visit([&](const Node &node) {
    if (node.kind == Kind::Statement)
      result.push_back(node.name);
  });
  return result;
}

void Node::visit(const std::function<void(Node &)> &visit) {
  visit(*this);
  for (Node &child : children)
    child.visit(visit);
}

void Node::visit(const std::function<void(const Node &)> &visit) const {
  visit(*this);
  for (const Node &child : children)
    child.visit(visit);
}

namespace {

struct Placed {
  const Statement *statement;
  std::vector<int64_t> position;
};

class TextualOrder {
public:
  TextualOrder(const Nest &nest, const Relations &relations) : relations_(relations) {
    for (const Statement &each : nest.statements) {
      std::vector<int64_t> position = each.position;
      if (position.empty()) {
        position.assign(each.iterators.size() + 1, 0);
        position[0] = int64_t(&each - nest.statements.data());
      }
      all_.push_back({&each, position});
    }
    std::sort(all_.begin(), all_.end(),
              [](const Placed &a, const Placed &b) { return a.position < b.position; });
  }

  Node tree() { return sequence(all_, 0); }

private:
  Node sequence(const std::vector<Placed> &group, size_t depth) {
    Node result{Node::Kind::Sequence};
    std::map<int64_t, std::vector<Placed>> parts;
    for (const Placed &each : group)
      if (each.statement->iterators.size() == depth)
        result.children.push_back({Node::Kind::Statement, each.statement->name});
      else
        parts[each.position[depth]].push_back(each);
    for (const auto &[number, part] : parts)
      result.children.push_back(loop(part, depth));
    // Statements that end here stand where their numbers say.
    std::sort(result.children.begin(), result.children.end(), [&](const Node &a, const Node &b) {
      return std::pair(number(a, depth), a.isLoop()) < std::pair(number(b, depth), b.isLoop());
    });
    return result;
  }

  int64_t number(const Node &node, size_t depth) const {
    std::string first = node.statements().front();
    for (const Placed &each : all_)
      if (each.statement->name == first)
        return each.position[depth];
    return 0;
  }

  Node loop(const std::vector<Placed> &group, size_t depth) {
    Node result{Node::Kind::Loop, group.front().statement->iterators[depth]};
    for (const Placed &each : group)
      result.values[each.statement->name] = relations_.iterator(*each.statement, depth);
    result.children.push_back(sequence(group, depth + 1));
    return result;
  }

  const Relations &relations_;
  std::vector<Placed> all_;
};

isl::map flatProduct(isl::map a, isl::map b) {
  return isl::manage(isl_map_flat_range_product(a.release(), b.release()));
}

isl::pw_aff constantOn(const isl::set &domain, int64_t value) {
  isl_aff *zero =
      isl_aff_zero_on_domain(isl_local_space_from_space(isl_set_get_space(domain.get())));
  return isl::manage(isl_pw_aff_from_aff(isl_aff_set_constant_si(zero, int(value))));
}

/// Nothing yet: a point without dimensions for each of the domain.
isl::map noTime(const isl::set &domain) {
  isl_space *space = isl_space_from_domain(isl_set_get_space(domain.get()));
  return isl::manage(isl_map_intersect_domain(isl_map_universe(space), domain.copy()));
}

isl::map mapOf(const isl::pw_aff &value) { return isl::manage(isl_map_from_pw_aff(value.copy())); }

void collectTimes(const Node &node, std::map<std::string, isl::map> &times) {
  if (node.isLoop())
    for (const std::string &name : node.statements())
      times[name] = flatProduct(times.at(name), mapOf(node.values.at(name)));
  for (size_t number = 0; number < node.children.size(); ++number) {
    if (node.kind == Node::Kind::Sequence)
      for (const std::string &name : node.children[number].statements()) {
        isl::set domain = times.at(name).domain();
        times[name] = flatProduct(times.at(name), mapOf(constantOn(domain, int64_t(number))));
      }
    collectTimes(node.children[number], times);
  }
}

} // namespace

/// Of loops that would have one name, that of the deepest statement has it: a schedule is mostly of
/// that. The others have their statement's name behind.
static void nameLoops(Node &tree, const Nest &nest) {
  std::vector<std::pair<size_t, Node *>> loops;
  tree.visit([&](Node &node) {
    size_t depth = 0;
    for (const std::string &each : node.statements())
      depth = std::max(depth, nest.statement(each)->iterators.size());
    if (node.isLoop())
      loops.push_back({depth, &node});
  });
  std::vector<Node *> ordered; // deepest first, and as they stand
  for (size_t depth = 16; depth-- > 0;)
    for (auto &[own, loop] : loops)
      if (own == depth)
        ordered.push_back(loop);
  std::set<std::string> taken;
  for (Node *loop : ordered) {
    std::string base = loop->name, name = base;
    for (int number = 1; !taken.insert(name).second; ++number)
      name = base + "_" + loop->statements().front() + (number == 1 ? "" : std::to_string(number));
    loop->name = name;
  }
}

Node textualTree(const Nest &nest, const Relations &relations) {
  Node result = TextualOrder(nest, relations).tree();
  straighten(result);
  nameLoops(result, nest);
  return result;
}

std::vector<Node *> pathTo(Node &root, const std::string &name) {
  if (root.kind != Node::Kind::Sequence && root.name == name)
    return {&root};
  for (Node &child : root.children)
    if (std::vector<Node *> path = pathTo(child, name); !path.empty()) {
      path.insert(path.begin(), &root);
      return path;
    }
  return {};
}

std::map<std::string, isl::map> times(const Node &root, const Relations &relations) {
  std::map<std::string, isl::map> result;
  for (const std::string &name : root.statements())
    result[name] = noTime(relations.of(name).domain);
  collectTimes(root, result);
  unsigned length = 0;
  for (const auto &[name, time] : result)
    length = std::max(length, unsigned(isl_map_dim(time.get(), isl_dim_out)));
  for (auto &[name, time] : result)
    while (unsigned(isl_map_dim(time.get(), isl_dim_out)) < length)
      time = flatProduct(time, mapOf(constantOn(relations.of(name).domain, 0)));
  return result;
}

isl::map valuesOf(const std::vector<const Node *> &loops, const std::string &statement,
                  const Relations &relations) {
  isl::map result = noTime(relations.of(statement).domain);
  for (const Node *loop : loops)
    result = flatProduct(result, mapOf(loop->values.at(statement)));
  return result;
}

void straighten(Node &node) {
  for (Node &child : node.children)
    straighten(child);
  if (node.kind != Node::Kind::Sequence)
    return;
  std::vector<Node> flat;
  for (Node &child : node.children)
    if (child.kind == Node::Kind::Sequence)
      std::move(child.children.begin(), child.children.end(), std::back_inserter(flat));
    else
      flat.push_back(std::move(child));
  node.children = std::move(flat);
  if (node.children.size() == 1) {
    Node only = std::move(node.children[0]);
    node = std::move(only);
  }
}

//===-- To isl -------------------------------------------------------------------------------===//

namespace {

std::string markText(const Node &loop) {
  static const char *const kWords[] = {"", " parallel", " vector", " unrolled", " tensorized "};
  return loop.name + kWords[size_t(loop.execution)] + loop.intrinsic;
}

} // namespace

Execution executionOf(const std::string &word) {
  return word == "parallel"     ? Execution::Parallel
         : word == "vector"     ? Execution::Vector
         : word == "unrolled"   ? Execution::Unrolled
         : word == "tensorized" ? Execution::Tensorized
                                : Execution::Serial;
}

namespace {

class ToIsl {
public:
  explicit ToIsl(const Relations &relations) : relations_(relations) {}

  isl::schedule whole(const Node &root) { return isl::manage(schedule(root)); }

private:
  isl_schedule *schedule(const Node &node) {
    if (node.kind == Node::Kind::Statement)
      return isl_schedule_from_domain(
          isl_union_set_from_set(relations_.of(node.name).domain.copy()));
    if (node.isLoop())
      return loop(node);
    isl_schedule *result = nullptr;
    for (const Node &child : node.children) {
      isl_schedule *own = schedule(child);
      result = result ? isl_schedule_sequence(result, own) : own;
    }
    return result;
  }

  isl_schedule *loop(const Node &node) {
    isl_schedule *inner = schedule(node.children[0]);
    isl_union_pw_aff *values = nullptr;
    for (const std::string &name : node.statements()) {
      isl_union_pw_aff *own = isl_union_pw_aff_from_pw_aff(node.values.at(name).copy());
      values = values ? isl_union_pw_aff_union_add(values, own) : own;
    }
    isl_schedule *result = isl_schedule_insert_partial_schedule(
        inner, isl_multi_union_pw_aff_from_union_pw_aff(values));
    isl_schedule_node *band = isl_schedule_node_child(isl_schedule_get_root(result), 0);
    isl_schedule_free(result);
    isl_id *mark = isl_id_alloc(relations_.context().get(), markText(node).c_str(), nullptr);
    isl_schedule_node *marked = isl_schedule_node_insert_mark(band, mark);
    result = isl_schedule_node_get_schedule(marked);
    isl_schedule_node_free(marked);
    return result;
  }

  const Relations &relations_;
};

} // namespace

isl::schedule toIsl(const Node &root, const Relations &relations) {
  return ToIsl(relations).whole(root);
}

std::string text(const Node &root, const Relations &relations) {
  isl::schedule schedule = toIsl(root, relations);
  isl_printer *printer = isl_printer_to_str(relations.context().get());
  printer = isl_printer_set_yaml_style(printer, ISL_YAML_STYLE_BLOCK);
  printer = isl_printer_print_schedule(printer, schedule.get());
  char *words = isl_printer_get_str(printer);
  isl_printer_free(printer);
  std::string result = words ? words : "";
  free(words);
  return result;
}

//===-- From isl -----------------------------------------------------------------------------===//

namespace {

class FromIsl {
public:
  FromIsl(const Nest &nest, const Relations &relations) : nest_(nest), relations_(relations) {}

  std::string problem;

  Node node(isl::schedule_node at, std::string mark) {
    switch (isl_schedule_node_get_type(at.get())) {
    case isl_schedule_node_domain:
    case isl_schedule_node_filter:
    case isl_schedule_node_guard:
    case isl_schedule_node_context:
      return node(child(at, 0), mark);
    case isl_schedule_node_mark: {
      isl::id id = isl::manage(isl_schedule_node_mark_get_id(at.get()));
      return node(child(at, 0), isl_id_get_name(id.get()));
    }
    case isl_schedule_node_sequence:
    case isl_schedule_node_set: {
      Node result{Node::Kind::Sequence};
      for (unsigned number = 0; number < unsigned(isl_schedule_node_n_children(at.get())); ++number)
        result.children.push_back(node(child(at, number), ""));
      return result;
    }
    case isl_schedule_node_band:
      return band(at, mark);
    case isl_schedule_node_leaf:
      return leaf(at);
    default:
      problem = "a tree with expansions or extensions is read by nobody; give primitives instead";
      return {};
    }
  }

private:
  static isl::schedule_node child(const isl::schedule_node &at, unsigned number) {
    return isl::manage(isl_schedule_node_get_child(at.get(), int(number)));
  }

  std::vector<std::string> statementsAt(const isl::schedule_node &at) {
    isl::union_set domain = isl::manage(isl_schedule_node_get_domain(at.get()));
    std::vector<std::string> result;
    for (const Statement &each : nest_.statements) {
      isl_space *space = isl_set_get_space(relations_.of(each.name).domain.get());
      isl::set own = isl::manage(isl_union_set_extract_set(domain.get(), space));
      if (!own.is_empty())
        result.push_back(each.name);
    }
    return result;
  }

  /// Statements at one leaf are in any order: the textual one.
  Node leaf(const isl::schedule_node &at) {
    Node result{Node::Kind::Sequence};
    for (const std::string &name : statementsAt(at)) {
      if (!seen_.insert(name).second)
        problem = "statement '" + name + "' stands in two places of the tree";
      result.children.push_back({Node::Kind::Statement, name});
    }
    if (result.children.empty())
      problem = "a leaf has no statement";
    return result;
  }

  Node band(const isl::schedule_node &at, const std::string &mark) {
    unsigned members = unsigned(isl_schedule_node_band_n_member(at.get()));
    isl::multi_union_pw_aff partial =
        isl::manage(isl_schedule_node_band_get_partial_schedule(at.get()));
    std::vector<std::string> names = statementsAt(at);
    Node inner = node(child(at, 0), "");
    for (unsigned member = members; member-- > 0;) {
      Node loop{Node::Kind::Loop};
      name(loop, member == 0 ? mark : "");
      isl::union_pw_aff values =
          isl::manage(isl_multi_union_pw_aff_get_union_pw_aff(partial.get(), int(member)));
      for (const std::string &each : names) {
        isl_space *space = isl_set_get_space(relations_.of(each).domain.get());
        space = isl_space_add_dims(isl_space_from_domain(space), isl_dim_out, 1);
        loop.values[each] = isl::manage(isl_union_pw_aff_extract_pw_aff(values.get(), space));
      }
      loop.children.push_back(std::move(inner));
      inner = std::move(loop);
    }
    return inner;
  }

  void name(Node &loop, const std::string &mark) {
    std::istringstream words(mark);
    std::string execution;
    words >> loop.name >> execution;
    std::getline(words >> std::ws, loop.intrinsic);
    if (loop.name.empty())
      do
        loop.name = "loop" + std::to_string(++unnamed_);
      while (loops_.count(loop.name));
    if (!loops_.insert(loop.name).second)
      problem = "two loops of the tree are called '" + loop.name + "'";
    loop.execution = executionOf(execution);
    if (loop.execution != Execution::Tensorized)
      loop.intrinsic.clear();
  }

  const Nest &nest_;
  const Relations &relations_;
  std::set<std::string> seen_, loops_;
  int unnamed_ = 0;
};

} // namespace

Result<Node> fromIsl(const isl::schedule &schedule, const Nest &nest, const Relations &relations) {
  FromIsl reader(nest, relations);
  isl::schedule_node root = isl::manage(isl_schedule_get_root(schedule.get()));
  Node result = reader.node(root, "");
  if (!reader.problem.empty())
    return invalidArgument("schedule tree: " + reader.problem);
  straighten(result);
  for (const Statement &each : nest.statements)
    if (std::vector<std::string> names = result.statements();
        std::find(names.begin(), names.end(), each.name) == names.end())
      return invalidArgument("schedule tree: statement '" + each.name + "' is missing");
  return result;
}

Result<Node> fromText(const std::string &text, const Nest &nest, const Relations &relations) {
  isl_schedule *schedule = isl_schedule_read_from_str(relations.context().get(), text.c_str());
  if (!schedule)
    return invalidArgument("schedule tree: the text is no tree in isl's YAML");
  return fromIsl(isl::manage(schedule), nest, relations);
}

} // namespace tensmith::nest

// The correspondence between instances and iterations; see Instances.h.
#include "compiler/nest/Instances.h"

#include "compiler/nest/Dependences.h"

#include <isl/map.h>
#include <isl/set.h>
#include <isl/space.h>

#include <algorithm>

namespace tensmith::nest {
namespace {

/// { S[i...] -> [the first dimensions of the instance] }, by statement.
std::map<std::string, isl::map> touches(const Tensor &tensor, unsigned count,
                                        const Relations &relations) {
  std::map<std::string, isl::map> result;
  for (const auto &[name, own] : relations.all())
    for (const Access &access : own.accesses) {
      if (access.tensor != tensor.name)
        continue;
      auto rank = unsigned(tensor.extents.size());
      isl_map *map = isl_map_reset_tuple_id(access.elements.copy(), isl_dim_out);
      isl::map instance = isl::manage(isl_map_project_out(map, isl_dim_out, count, rank - count));
      auto [place, isNew] = result.try_emplace(name, instance);
      if (!isNew)
        place->second = place->second.unite(instance);
    }
  return result;
}

/// Loops around all of the statements, from outside in.
std::vector<const Node *> commonLoops(const Node &tree,
                                      const std::map<std::string, isl::map> &statements) {
  std::vector<const Node *> result;
  const Node *node = &tree;
  while (node) {
    if (node->isLoop())
      result.push_back(node);
    const Node *next = nullptr;
    for (const Node &child : node->children) {
      std::vector<std::string> below = child.statements();
      bool hasAll = std::all_of(statements.begin(), statements.end(), [&](const auto &each) {
        return std::count(below.begin(), below.end(), each.first) > 0;
      });
      if (hasAll)
        next = &child;
    }
    node = next;
  }
  return result;
}

/// The loops in whose iterations an instance lives; nothing: it doesn't live in one.
std::optional<std::vector<const Node *>> instanceLoops(const Tensor &tensor, const Node &tree,
                                                       const Relations &relations) {
  auto dims = unsigned(tensor.instances) - unsigned(tensor.hasTwoHalves());
  std::map<std::string, isl::map> statements = touches(tensor, dims, relations);
  std::vector<const Node *> loops = commonLoops(tree, statements);
  for (size_t count = 0; count <= loops.size(); ++count) {
    std::vector<const Node *> around(loops.begin(), loops.begin() + int64_t(count));
    isl::map instances; // { [values of the loops] -> [instance] }
    for (const auto &[name, own] : statements) {
      isl::map each = valuesOf(around, name, relations).reverse().apply_range(own);
      instances = instances.is_null() ? each : instances.unite(each);
    }
    if (instances.is_null())
      return around;
    if (!instances.is_single_valued())
      continue;
    return instances.is_injective() ? std::optional(around) : std::nullopt;
  }
  return std::nullopt;
}

/// Whether instances that share a half are touched by turns.
bool mingle(const Tensor &tensor, const Node &tree, const Relations &relations) {
  std::map<std::string, isl::map> time = times(tree, relations);
  isl::map touched; // { [instance] -> [time] }
  for (const auto &[name, own] : touches(tensor, unsigned(tensor.instances), relations)) {
    isl::map each = own.intersect_domain(relations.of(name).domain).reverse();
    each = each.apply_range(time.at(name));
    touched = touched.is_null() ? each : touched.unite(each);
  }
  std::string from, to, differ;
  for (size_t dim = 0; dim < tensor.instances; ++dim) {
    std::string number = std::to_string(dim);
    from += (dim ? ", a" : "a") + number;
    to += (dim ? ", b" : "b") + number;
    differ += (dim ? " or a" : "a") + number + " != b" + number;
  }
  std::string last = std::to_string(tensor.instances - 1);
  isl::map shared(relations.context(), "{ [" + from + "] -> [" + to + "] : (a" + last + " - b" +
                                           last + ") mod 2 = 0 and (" + differ + ") }");
  isl::map before = inOrder(touched, touched).intersect(shared);
  return !before.intersect(before.reverse()).is_empty();
}

} // namespace

std::string interleavedInstances(const Nest &nest, const Node &tree, const Relations &relations) {
  for (const Tensor &each : nest.tensors) {
    if (each.instances == 0)
      continue;
    auto loops = instanceLoops(each, tree, relations);
    if (loops && each.hasTwoHalves() && mingle(each, tree, relations))
      return "'" + each.name + "' has memory for two of its loop's iterations, and more would " +
             "use it by turns";
    if (!loops)
      return "'" + each.name + "' has memory for one of its loop's iterations, and several would " +
             "use it by turns";
    for (const Node *loop : *loops)
      if (loop->execution == Execution::Vector)
        return "'" + each.name + "' has memory for one iteration of '" + loop->name +
               "', which is of vectors";
  }
  return {};
}

std::map<std::string, std::string> parallelInstances(const Nest &nest, const Node &tree,
                                                     const Relations &relations) {
  std::map<std::string, std::string> result;
  for (const Tensor &each : nest.tensors) {
    if (each.instances == 0)
      continue;
    if (auto loops = instanceLoops(each, tree, relations))
      for (const Node *loop : *loops)
        if (loop->execution == Execution::Parallel && !result.count(each.name))
          result[each.name] = loop->name;
  }
  return result;
}

std::string innermostInstanceLoop(const Tensor &tensor, const Node &tree,
                                  const Relations &relations) {
  auto loops = tensor.instances ? instanceLoops(tensor, tree, relations) : std::nullopt;
  return loops && !loops->empty() ? loops->back()->name : "";
}

} // namespace tensmith::nest

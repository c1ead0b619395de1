// A first order by isl's scheduler: affine functions of the iterators, statements fused or not,
// skewed where only that lets loops change places.
//
// Accumulations are no constraint of the order, but a loop that carries one is not coincident. A
// time limit by isl's count of operations: when it is reached the order stays as it was.
//
// `coincident` decides by loops: from statements that must share loops (cycles of dependences) on,
// neighbours that touch one tensor are put together, and stay so if the outermost band of the
// common order begins with as many coincident loops as that of either alone, of which three count.
//
// Sources: U. Bondhugula et al., A practical automatic polyhedral parallelizer and locality
// optimizer, PLDI 2008; S. Verdoolaege, G. Janssens, Scheduling for PPCG, 2017; N. Vasilache et
// al., Tensor Comprehensions, 2018 (the three strategies).
#include "compiler/nest/ScheduleState.h"

#include <isl/options.h>
#include <isl/schedule.h>
#include <isl/schedule_node.h>
#include <isl/union_map.h>
#include <isl/union_set.h>

#include <algorithm>
#include <set>

namespace tensmith::nest {
namespace {

isl_union_map *united(isl_union_map *all, const isl::map &map) {
  isl_union_map *own = isl_union_map_from_map(map.copy());
  return all ? isl_union_map_union(all, own) : own;
}

/// Statements that are scheduled together.
using Group = std::set<std::string>;

isl::schedule computed(const ScheduleState &state, const Group &group, bool isApart) {
  isl_ctx *context = state.isl->get().get();
  isl_union_set *domain = nullptr;
  for (const std::string &name : group) {
    isl_union_set *points = isl_union_set_from_set(state.relations->of(name).domain.copy());
    domain = domain ? isl_union_set_union(domain, points) : points;
  }
  isl_space *space = isl_union_set_get_space(domain);
  isl_union_map *order = isl_union_map_empty(isl_space_copy(space));
  isl_union_map *together = isl_union_map_empty(isl_space_copy(space));
  isl_union_map *near = isl_union_map_empty(space);
  for (const Dependence &each : state.dependences) {
    if (!group.count(each.source) || !group.count(each.sink))
      continue;
    together = united(together, each.points);
    if (each.kind != Dependence::Kind::Accumulation)
      order = united(order, each.points);
    if (each.kind == Dependence::Kind::Flow)
      near = united(near, each.points);
  }
  isl_schedule_constraints *constraints = isl_schedule_constraints_on_domain(domain);
  constraints = isl_schedule_constraints_set_validity(constraints, order);
  constraints = isl_schedule_constraints_set_coincidence(constraints, together);
  constraints = isl_schedule_constraints_set_proximity(constraints, near);
  isl_options_set_schedule_serialize_sccs(context, isApart);
  isl_options_set_schedule_maximize_coincidence(context, 1);
  return isl::manage(isl_schedule_constraints_compute_schedule(constraints));
}

/// Coincident loops that the outermost band begins with, of which three count; none where there is
/// no common band.
int coincidentLoops(const isl::schedule &schedule) {
  constexpr int kMost = 3;
  isl::schedule_node node =
      isl::manage(isl_schedule_node_first_child(isl_schedule_get_root(schedule.get())));
  if (isl_schedule_node_get_type(node.get()) != isl_schedule_node_band)
    return 0;
  int members = int(isl_schedule_node_band_n_member(node.get())), count = 0;
  while (count < std::min(members, kMost) &&
         isl_schedule_node_band_member_get_coincident(node.get(), count) == isl_bool_true)
    ++count;
  return count;
}

struct Cluster {
  Group group;
  isl::schedule order;
  int coincident = 0;
};

class Clusters {
public:
  explicit Clusters(const ScheduleState &state) : state_(state) {
    for (const Dependence &each : state.dependences)
      if (each.source != each.sink)
        reach_[each.source].insert(each.sink);
    close();
  }

  /// The groups' orders, one after the other.
  isl::schedule run() {
    std::vector<Cluster> done;
    for (Group &each : inOrder()) {
      Cluster next = clusterOf(std::move(each));
      // A group that fits the last one may have made room for the one before it.
      for (auto fused = together(done, next); fused; fused = together(done, next)) {
        next = std::move(*fused);
        done.pop_back();
      }
      done.push_back(std::move(next));
    }
    isl_schedule *result = nullptr;
    for (const Cluster &each : done)
      result = result ? isl_schedule_sequence(result, each.order.copy()) : each.order.copy();
    return isl::manage(result);
  }

private:
  void close() {
    for (const Statement &through : state_.nest.statements)
      for (const Statement &from : state_.nest.statements)
        if (reaches(from.name, through.name))
          reach_[from.name].insert(reach_[through.name].begin(), reach_[through.name].end());
  }
  bool reaches(const std::string &from, const std::string &to) const {
    auto found = reach_.find(from);
    return found != reach_.end() && found->second.count(to);
  }

  /// Cycles of dependences, each as one, in an order that keeps them: the tree's as far as it does.
  std::vector<Group> inOrder() const {
    std::vector<std::string> left = state_.tree.statements();
    std::vector<Group> result;
    while (!left.empty()) {
      auto isFirst = [&](const std::string &each) {
        return std::none_of(left.begin(), left.end(), [&](const std::string &other) {
          return reaches(other, each) && !reaches(each, other);
        });
      };
      std::string first = *std::find_if(left.begin(), left.end(), isFirst);
      Group group{first};
      for (const std::string &each : left)
        if (reaches(first, each) && reaches(each, first))
          group.insert(each);
      std::erase_if(left, [&](const std::string &each) { return group.count(each) > 0; });
      result.push_back(std::move(group));
    }
    return result;
  }

  Cluster clusterOf(Group group) const {
    Cluster result{std::move(group), {}, 0};
    result.order = computed(state_, result.group, false);
    result.coincident = coincidentLoops(result.order);
    return result;
  }

  bool touchOneTensor(const Group &a, const Group &b) const {
    std::set<std::string> tensors;
    for (const std::string &each : a)
      for (const Access &access : state_.relations->of(each).accesses)
        tensors.insert(access.tensor);
    return std::any_of(b.begin(), b.end(), [&](const std::string &each) {
      const std::vector<Access> &own = state_.relations->of(each).accesses;
      return std::any_of(own.begin(), own.end(),
                         [&](const Access &access) { return tensors.count(access.tensor) > 0; });
    });
  }

  /// The last one and the next one as one, if nothing is lost.
  std::optional<Cluster> together(const std::vector<Cluster> &done, const Cluster &next) const {
    if (done.empty() || !touchOneTensor(done.back().group, next.group))
      return std::nullopt;
    int wanted = std::max(done.back().coincident, next.coincident);
    Group both = done.back().group;
    both.insert(next.group.begin(), next.group.end());
    Cluster fused = clusterOf(std::move(both));
    return fused.coincident > 0 && fused.coincident >= wanted ? std::optional(std::move(fused))
                                                              : std::nullopt;
  }

  const ScheduleState &state_;
  std::map<std::string, std::set<std::string>> reach_; // along dependences
};

isl::schedule orderOf(const ScheduleState &state, Fusion fusion) {
  if (fusion == Fusion::Coincident)
    return Clusters(state).run();
  Group all;
  for (const auto &[name, own] : state.relations->all())
    all.insert(name);
  return computed(state, all, fusion == Fusion::Minimal);
}

} // namespace

Status Schedule::affine(Fusion fusion) {
  return changeTree(*state_, "affine", [&](Node &tree) -> std::string {
    isl::schedule schedule = orderOf(*state_, fusion);
    Result<Node> read = fromIsl(schedule, state_->nest, *state_->relations);
    if (!read)
      return read.status().message();
    tree = std::move(*read);
    int number = 0;
    tree.visit([&](Node &node) {
      if (node.isLoop())
        node.name = "c" + std::to_string(number++);
    });
    return {};
  });
}

} // namespace tensmith::nest

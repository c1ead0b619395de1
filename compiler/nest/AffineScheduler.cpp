// A first order by isl's scheduler: affine functions of the iterators, statements fused or not,
// skewed where only that lets loops change places.
//
// Accumulations are no constraint of the order, but a loop that carries one is not coincident. A
// time limit by isl's count of operations: when it is reached the order stays as it was.
//
// Sources: U. Bondhugula et al., A practical automatic polyhedral parallelizer and locality
// optimizer, PLDI 2008; S. Verdoolaege, G. Janssens, Scheduling for PPCG, 2017.
#include "compiler/nest/ScheduleState.h"

#include <isl/options.h>
#include <isl/schedule.h>
#include <isl/union_map.h>
#include <isl/union_set.h>

namespace tensmith::nest {
namespace {

isl_union_map *united(isl_union_map *all, const isl::map &map) {
  isl_union_map *own = isl_union_map_from_map(map.copy());
  return all ? isl_union_map_union(all, own) : own;
}

isl::schedule computed(const ScheduleState &state, Fusion fusion) {
  isl_ctx *context = state.isl->get().get();
  isl_union_set *domain = nullptr;
  for (const auto &[name, own] : state.relations->all()) {
    isl_union_set *points = isl_union_set_from_set(own.domain.copy());
    domain = domain ? isl_union_set_union(domain, points) : points;
  }
  isl_space *space = isl_union_set_get_space(domain);
  isl_union_map *order = isl_union_map_empty(isl_space_copy(space));
  isl_union_map *together = isl_union_map_empty(isl_space_copy(space));
  isl_union_map *near = isl_union_map_empty(space);
  for (const Dependence &each : state.dependences) {
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
  isl_options_set_schedule_serialize_sccs(context, fusion == Fusion::Minimal);
  isl_options_set_schedule_maximize_coincidence(context, 1);
  isl::schedule result = isl::manage(isl_schedule_constraints_compute_schedule(constraints));
  return result;
}

} // namespace

Status Schedule::affine(Fusion fusion) {
  return changeTree(*state_, "affine", [&](Node &tree) -> std::string {
    isl::schedule schedule = computed(*state_, fusion);
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

// A first order by isl's scheduler: affine functions of the iterators, statements fused or not,
// skewed where only that lets loops change places.
//
// Accumulations are no constraint of the order, but a loop that carries one is not coincident. A
// time limit by isl's count of operations: when it is reached the order stays as it was.
//
// Which statements share loops is isl's incremental clustering: from statements that must be
// scheduled together (cycles of dependences) on, those between which values flow are put together
// where common loops keep their distances bounded, shifted against one another if need be. Where
// `schedule_maximize_coincidence` is set, they must keep as many coincident loops as each has
// alone. `Recomputed` goes on from there: a local tensor that one outermost loop alone reads is
// computed in its iterations, which then need not wait for one another, if few of them read the
// same element.
//
// Sources: U. Bondhugula et al., A practical automatic polyhedral parallelizer and locality
// optimizer, PLDI 2008; S. Verdoolaege, G. Janssens, Scheduling for PPCG, 2017; N. Vasilache et
// al., Tensor Comprehensions, 2018 (the strategies); R. T. Mullapudi et al., PolyMage, ASPLOS 2015
// (overlapped stages).
#include "compiler/nest/ScheduleState.h"

#include <isl/map.h>
#include <isl/options.h>
#include <isl/schedule.h>
#include <isl/set.h>
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
  isl_options_set_schedule_maximize_coincidence(context, fusion != Fusion::Maximal);
  return isl::manage(isl_schedule_constraints_compute_schedule(constraints));
}

/// Whether no element that the statements below the loop read of the tensor is read by iterations
/// that are far apart, so that few compute it again.
bool isReadByNeighbours(const ScheduleState &state, const Node &loop, const std::string &tensor) {
  constexpr int64_t kFar = 32;
  isl::map readers; // { T[e...] -> [the loop's value] }
  for (const auto &[name, value] : loop.values)
    for (const Access &access : state.relations->of(name).accesses) {
      if (access.tensor != tensor || access.isWrite)
        continue;
      isl::map values = valuesOf({&loop}, name, *state.relations);
      isl::map own = access.elements.reverse().apply_range(values);
      readers = readers.is_null() ? own : readers.unite(own);
    }
  isl::map both = readers.reverse().apply_range(readers);
  isl::set distances = isl::manage(isl_map_deltas(both.release()));
  std::string far = "{ [d] : d >= " + std::to_string(kFar) + " }";
  return distances.intersect(isl::set(state.relations->context(), far)).is_empty();
}

/// The outermost loop in which the tensor is read, where it is read in one alone and isn't written
/// there.
const Node *outermostReader(ScheduleState &state, const std::string &tensor) {
  std::set<const Node *> writers, readers; // outermost loops
  for (const Statement &each : state.nest.statements) {
    std::vector<Node *> path = pathTo(state.tree, each.name);
    auto loop = std::find_if(path.begin(), path.end(), [](Node *node) { return node->isLoop(); });
    const Node *outermost = loop == path.end() ? nullptr : *loop;
    if (each.tensor == tensor)
      writers.insert(outermost);
    else
      forEachLoad(each, [&](const Expression &load, size_t) {
        if (load.tensor == tensor)
          readers.insert(outermost);
      });
  }
  const Node *only = readers.size() == 1 ? *readers.begin() : nullptr;
  return writers.count(only) ? nullptr : only;
}

} // namespace

/// From the last tensor to the first: where a stage has moved, those that it reads may follow.
Status Schedule::recompute() {
  std::vector<std::string> locals;
  for (const Tensor &each : state_->nest.tensors)
    if (each.role == Tensor::Role::Local)
      locals.insert(locals.begin(), each.name);
  for (const std::string &each : locals) {
    std::string loop;
    Status status = guarded(*state_, "affine", [&]() -> Status {
      const Node *reader = outermostReader(*state_, each);
      if (reader && isReadByNeighbours(*state_, *reader, each))
        loop = reader->name;
      return {};
    });
    if (!status.ok())
      return status;
    if (!loop.empty())
      (void)computeAt(each, loop); // what is refused stays where it is
  }
  return {};
}

Status Schedule::affine(Fusion fusion) {
  std::optional<Schedule> before; // stages are moved one by one
  if (fusion == Fusion::Recomputed)
    before = copy();
  Status status = changeTree(*state_, "affine", [&](Node &tree) -> std::string {
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
  if (!status.ok() || !before)
    return status;
  status = recompute();
  if (!status.ok())
    *this = std::move(*before);
  return status;
}

} // namespace tensmith::nest

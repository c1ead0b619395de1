// Boxes around images of accesses; see Footprint.h.
#include "compiler/nest/Footprint.h"

#include <isl/map.h>
#include <isl/set.h>

#include <algorithm>

namespace tensmith::nest {

isl::map touched(const NestChange &change, const std::vector<const Node *> &loops,
                 const std::vector<std::string> &statements,
                 const std::function<bool(const Access &)> &isMeant) {
  isl::map result;
  for (const std::string &name : statements)
    for (const Access &access : change.relations->of(name).accesses) {
      if (!isMeant(access))
        continue;
      isl::map own = valuesOf(loops, name, *change.relations).reverse();
      own = own.apply_range(access.elements);
      result = result.is_null() ? own : result.unite(own);
    }
  return result;
}

std::map<std::string, Affine> valuesAt(const Footprint &box, const std::vector<Affine> &at) {
  std::map<std::string, Affine> values;
  for (size_t number = 0; number < at.size(); ++number)
    values[box.at[number]] = at[number];
  return values;
}

std::vector<Affine> placed(const Footprint &box, const std::vector<int64_t> &order,
                           const std::vector<Affine> &at, const std::vector<Affine> &indices) {
  std::map<std::string, Affine> values = valuesAt(box, at);
  std::vector<Affine> result = at;
  for (int64_t dim : order)
    result.push_back(indices[size_t(dim)] - substituted(box.low[size_t(dim)], values));
  return result;
}

std::vector<Affine> affineIndices(const std::vector<Expr> &indices, size_t rank) {
  std::vector<Affine> result;
  for (size_t dim = 0; dim < rank; ++dim)
    result.push_back(indices[dim]->affine);
  return result;
}

std::vector<Expr> asIndices(const std::vector<Affine> &indices) {
  std::vector<Expr> result;
  for (const Affine &each : indices)
    result.push_back(index(each));
  return result;
}

void redirectLoads(
    Statement &statement, const std::string &from, const std::string &to,
    const std::function<std::vector<Affine>(const std::vector<Affine> &indices)> &place) {
  auto replace = [&](const Expression &load) -> Expr {
    if (load.tensor != from)
      return nullptr;
    Expression own = load;
    size_t rank = rankOf(load);
    own.tensor = to;
    own.operands = asIndices(place(affineIndices(load.operands, rank)));
    own.operands.insert(own.operands.end(), load.operands.begin() + int64_t(rank),
                        load.operands.end());
    return std::make_shared<Expression>(std::move(own));
  };
  statement.value = withLoads(statement.value, replace);
  for (Expr &each : statement.indices)
    each = withLoads(each, replace);
}

namespace {

/// All constraints that hold of the whole relation, without quotients.
std::vector<Constraint> hullOf(const isl::map &map, const std::vector<std::string> &in,
                               const std::vector<std::string> &out) {
  isl_basic_map *hull = isl_basic_map_remove_divs(isl_map_simple_hull(map.copy()));
  return constraintsOf(isl::manage(isl_basic_map_remove_redundancies(hull)), in, out)
      .value_or(std::vector<Constraint>());
}

bool isOver(const Affine &affine, const std::vector<std::string> &names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string &each) { return affine.coefficient(each) != 0; });
}

} // namespace

std::optional<Bounds> boundsOf(const isl::map &map, const std::vector<std::string> &at) {
  const std::string index = "index.";
  std::vector<Constraint> constraints = hullOf(map, at, {index});
  // What bounds all iterations is no constraint where one on the loops' values says more.
  isl::map all = isl::manage(isl_map_from_range(isl_map_range(map.copy())));
  for (Constraint &each : hullOf(all, {}, {index}))
    constraints.push_back(std::move(each));
  std::vector<Affine> lower, upper;
  for (const Constraint &each : constraints) {
    Affine rest = each.value;
    int64_t factor = rest.coefficient(index);
    rest.terms.erase(index);
    if (factor == 1 || (factor == -1 && each.isEquality))
      lower.push_back(-factor * rest);
    if (factor == -1 || (factor == 1 && each.isEquality))
      upper.push_back(-factor * rest);
  }
  std::optional<Bounds> result;
  for (const Affine &low : lower)
    for (const Affine &high : upper) {
      Affine extent = high - low + 1;
      bool isNearer =
          !result || (extent.isConstant() &&
                      (!result->extent.isConstant() || extent.constant < result->extent.constant));
      if (!isOver(extent, at) && isNearer)
        result = {low, extent};
    }
  return result;
}

Result<Footprint> footprintOf(const isl::map &touched, const Tensor &tensor,
                              const Relations &relations, std::vector<std::string> at) {
  Footprint result;
  result.at = std::move(at);
  size_t rank = tensor.extents.size();
  for (size_t dim = 0; dim < rank; ++dim)
    result.indices.push_back("index." + std::to_string(dim));
  isl::map inside = touched.intersect_range(relations.elements(tensor));
  inside = isl::manage(isl_map_detect_equalities(inside.coalesce().release()));
  for (size_t dim = 0; dim < rank; ++dim) {
    isl_map *map = isl_map_project_out(inside.copy(), isl_dim_out, unsigned(dim + 1),
                                       unsigned(rank - dim - 1));
    isl::map one = isl::manage(isl_map_project_out(map, isl_dim_out, 0, unsigned(dim)));
    auto bounds = boundsOf(one, result.at);
    if (!bounds)
      return invalidArgument("how much of dimension " + std::to_string(dim) + " of '" +
                             tensor.name + "' is touched at once has no bound by sizes");
    result.low.push_back(bounds->low);
    result.extents.push_back(bounds->extent);
  }
  std::optional<std::vector<Constraint>> exact;
  if (isl_map_n_basic_map(inside.get()) == 1) {
    isl_basic_map_list *list = isl_map_get_basic_map_list(inside.get());
    exact = constraintsOf(isl::manage(isl_basic_map_list_get_basic_map(list, 0)), result.at,
                          result.indices);
    isl_basic_map_list_free(list);
  }
  result.isExact = exact.has_value();
  result.points = exact ? *exact : hullOf(inside, result.at, result.indices);
  for (size_t dim = 0; dim < rank; ++dim)
    for (const Affine &value : {Affine(result.indices[dim]) - result.low[dim],
                                result.low[dim] + result.extents[dim] - 1 - result.indices[dim]})
      if (!exact)
        result.points.push_back({value});
  return result;
}

} // namespace tensmith::nest

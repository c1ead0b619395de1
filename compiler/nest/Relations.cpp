// From affine expressions to isl's sets; see Relations.h.
#include "compiler/nest/Relations.h"

#include <isl/constraint.h>
#include <isl/ctx.h>
#include <isl/map.h>
#include <isl/options.h>
#include <isl/set.h>
#include <isl/space.h>

namespace tensmith::nest {

IslContext::IslContext() : context_(isl_ctx_alloc()) {
  isl_options_set_on_error(context_, ISL_ON_ERROR_CONTINUE);
  isl_options_set_schedule_maximize_band_depth(context_, 1);
}

IslContext::~IslContext() { isl_ctx_free(context_); }

void IslContext::limit(unsigned long operations) {
  isl_ctx_reset_error(context_);
  isl_ctx_reset_operations(context_);
  isl_ctx_set_max_operations(context_, operations);
}

bool IslContext::isExhausted() const { return isl_ctx_last_error(context_) == isl_error_quota; }

std::string IslContext::error() const {
  if (isExhausted())
    return "isl's limit of operations was reached";
  const char *message = isl_ctx_last_error_msg(context_);
  return std::string("isl: ") + (message ? message : "unknown error");
}

static isl::space withParameters(isl::ctx context, const Nest &nest) {
  isl_space *space = isl_space_params_alloc(context.get(), nest.parameters.size());
  for (size_t number = 0; number < nest.parameters.size(); ++number)
    space =
        isl_space_set_dim_name(space, isl_dim_param, number, nest.parameters[number].name.c_str());
  return isl::manage(space);
}

/// Over the names that the space has, as parameters or as dimensions of its set.
static isl::aff affineOver(const isl::space &space, const Affine &value) {
  isl_aff *aff = isl_aff_zero_on_domain(isl_local_space_from_space(space.copy()));
  isl_ctx *context = space.ctx().get();
  aff = isl_aff_set_constant_val(aff, isl_val_int_from_si(context, value.constant));
  for (const auto &[name, factor] : value.terms) {
    bool isParameter = true;
    int at = isl_space_find_dim_by_name(space.get(), isl_dim_param, name.c_str());
    if (at < 0) {
      isParameter = false;
      at = isl_space_find_dim_by_name(space.get(), isl_dim_set, name.c_str());
    }
    aff = isl_aff_set_coefficient_val(aff, isParameter ? isl_dim_param : isl_dim_in, at,
                                      isl_val_int_from_si(context, factor));
  }
  return isl::manage(aff);
}

static isl::set constrained(isl::set set, const isl::space &space,
                            const std::vector<Constraint> &constraints) {
  for (const Constraint &each : constraints) {
    isl::aff value = affineOver(space, each.value);
    isl::pw_aff zero =
        isl::manage(isl_aff_zero_on_domain(isl_local_space_from_space(space.copy())));
    isl::pw_aff whole = value;
    set = set.intersect(each.isEquality ? whole.eq_set(zero) : whole.ge_set(zero));
  }
  return set;
}

Relations::Relations(isl::ctx context, const Nest &nest)
    : context_(context), parameterSpace_(withParameters(context, nest)) {
  isl::set all = isl::manage(isl_set_universe(isl_space_set_from_params(parameterSpace_.copy())));
  std::vector<Constraint> bounds = nest.context;
  for (const Parameter &each : nest.parameters) {
    bounds.push_back(atLeast(each.name, each.least));
    bounds.push_back(atLeast(each.most, each.name));
  }
  isl::space space = isl::manage(isl_space_set_from_params(parameterSpace_.copy()));
  parameters_ = isl::manage(isl_set_params(constrained(all, space, bounds).release()));
  for (const Statement &each : nest.statements) {
    StatementRelations own;
    isl::set points = isl::manage(isl_set_universe(this->space(each).release()));
    own.domain = constrain(points, each, each.domain).intersect_params(parameters_);
    statements_[each.name] = own;
    StatementRelations &stored = statements_[each.name];
    Access write = access(nest, each, each.tensor, each.indices, each.indices.size());
    write.isWrite = true;
    write.accumulates = each.reduction != Reduction::None;
    if (write.accumulates) {
      Access read = write;
      read.isWrite = false;
      stored.accesses.push_back(read);
    }
    stored.accesses.push_back(write);
    addLoads(nest, each, stored);
  }
}

isl::space Relations::space(const Statement &statement) const {
  isl_space *space = isl_space_set_from_params(parameterSpace_.copy());
  space = isl_space_add_dims(space, isl_dim_set, statement.iterators.size());
  for (size_t number = 0; number < statement.iterators.size(); ++number)
    space = isl_space_set_dim_name(space, isl_dim_set, number, statement.iterators[number].c_str());
  return isl::manage(isl_space_set_tuple_name(space, isl_dim_set, statement.name.c_str()));
}

isl::aff Relations::affine(const Affine &value, const Statement &statement) const {
  return affineOver(space(statement), value);
}

isl::pw_aff Relations::iterator(const Statement &statement, size_t number) const {
  return affine(Affine(statement.iterators[number]), statement);
}

isl::set Relations::constrain(isl::set set, const Statement &statement,
                              const std::vector<Constraint> &constraints) const {
  return constrained(std::move(set), space(statement), constraints);
}

Access Relations::access(const Nest &nest, const Statement &statement, const std::string &tensor,
                         const std::vector<Expr> &indices, size_t rank) const {
  isl_space *range = isl_space_set_from_params(parameterSpace_.copy());
  range = isl_space_add_dims(range, isl_dim_set, rank);
  range = isl_space_set_tuple_name(range, isl_dim_set, tensor.c_str());
  isl_map *map =
      isl_map_universe(isl_space_map_from_domain_and_range(space(statement).release(), range));
  Access result;
  result.tensor = tensor;
  for (size_t dim = 0; dim < rank; ++dim) {
    if (indices[dim]->operation != Operation::Index) {
      result.isExact = false;
      continue;
    }
    // The coordinate minus its index is zero.
    isl_local_space *local = isl_local_space_from_space(isl_map_get_space(map));
    isl_constraint *equality = isl_constraint_alloc_equality(isl_local_space_copy(local));
    isl_ctx *context = isl_map_get_ctx(map);
    const Affine &value = indices[dim]->affine;
    equality = isl_constraint_set_coefficient_si(equality, isl_dim_out, dim, -1);
    equality =
        isl_constraint_set_constant_val(equality, isl_val_int_from_si(context, value.constant));
    for (const auto &[name, factor] : value.terms) {
      isl_dim_type type = isl_dim_param;
      int at = isl_local_space_find_dim_by_name(local, type, name.c_str());
      if (at < 0)
        at = isl_local_space_find_dim_by_name(local, type = isl_dim_in, name.c_str());
      equality = isl_constraint_set_coefficient_val(equality, type, at,
                                                    isl_val_int_from_si(context, factor));
    }
    isl_local_space_free(local);
    map = isl_map_add_constraint(map, equality);
  }
  result.elements = isl::manage(map).intersect_domain(of(statement.name).domain);
  return result;
}

void Relations::addLoads(const Nest &nest, const Statement &statement,
                         StatementRelations &into) const {
  forEachLoad(statement, [&](const Expression &load, size_t rank) {
    Access read = access(nest, statement, load.tensor, load.operands, rank);
    if (!load.guard.empty())
      read.elements = read.elements.intersect_domain(constrain(into.domain, statement, load.guard));
    into.accesses.push_back(read);
  });
}

isl::set Relations::elements(const Tensor &tensor) const {
  isl_space *space = isl_space_set_from_params(parameterSpace_.copy());
  space = isl_space_add_dims(space, isl_dim_set, tensor.extents.size());
  space = isl_space_set_tuple_name(space, isl_dim_set, tensor.name.c_str());
  isl::space own = isl::manage(space);
  isl::set result = isl::manage(isl_set_universe(own.copy()));
  for (size_t dim = tensor.instances; dim < tensor.extents.size(); ++dim) {
    isl::aff at = isl::manage(
        isl_aff_var_on_domain(isl_local_space_from_space(own.copy()), isl_dim_set, dim));
    isl::aff extent = affineOver(own, tensor.extents[dim]);
    isl::aff zero = isl::manage(isl_aff_zero_on_domain(isl_local_space_from_space(own.copy())));
    result = result.intersect(at.ge_set(zero)).intersect(at.lt_set(extent));
  }
  return result;
}

std::string Relations::outside(const Nest &nest) const {
  for (const auto &[statement, own] : statements_)
    for (const Access &access : own.accesses) {
      isl::set touched = access.elements.range();
      isl::set elements = this->elements(*nest.tensor(access.tensor));
      if (!access.isExact) // run-time checks see to the other dimensions
        for (size_t dim = 0; dim < nest.tensor(access.tensor)->extents.size(); ++dim) {
          bool bounded = isl_set_dim_has_any_lower_bound(touched.get(), isl_dim_set, dim);
          if (!bounded)
            elements = isl::manage(
                isl_set_drop_constraints_involving_dims(elements.release(), isl_dim_set, dim, 1));
        }
      if (!touched.is_subset(elements))
        return "statement '" + statement + "' " + (access.isWrite ? "writes" : "reads") + " '" +
               access.tensor +
               "' outside of its extents for some sizes; state in the context what " +
               "holds of the sizes, or bound the iterators";
    }
  return {};
}

} // namespace tensmith::nest

// The value of a comprehension's statement as a nest's expression.
#pragma once

#include "compiler/nest/ComprehensionNest.h"

namespace tensmith::nest {

class ComprehensionValue {
public:
  struct Scope {
    const std::vector<std::string> &iterators;
    const std::vector<Constraint> &domain;
    const std::map<size_t, std::string> &tensors; // names in the nest
    std::function<std::optional<Affine>(const comprehension::Expr &)> affine;
    std::function<const Tensor &(const std::string &)> tensor;
  };

  ComprehensionValue(const graph::ComprehensionView &view, Scope scope)
      : view_(view), scope_(std::move(scope)) {}

  /// Of the type that the expression is computed as; null where there is a refusal. `active`: where
  /// its reads take place, null: everywhere.
  Expr of(const comprehension::Expr &expr, const Expr &active = {});
  const std::string &refusal() const { return refusal_; }

private:
  Expr refuse(std::string why);
  Expr whole(const comprehension::Expr &expr, const Expr &active);
  Expr binary(const comprehension::Expr &expr, const Expr &active);
  Expr function(const comprehension::Expr &expr, const Expr &active);
  Expr composed(const std::string &name, std::vector<Expr> x);
  Expr read(const comprehension::Expr &expr, const Expr &active);
  bool alwaysHolds(const Expr &condition) const;

  const graph::ComprehensionView &view_;
  Scope scope_;
  std::string refusal_;
};

} // namespace tensmith::nest

// The value of a comprehension's statement as a nest's expression, and its sizes as parameters.
#pragma once

#include "compiler/nest/ComprehensionNest.h"

#include "llvm/ADT/DenseMap.h"

namespace tensmith::graph {
class ComprehensionSizes;
}

namespace tensmith::nest {

/// Expressions over symbols of sizes as affine ones over the nest's parameters. What is not affine
/// in sizes is a parameter; of a quotient by a constant its bounds are put into the context.
class Parameters {
public:
  Parameters(SizedNest &into, graph::ShapeContext &shapes, graph::ComprehensionSizes &sizes);

  Affine affine(mlir::AffineExpr value);
  /// Nothing where it is none of sizes.
  std::optional<Affine> affine(const comprehension::Expr &expr);

private:
  std::string parameter(mlir::AffineExpr value);
  Affine quotient(mlir::AffineBinaryOpExpr value, int64_t divisor);

  SizedNest &into_;
  graph::ShapeContext &shapes_;
  graph::ComprehensionSizes &sizes_;
  llvm::DenseMap<mlir::AffineExpr, std::string> known_;
};

/// 16-bit floats are computed as f32, and rounded where they are stored.
DataType computedAs(DataType type);

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

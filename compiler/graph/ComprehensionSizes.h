// Integer expressions of a comprehension over the symbols of its operands' sizes.
#pragma once

#include "compiler/graph/Comprehension.h"
#include "compiler/graph/Inference.h"

namespace tensmith::graph {

class ComprehensionSizes {
public:
  ComprehensionSizes(const ComprehensionView &view, mlir::Operation *op, ShapeContext &shapes)
      : view_(view), op_(op), shapes_(shapes) {}

  /// Null where it is none over sizes: of a scalar's value, of an extreme that only sizes decide.
  mlir::AffineExpr of(const comprehension::Expr &expr);
  /// What a requirement asks of sizes; nothing where that can't be said of symbols.
  std::optional<Condition> conditionOf(const comprehension::Requirement &requirement);
  /// Whether the operator is to keep to the requirement: the whole function to all.
  bool concerns(const comprehension::Requirement &requirement) const {
    return !view_.statement || requirement.statement == *view_.statement;
  }

private:
  mlir::AffineExpr binary(const comprehension::Expr &expr);

  const ComprehensionView &view_;
  mlir::Operation *op_;
  ShapeContext &shapes_;
};

} // namespace tensmith::graph

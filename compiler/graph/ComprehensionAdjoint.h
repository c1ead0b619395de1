// Texts of comprehensions that compute the cotangent of an operand of another one's statement.
#pragma once

#include "compiler/graph/Comprehension.h"
#include "compiler/graph/Gradient.h"

#include <map>

namespace tensmith::graph {

/// Inputs of the texts are the statement's operands, its result and the result's cotangent.
class AdjointText {
public:
  struct Scatter {
    std::string values, places; // what is added, and the indices where
  };
  struct Texts {
    std::string pulls; // the sum of what is no scatter; empty: there is none
    std::vector<Scatter> scatters;
    std::string refusal; // why there is no derivative; empty: there is one
  };

  explicit AdjointText(const ComprehensionView &view);

  Texts of(size_t tensor);

private:
  using Expr = comprehension::Expr;
  using ExprRef = comprehension::ExprRef;

  /// An access of the tensor, and what its elements are multiplied by for the cotangent.
  struct Access {
    ExprRef read, factor;
  };
  /// An index's ranges and conditions of a statement of the text.
  struct Points {
    std::string where, guard;
  };

  std::string head(const std::string &results) const;
  std::string nameOf(size_t tensor) const { return "x" + std::to_string(tensor); }
  ExprRef renamed(const ExprRef &expr) const;
  ExprRef indexOf(size_t number) const;
  ExprRef atTarget(const std::string &name, bool isInput) const;
  std::string listOfIndices(llvm::ArrayRef<size_t> indices) const;
  Points pointsOf(llvm::ArrayRef<size_t> indices, const std::string &more = {}) const;
  std::string statement(const std::string &target, const std::string &sign,
                        const std::string &value, const Points &points) const;

  /// The seed of the walk at the point; statements that it reads of go to `before`.
  ExprRef seed(std::string &before) const;
  ExprRef extremeSeed(std::string &before) const;
  ExprRef productSeed(std::string &before) const;
  ExprRef oldIsResult() const;
  ExprRef ofOldTarget() const;
  void collect(size_t tensor, const ExprRef &seed, std::vector<Access> &accesses,
               std::string &refusal) const;
  std::string pull(size_t tensor, const Access &access);
  Scatter scatter(size_t tensor, const Access &access, const std::string &before) const;

  const ComprehensionView &view_;
  const comprehension::Function &function_;
  const comprehension::Statement &statement_;
  std::map<size_t, ExprRef> solved_; // indices, at the access at hand
};

/// Of the operator, a family of its own.
std::span<const NamedGradientRule> comprehensionGradients();

/// What a function's argument is multiplied by for the derivative along it, times `factor`; null
/// where there is none. Of a step "0.0".
comprehension::ExprRef partialDerivative(const std::string &function,
                                         llvm::ArrayRef<comprehension::ExprRef> arguments,
                                         size_t along, const comprehension::ExprRef &factor);

} // namespace tensmith::graph

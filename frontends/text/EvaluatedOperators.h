// Operators in the language's evaluator: attributes and result types of each use, and the sizes
// that the symbols in them have in a run.
#pragma once

#include "frontends/text/Evaluator.h"

#include "base/Attributes.h"

#include <random>

namespace tensmith::text {

/// The expression of an operand: by its place or by its name; null: absent.
const Expr *operandOf(const Expr &use, const Relation &relation, size_t index);

class EvaluatedOperators {
public:
  EvaluatedOperators(Program &program, const EvaluationOptions &options)
      : program_(program), options_(options), random_(options.seed) {}

  /// Whether an input is of its type; gives the symbols in the type their sizes.
  Status bindInput(const ValueRef &input, Term *type);
  Result<std::vector<ValueRef>> evaluate(const Relation &relation,
                                         const std::vector<ValueRef> &operands);

private:
  using Dims = std::vector<mlir::AffineExpr>;
  struct Use {
    Attributes attributes;
    std::vector<std::pair<DataType, Dims>> results;
  };

  Status bindTensor(const HostTensor &tensor, Term *type);
  Result<const Use *> use(const Relation &relation);
  std::optional<int64_t> sizeOf(mlir::AffineExpr size) const;
  Status check(const HostTensor &result, const Dims &dims) const;

  void disturb(const std::vector<HostTensor> &operands, HostTensor &result);

  Program &program_;
  const EvaluationOptions &options_;
  std::mt19937_64 random_;
  uint64_t draws_ = 0; // so far
  std::unordered_map<const Relation *, Use> uses_;
  std::map<std::string, int64_t> sizes_; // of symbols
};

} // namespace tensmith::text

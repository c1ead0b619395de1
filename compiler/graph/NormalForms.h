// Normal forms that were found before, for as long as their context lives.
//
// A size is brought to its normal form (Polynomial.h) whenever a type is read, verified or
// compared, and a long one, as padding to a computed length makes it, has the same quotients many
// times: without this most of such a model's compilation is their division. Expressions are unique
// in a context, so that the address of one stands for it.
#pragma once

#include "compiler/graph/Polynomial.h"

#include "mlir/IR/DialectInterface.h"
#include "llvm/ADT/DenseMap.h"

#include <mutex>
#include <unordered_map>

namespace tensmith::graph {

/// An interface of the graph's dialect, which a context has one of. From any thread.
class NormalForms : public mlir::DialectInterface::Base<NormalForms> {
public:
  explicit NormalForms(mlir::Dialect *dialect) : Base(dialect) {}

  /// That of the context; null where the dialect isn't loaded.
  static NormalForms *of(mlir::MLIRContext *context);

  /// `compute` of an expression, once. Partial sums are not memoised: a sum of k terms has k
  /// prefixes, whose forms together are quadratic in length.
  mlir::AffineExpr whole(mlir::AffineExpr size,
                         llvm::function_ref<mlir::AffineExpr(mlir::AffineExpr)> compute);
  Polynomial quotient(mlir::AffineExpr quotient,
                      llvm::function_ref<Polynomial(mlir::AffineExpr)> compute);
  /// As `textOf` gives it.
  const std::string &text(mlir::AffineExpr expression);

private:
  std::mutex mutex_;
  llvm::DenseMap<mlir::AffineExpr, mlir::AffineExpr> whole_;
  std::unordered_map<const void *, Polynomial> quotients_; // each stays where it is
  std::unordered_map<const void *, std::string> texts_;
};

} // namespace tensmith::graph

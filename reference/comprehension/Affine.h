// Integer expressions over sizes and indices as sums of terms: what ranges are inferred with.
#pragma once

#include "reference/comprehension/Analysis.h"

#include <map>

namespace tensmith::comprehension {

/// Equal for expressions that are the same.
std::string keyOf(const Expr &expr);

/// constant + sum of coefficient * term. Terms are sizes, indices and whatever is not affine, by
/// their text. `valid` is false where a number was beyond 64 bits.
struct Affine {
  struct Term {
    int64_t coefficient;
    ExprRef expr;
  };
  std::map<std::string, Term> terms;
  int64_t constant = 0;
  bool valid = true;

  bool isConstant() const { return valid && terms.empty(); }
  void add(const ExprRef &term, int64_t coefficient);
  void add(const Affine &other, int64_t factor);
};

Affine affineOf(const ExprRef &expr);
ExprRef exprOf(const Affine &affine);
/// The expression with terms collected and numbers folded.
ExprRef simplified(const ExprRef &expr);
inline ExprRef plus(const ExprRef &a, const ExprRef &b) {
  return simplified(binaryExpr("+", a, b));
}
inline ExprRef minus(const ExprRef &a, const ExprRef &b) {
  return simplified(binaryExpr("-", a, b));
}
/// The greater or smaller of two; one of them where that is certain for all sizes.
ExprRef greater(const ExprRef &a, const ExprRef &b);
ExprRef smaller(const ExprRef &a, const ExprRef &b);
/// Whether a <= b whatever the sizes are, none of which is negative. Without indices.
bool isAtMost(const ExprRef &a, const ExprRef &b);
/// Whether the expression has an index.
bool hasIndices(const Expr &expr);

/// The least and the greatest value, both attained where `isExact`.
struct Interval {
  ExprRef least, most;
};
/// Over all indices of the statement that have ranges, which bounds of others refer to; nothing
/// where the expression has no such bounds, or an index without a range.
std::optional<Interval> boundsOf(const ExprRef &expr, std::span<const Index> indices);

} // namespace tensmith::comprehension

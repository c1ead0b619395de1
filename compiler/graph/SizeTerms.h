// What stands in an expression over sizes, as proofs look at it: quotients, multiples, a number
// times a part.
//
// All expressions are in the normal form of Polynomial.h: a number is the last summand and the last
// factor, and quotients are rounded down.
#pragma once

#include "mlir/IR/AffineExpr.h"

#include <optional>

namespace tensmith::graph {

/// Nothing where either is not known, or the result overflows.
std::optional<int64_t> checkedSum(std::optional<int64_t> a, std::optional<int64_t> b);
std::optional<int64_t> checkedProduct(std::optional<int64_t> a, std::optional<int64_t> b);

/// Of b > 0, rounded down: -1 / 2 is -1.
inline int64_t floorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/// p floordiv d by a positive number.
struct Quotient {
  mlir::AffineBinaryOpExpr whole;
  int64_t divisor;

  mlir::AffineExpr numerator() const { return whole.getLHS(); }
};
std::optional<Quotient> quotientOf(mlir::AffineExpr expression);

/// times * part + constant, where the part is a symbol or a quotient.
struct Linear {
  mlir::AffineExpr part;
  int64_t times = 1, constant = 0;

  bool isOfSymbol() const { return llvm::isa<mlir::AffineSymbolExpr>(part); }
  /// The part where the whole is 0, if that is a number at all.
  std::optional<int64_t> root() const;
  /// The least that the part is (times > 0), or the most, where the whole is not negative.
  int64_t bound() const;
};
std::optional<Linear> linearOf(mlir::AffineExpr expression);

/// As 2 * n - 1: what is odd is not 0.
bool isNeverZero(mlir::AffineExpr difference);

/// An expression that is not negative only where the given one is not, either, without quotients
/// that are subtracted: since p floordiv d <= p / d, r - k * (p floordiv d) >= (d * r - k * p) / d.
/// `any`: without those that are added, either, where p floordiv d >= (p - (d - 1)) / d. It ends
/// before that where `isEnough`.
mlir::AffineExpr withoutQuotients(mlir::AffineExpr expression, bool any,
                                  llvm::function_ref<bool(mlir::AffineExpr)> isEnough);

/// The other way: one that is not negative where the given one isn't, with one quotient less. So a
/// bound of a quotient is one of what it divides: 0 <= 2 - p floordiv d says 0 <= 2 * d + (d - 1) -
/// p. Null where there is none, or its coefficients are too large.
mlir::AffineExpr boundWithoutQuotient(mlir::AffineExpr expression);

/// A quotient as one of another that is a part of the expression, too, which is a symbol of its own
/// then: with q = p floordiv 4, (p + 8) floordiv 12 is (q + 2) floordiv 3. So sizes behind strided
/// layers are compared, whose normal form divides but once. `isSize`: whether a quotient is never
/// negative, as symbols aren't.
mlir::AffineExpr nestedQuotients(mlir::AffineExpr expression,
                                 llvm::function_ref<bool(mlir::AffineExpr)> isSize);

/// The size of which `product` says that the symbol is a multiple, which is a positive number or
/// another symbol: (s floordiv 2) * 2, n * (s floordiv n). Null where it says nothing.
mlir::AffineExpr multipleOf(mlir::AffineSymbolExpr symbol, mlir::AffineExpr product);

} // namespace tensmith::graph

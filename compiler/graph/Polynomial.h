// Sizes as polynomials over symbols and quotients: the normal form that makes them comparable.
//
// A sum of products, each a coefficient times a sorted list of atoms: a symbol, a quotient that
// does not divide out, or a sum that is not multiplied out. Two sizes are equal if their
// polynomials are. What strided layers and reshapes make of sizes has one form: quotients are
// rounded down, by what divides no part of their numerators, and remainders are differences
// (Graham, Knuth, Patashnik, "Concrete mathematics", section 3.2, has the identities).
//
// A product of k sums of two has 2^k terms. So a product of more than kMostTerms keeps its factors:
// each sum in it is an atom. Whether it is multiplied out depends on its factors alone, and not on
// how they are grouped. Beyond that limit not all that is equal is found to be.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "llvm/ADT/SmallVector.h"

#include <map>
#include <optional>
#include <string>

namespace tensmith::graph {

/// The text of an expression over s0, s1, ...
std::string textOf(mlir::AffineExpr expression);

/// Symbols by number, before quotients and sums by their text: an order that does not depend on
/// addresses.
bool atomLess(mlir::AffineExpr a, mlir::AffineExpr b);

using Monomial = llvm::SmallVector<mlir::AffineExpr, 4>; // atoms, sorted; empty: 1

/// Those of more atoms first, which products keep.
struct MonomialLess {
  bool operator()(const Monomial &a, const Monomial &b) const;
};

class Polynomial {
public:
  explicit Polynomial(mlir::MLIRContext *context) : context_(context) {}

  static Polynomial of(mlir::AffineExpr expression);
  /// The expression of that.
  static mlir::AffineExpr normal(mlir::AffineExpr size);
  /// The factors of a product, as they stand in it: what `product` is given of all of it.
  static void appendFactors(mlir::AffineExpr expression, llvm::SmallVectorImpl<Polynomial> &);
  static Polynomial product(llvm::ArrayRef<Polynomial> factors, mlir::MLIRContext *context);

  mlir::AffineExpr expression() const;

private:
  /// Terms of a product that is multiplied out.
  static constexpr size_t kMostTerms = 256;
  /// A divisor up to which quotients of quotients become one: what it is multiplied by stays exact.
  static constexpr int64_t kLargestDivisor = int64_t(1) << 31;

  static Polynomial ofAtom(mlir::AffineExpr atom);
  static Polynomial quotient(mlir::AffineExprKind kind, Polynomial a, Polynomial b);
  static Polynomial floorOf(Polynomial a, int64_t divisor);
  static void cancel(Polynomial &a, Polynomial &b);

  void add(Monomial monomial, int64_t coefficient);
  void addAll(const Polynomial &other, int64_t factor = 1);
  size_t countTerms() const;
  Polynomial times(const Polynomial &other) const;
  std::optional<int64_t> constant() const;
  std::optional<Polynomial> dividedBy(const Polynomial &divisor) const;
  Polynomial takeMultiples(const Polynomial &divisor);
  int64_t content() const;
  bool flatten(int64_t &divisor);

  mlir::MLIRContext *context_;
  std::map<Monomial, int64_t, MonomialLess> terms_;
};

} // namespace tensmith::graph

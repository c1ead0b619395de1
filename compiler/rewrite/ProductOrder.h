// In which order a chain of matrices is multiplied, so that it takes the fewest operations.
//
// (A B) v takes n * k * m multiplications and A (B v) only k * m + n * k. The best order of a chain
// is made of the best orders of its parts, so that dynamic programming over all parts finds it
// (Godbole, "On efficient computation of matrix chain products", 1973; Cormen, Leiserson, Rivest,
// Stein, "Introduction to Algorithms", section 15.2). Sizes may be open: then a part has several
// orders, none of which takes at most as many operations as another one for all sizes. What is left
// at the end is compared at samples of the sizes; a run decides between those that it takes to be
// close to the best at each of them.
//
// A part may be given, as a product that another reader needs anyway, and takes nothing then.
#pragma once

#include "compiler/graph/Polynomial.h"
#include "compiler/graph/Shape.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>
#include <memory>
#include <vector>

namespace tensmith::rewrite {

using SizeValues = llvm::DenseMap<mlir::AffineExpr, double>; // of symbols

/// How many multiplications something takes: a sum of products of sizes.
class OperationCount {
public:
  /// The product of the sizes.
  static OperationCount ofProduct(llvm::ArrayRef<mlir::AffineExpr> sizes);

  OperationCount &operator+=(const OperationCount &other);
  /// Whether it is found to be no more than the other, for all sizes from 1 on.
  bool isAtMost(const OperationCount &other) const;
  double at(const SizeValues &values) const;

private:
  std::map<graph::Monomial, double, graph::MonomialLess> terms_;
};

/// A stack of matrices; the stacks of a chain broadcast together, from their last dimensions on.
struct FactorSizes {
  mlir::AffineExpr rows, columns;
  llvm::SmallVector<mlir::AffineExpr, 2> stack;
};

/// A factor, a part that is given, or the product of two parts.
struct ProductTree {
  unsigned first, last;
  std::shared_ptr<const ProductTree> left, right; // both or none

  bool isProduct() const { return left != nullptr; }
};

struct ProductOrder {
  OperationCount count;
  std::shared_ptr<const ProductTree> tree;
};

/// What the product of two neighbouring parts of a chain takes.
OperationCount countOfProduct(llvm::ArrayRef<FactorSizes> chain, unsigned first, unsigned split,
                              unsigned last, graph::ShapeContext &shapes);

/// Chains beyond are taken apart before they come here: time goes by the cube of the length.
inline constexpr size_t kMostFactors = 40;

/// The best orders of a chain: one where sizes are known. `isGiven`: of parts of two factors or
/// more.
std::vector<ProductOrder> bestOrders(llvm::ArrayRef<FactorSizes> chain, graph::ShapeContext &shapes,
                                     llvm::function_ref<bool(unsigned, unsigned)> isGiven);

/// Sizes from 1 to some thousands for the symbols, where costs that no proof compares are compared.
class SizeSamples {
public:
  explicit SizeSamples(llvm::ArrayRef<FactorSizes> chain);

  /// Whether no size is open, so that there is one count, and the least is the best.
  bool isKnown() const { return values_.size() == 1; }
  std::vector<double> of(const OperationCount &count) const;

private:
  std::vector<SizeValues> values_;
};

/// Whether nowhere much is lost by the first; with known sizes whether it is no more.
bool isNearly(llvm::ArrayRef<double> count, llvm::ArrayRef<double> best);

/// Numbers of at most `most` of them, one of which is near the best at each sample, as far as so
/// many can be; the first is that which is at the most samples.
llvm::SmallVector<unsigned> covering(llvm::ArrayRef<std::vector<double>> counts, unsigned most);

} // namespace tensmith::rewrite

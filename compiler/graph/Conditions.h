// What an operator requires of its operands' sizes, and what is known of sizes.
//
// A shape function states each requirement once, by `Inference::require...`. Where the sizes are
// known it is decided at once; where symbols leave it open, it becomes a Condition that whoever
// listens at the ShapeContext gets, and that a Check instruction of the plan decides when the
// function's sizes are known. SizeFacts proves conditions: from bounds of expressions over sizes,
// none of which is negative, and from conditions that are known to hold already.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <optional>
#include <string>
#include <vector>

namespace tensmith::graph {

struct Condition {
  /// a = b; a <= b; a is b or 1; one of both is 1, or they are equal.
  enum class Relation : uint8_t { Equal, AtMost, EqualOrOne, Broadcast };

  Relation relation;
  mlir::AffineExpr a, b; // over the symbols of the ShapeContext that it comes from
  /// What the error says; {a} and {b} stand for the values (formatSizes in base/SizeText.h).
  std::string message;
  /// Nothing is required where this is there and 0, as where nothing is read.
  mlir::AffineExpr unlessZero = {};
};

/// Requirements whose message holds this text are taken for granted, as if no record had them: for
/// tests that see whether that is found out. Empty: none are.
std::string &leftOutRequirement();

class SizeFacts {
public:
  /// Whether it holds for all sizes (true), for none (false), or for some.
  std::optional<bool> decide(Condition::Relation relation, mlir::AffineExpr a,
                             mlir::AffineExpr b) const;
  std::optional<bool> decide(const Condition &condition) const;
  /// From now on it holds.
  void assume(const Condition &condition);
  /// A size that something has, and so is not negative.
  void assumeSize(mlir::AffineExpr size) { sizes_.insert(size); }

  /// The expression with what its symbols are known to be equal to in their place.
  mlir::AffineExpr normal(mlir::AffineExpr expression) const;
  bool knowsEquals() const { return !equals_.empty(); }

private:
  /// The normal expression with numbers in the place of quotients that are known to be them.
  mlir::AffineExpr settled(mlir::AffineExpr expression) const;
  std::optional<int64_t> least(mlir::AffineExpr expression) const;
  std::optional<int64_t> most(mlir::AffineExpr expression) const;
  std::optional<int64_t> leastProduct(mlir::AffineExpr a, mlir::AffineExpr b) const;
  std::optional<int64_t> leastQuotient(mlir::AffineBinaryOpExpr quotient) const;
  std::optional<bool> decideEqual(mlir::AffineExpr a, mlir::AffineExpr b) const;
  mlir::AffineExpr divided(mlir::AffineExpr expression) const;
  bool knowsBroadcast(mlir::AffineExpr a, mlir::AffineExpr b) const;
  bool areBroadcast(mlir::AffineExpr a, mlir::AffineExpr b) const;
  bool isPartOf(mlir::AffineExpr a, mlir::AffineExpr broadcast) const;
  void assumeParts(mlir::AffineExpr a, mlir::AffineExpr b);

  llvm::DenseMap<mlir::AffineExpr, mlir::AffineExpr> equals_; // symbols to what they are equal to
  /// Quotients to the numbers that they are equal to: for proofs alone, since in types a size stays
  /// what its operator makes of its operands'.
  llvm::DenseMap<mlir::AffineExpr, mlir::AffineExpr> quotients_;
  llvm::DenseMap<mlir::AffineExpr, mlir::AffineExpr> multiples_; // symbols to 2 * half of them
  llvm::DenseMap<mlir::AffineExpr, int64_t> least_;              // of symbols
  llvm::DenseSet<mlir::AffineExpr> sizes_;
  std::vector<Condition> known_; // in normal form
};

} // namespace tensmith::graph

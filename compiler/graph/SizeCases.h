// Proofs of conditions on sizes that look at what a broadcast is in each case.
//
// The size of a broadcast is one expression that asks of each part whether it is 1
// (BroadcastSizes.h). Where it stands within another, as in a number of elements, or where one part
// is known to be 1 or equal to another, bounds and normal forms don't show what it is. So each
// question is answered both ways: with an answer, the expression is one of the parts, and what was
// known of a part that may be 1 says that it is equal. What holds in all cases holds; a case that
// contradicts what is known, as 1 where a number of heads is even, occurs in no run.
//
// The smaller and the larger of two sizes ask in the same way which of both it is (SlicedRange.h):
// max(n, 256) is not negative in either case.
//
// A proof takes up to twice as long with each question, so this is for those who look for faults of
// rewrites, and, with few questions, for numbers that a model computes of sizes.
#pragma once

#include "compiler/graph/Conditions.h"

namespace tensmith::graph {

class SizeCases {
public:
  /// From now on it holds.
  void assume(const Condition &condition);
  /// A size that something has, and so is not negative.
  void assumeSize(mlir::AffineExpr size);

  const SizeFacts &facts() const { return facts_; }
  /// Whether the condition holds in every case, of up to so many questions.
  bool proves(const Condition &condition, unsigned questions = 6) const;
  /// Whether a <= b for all sizes, by few questions.
  static bool isAtMost(mlir::AffineExpr a, mlir::AffineExpr b);

private:
  SizeCases withAnswer(mlir::AffineExpr question, bool isOne) const;
  Condition narrowed(Condition condition) const;
  void assumeAnswered(const Condition &condition);
  /// The size with the questions answered.
  mlir::AffineExpr answered(mlir::AffineExpr size) const;

  SizeFacts facts_;
  std::vector<Condition> known_;
  std::vector<mlir::AffineExpr> sizes_;
  llvm::DenseMap<mlir::AffineExpr, mlir::AffineExpr> answers_; // of questions and their halves
  llvm::DenseSet<mlir::AffineExpr> notOne_;                    // parts, in normal form
  bool isImpossible_ = false; // whether what is known contradicts itself
};

} // namespace tensmith::graph

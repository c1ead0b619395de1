// Which values depend on those that a derivative is asked for.
//
// Only they have tangents, and only they are given cotangents: what does not depend on a wanted
// value is never differentiated. Through loops the question is asked until nothing changes.
// What references are given, and by whom, is not asked: all of them are active, and whatever acts
// on them (References.cpp). Hascoët and Pascual, "The Tapenade Automatic Differentiation Tool",
// 2013, section 3.
#pragma once

#include "compiler/graph/Gradient.h"

namespace tensmith::autodiff {

class Activity {
public:
  explicit Activity(llvm::ArrayRef<mlir::Value> wanted) {
    active_.insert(wanted.begin(), wanted.end());
  }
  ~Activity();

  /// Takes in the operators from `first` (all where null) to before `last` (the end of the block
  /// where null), in their order.
  void follow(mlir::Block &block, mlir::Operation *first = nullptr,
              mlir::Operation *last = nullptr);
  bool isActive(mlir::Value value) const { return active_.contains(value); }
  void add(mlir::Value value) { active_.insert(value); }
  /// Whether a derivative goes through the operator: an operand is active, or a value that its
  /// regions use, or it acts on references.
  bool isActive(mlir::Operation *op) const;

  void followOperator(mlir::Operation *op);
  /// Takes an operator without uses out of its block. It is destroyed with the activity, so that
  /// no other gets its address while values are known by theirs.
  void retire(mlir::Operation *op);

private:
  void follow(graph::LoopOp loop);
  void followRegions(mlir::Operation *op);
  bool mark(mlir::Value value);

  llvm::DenseSet<mlir::Value> active_;
  llvm::SmallVector<mlir::Operation *> retired_;
};

} // namespace tensmith::autodiff

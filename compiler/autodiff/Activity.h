// Which values depend on those that a derivative is asked for.
//
// Only they have tangents, and only they are given cotangents: what does not depend on a wanted
// value is never differentiated. Through loops the question is asked until nothing changes.
// What references are given, and by whom, is not asked: all of them are active, and whatever acts
// on them (References.cpp). Hascoët and Pascual, "The Tapenade Automatic Differentiation Tool",
// 2013, section 3.
//
// Any value may be active, of whatever type: floats, what holds floats (data, sequences, optionals,
// maps), and what an operator made of them of which nothing is known. An integer that is read off
// the bits of a float is active, and so is what is computed from it, so that whoever uses it for a
// result is told (reportUnknown in Operators.h): no derivative is zero because nobody knows its
// rule. Results end it alone of operators whose record says why theirs is zero (graph::Zero), and
// integer results of operators that have a rule, as the places of the largest elements.
#pragma once

#include "compiler/graph/Gradient.h"

namespace tensmith::autodiff {

/// Of an operator whose results are known not to depend on wanted values, though its operands do.
inline constexpr char kUnchanging[] = "program.unchanging";

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
  /// Whether it is active and has no changes for a rule to take: nothing is known of its
  /// derivative.
  bool isUnknown(mlir::Value value) const;
  /// An operator of the program of `op` that makes integers of which nothing is known, null where
  /// there is none. Data and calls may have these inside, where they aren't followed.
  mlir::Operation *hiddenIntegers(mlir::Operation *op) const;
  size_t size() const { return active_.size(); }

  void followOperator(mlir::Operation *op);
  /// The operator gives the value alone; its changes go through what stands beside it.
  void keepForValue(mlir::Operation *op) { keptForValue_.insert(op); }
  /// Of what is whole still nothing is left to be expanded: from now on, integers that come of such
  /// an operator are unknown.
  void endExpansion() { isExpanded_ = true; }
  /// Takes an operator without uses out of its block. It is destroyed with the activity, so that
  /// no other gets its address while values are known by theirs.
  void retire(mlir::Operation *op);

private:
  void follow(graph::LoopOp loop);
  void followRegions(mlir::Operation *op);
  bool mark(mlir::Value value) { return active_.insert(value).second; }
  bool mayChange(mlir::Operation *op, const graph::GradientRule *rule, mlir::Type type);
  bool hasUnknownOperands(mlir::Operation *op) const;

  llvm::DenseSet<mlir::Value> active_;
  llvm::DenseSet<mlir::Operation *> keptForValue_;
  llvm::SmallVector<mlir::Operation *> retired_;
  mutable std::optional<mlir::Operation *> hiddenIntegers_;
  bool isExpanded_ = false;
};

} // namespace tensmith::autodiff

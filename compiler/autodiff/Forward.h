// Forward mode: tangents of operands to tangents of results, beside the operators themselves.
//
// An operator that is linear is applied to the tangents, an element-wise one scales them, and any
// other has the transpose of its reverse rule: of pull, which is linear in the cotangent, the
// reverse with respect to that. Loops carry the tangents along.
#pragma once

#include "compiler/autodiff/Operators.h"

namespace tensmith::autodiff {

class Forward {
public:
  Forward(const graph::GradientCode &code, Activity &activity) : code_(code), activity_(activity) {}

  void give(mlir::Value value, mlir::Value tangent) { tangents_[value] = tangent; }
  /// Goes through the operators of the block up to its terminator.
  mlir::LogicalResult run(mlir::Block &block);
  /// Of a value; null for zero.
  mlir::Value tangent(mlir::Value value) const { return tangents_.lookup(value); }
  mlir::Value tangentOrZeros(mlir::Value value) const;

private:
  mlir::LogicalResult push(mlir::Operation *op);
  mlir::LogicalResult pushTensorOperator(mlir::Operation *op);
  mlir::Value pushScaled(mlir::Operation *op, const graph::GradientRule &rule);
  mlir::LogicalResult pushLinear(mlir::Operation *op, const graph::GradientRule &rule);
  mlir::LogicalResult pushTransposed(mlir::Operation *op, const graph::GradientRule &rule);
  mlir::LogicalResult pushBranch(graph::IfOp branch);
  mlir::LogicalResult pushLoop(graph::LoopOp loop);

  const graph::GradientCode &code_;
  Activity &activity_;
  llvm::DenseMap<mlir::Value, mlir::Value> tangents_;
};

} // namespace tensmith::autodiff

// Forward mode: tangents of operands to tangents of results, beside the operators themselves.
//
// An operator that is linear is applied to the tangents, an element-wise one scales them, and any
// other has the transpose of its reverse rule: of pull, which is linear in the cotangent, the
// reverse with respect to that. Loops carry the tangents along.
//
// before: call f(x)        after: (y, tangent of y) = call f.push(x, tangent of x)
//
// A program's function is pushed once for each set of arguments that are wanted; tangents of data
// are changes (Changes.h). What comes from a call with its tangent and is given on with it, is
// given on as it is: so the tangent of a tail call is a tail call, and that of a loop a loop.
#pragma once

#include "compiler/autodiff/Changes.h"
#include "compiler/autodiff/Operators.h"

namespace tensmith::autodiff {

/// A program's functions that have been pushed.
struct Pushed {
  Pushed(mlir::ModuleOp module, const graph::GradientCode &code)
      : module(module), changes(module, code) {}

  mlir::ModuleOp module;
  Changes changes;
  llvm::StringMap<std::string> functions; // by function and active arguments
};

class Forward {
public:
  /// Calls and branches of programs go by `pushed`; there are none where it is null.
  Forward(const graph::GradientCode &code, Activity &activity, Pushed *pushed = nullptr)
      : code_(code), activity_(activity), pushed_(pushed) {}

  void give(mlir::Value value, mlir::Value tangent) { tangents_[value] = tangent; }
  /// Goes through the operators of the block up to its terminator; where `needed` is given, through
  /// those alone.
  mlir::LogicalResult run(mlir::Block &block,
                          const llvm::DenseSet<mlir::Operation *> *needed = nullptr);
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
  mlir::LogicalResult pushConstruct(program::ConstructOp construct);
  mlir::LogicalResult pushField(program::FieldOp field);
  mlir::LogicalResult pushCall(program::CallOp call);
  mlir::LogicalResult pushChoice(mlir::Operation *choice);
  mlir::FailureOr<std::string> functionOf(const ActiveCall &call);
  mlir::LogicalResult pushReference(mlir::Operation *op);
  mlir::Type tangentType(mlir::Type type);
  mlir::Value changeOf(mlir::Value value);
  program::ObjectType pairType(mlir::Type result);
  mlir::Value pair(mlir::Value result);
  void takeApart(mlir::Operation *op, mlir::Value both);

  const graph::GradientCode &code_;
  Activity &activity_;
  Pushed *pushed_;
  llvm::DenseMap<mlir::Value, mlir::Value> tangents_;
};

} // namespace tensmith::autodiff

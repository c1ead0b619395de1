// What reverse and forward mode have in common: operators brought into a form that has rules, loops
// with more values than they had, and values in other types of the same size.
#pragma once

#include "compiler/autodiff/Activity.h"
#include "compiler/program/Program.h"

namespace tensmith::autodiff {

/// Replaces active operators that have no rule of their own by what they are made of, from `first`
/// to the end of the block and in the regions on the way. One that can't be stays: whether anything
/// goes through it is not known yet. One whose bits what it is made of doesn't give stays as well,
/// for its value, which a stand-in joins with the change of the other. Whether there was any.
bool expandOperators(const graph::GradientCode &code, mlir::Block &block, Activity &activity,
                     mlir::Operation *first = nullptr);
/// Follows the whole block, and expands its operators, until all that is active is known.
void followAndExpand(const graph::GradientCode &code, mlir::Block &block, Activity &activity);

/// Whether the operator is a stand-in: its value is operand 0, its change that of operand 1.
bool isStandIn(mlir::Operation *op);
/// Values instead of their stand-ins, in all of `scope`.
void removeStandIns(mlir::Operation *scope);

/// The operators of the block that the values come of, and those with effects.
llvm::DenseSet<mlir::Operation *> operatorsBehind(mlir::Block &block,
                                                  llvm::ArrayRef<mlir::Value> values);

/// Takes those of the operators from `first` to `last` away that nobody uses.
void removeUnused(Activity &activity, mlir::Operation *first, mlir::Operation *last);

/// A call by what it calls and which of its inputs are active: whoever calls the same function so
/// shares its derivative.
struct ActiveCall {
  mlir::func::FuncOp callee;
  llvm::SmallVector<bool> active;
  std::string key;

  /// The active ones of its parameters, in a body that has them.
  llvm::SmallVector<mlir::Value> wanted(mlir::Block &body) const;
};
mlir::FailureOr<ActiveCall> activeCall(mlir::ModuleOp module, program::CallOp call,
                                       const Activity &activity);

/// Whether each of its sizes is a number or has a name.
bool hasExpressions(mlir::RankedTensorType type);
/// The value under the type: a reshape where the type says its sizes otherwise.
mlir::Value withType(const graph::GradientCode &code, mlir::Value value, mlir::Type type);
/// The same where a value has the type, which also has the sizes that only the run tells.
mlir::Value withTypeOf(const graph::GradientCode &code, mlir::Value value, mlir::Value like);

/// A loop with the same body that carries and scans out more: each further carried value has an
/// argument at the end of the body's, and what the body yields for all that is new is given. The
/// loop takes the place of the old one.
struct LoopExtension {
  llvm::SmallVector<mlir::Value> initial; // of the further carried values
  llvm::SmallVector<mlir::Value> carried; // yielded for them, in the body
  llvm::SmallVector<mlir::Value> scanned; // yielded, in the body
};
mlir::FailureOr<graph::LoopOp> extendLoop(const graph::GradientCode &code, Activity &activity,
                                          graph::LoopOp loop, const LoopExtension &extension);

/// Whether the number of dimensions of an operand or result is not known, which rules ask for.
bool hasUnknownRank(mlir::Operation *op);

/// The error of an operator through which a derivative is asked for and has none.
mlir::LogicalResult reportNoGradient(mlir::Operation *op, llvm::StringRef why = {});
/// The same where `user` uses a value that changes in a way of which nothing is known: it names the
/// operator that this comes from.
mlir::LogicalResult reportUnknown(const Activity &activity, mlir::Value value,
                                  mlir::Operation *user);
/// Fails, with an error, where an operand is such a value.
mlir::LogicalResult checkOperandsKnown(const Activity &activity, mlir::Operation *op);

} // namespace tensmith::autodiff

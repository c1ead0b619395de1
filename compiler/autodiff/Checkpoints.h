// Recursion that keeps some of its states for the way back, and runs again from those.
//
// before: f(x) = if c { r } else { f(next x) }       the tape has what each iteration used: O(n)
//
// after:  f.run(x, fuel) = if c { Done(r) }            at most so many iterations
//                          else if fuel <= 1 { Next(next x) } else { f.run(next x, fuel - 1) }
//         f.segments(x, fuel) = match again f.run(x, fuel) {
//           Done(r) => r, Next(x) => f.segments(x, fuel + 1) }
//
// A call that is made again is no part of a tape. Its arguments are, and on the way back it is made
// once more, with a tape (Procedures::pullAgain). As each segment has an iteration more than the
// one before it, n iterations have O(sqrt n) segments and the largest has O(sqrt n) iterations,
// while n need not be known.
//
// The recursive plan halves what it goes back through, or rather takes it in four:
//
//         f.level(x, l) = if l <= 0 { f.run(x, 64) } else { four times f.level(x, l - 1), of which
//                                                           the first three are made again }
//         f.levels(x, l) = match again f.level(x, l) {
//           Done(r) => r, Next(x) => f.levels(x, l + 1) }
//
// At any time three states of each level are kept, and the tape of 64 iterations: O(log n).
//
// Weights and what else the recursion hands on go through Next, and so do their cotangents: they
// are added up iteration by iteration, in the order in which they would be without segments, so
// that gradients have the same bits.
//
// Chen and others, "Training deep nets with sublinear memory cost", 2016, sections 4.1 and 4.3;
// growing segments: Stumm and Walther, "New algorithms for optimal online checkpointing", 2010.
#pragma once

#include "compiler/autodiff/Activity.h"
#include "compiler/autodiff/Changes.h"
#include "compiler/autodiff/Differentiate.h"

#include "llvm/ADT/StringSet.h"

namespace tensmith::autodiff {

/// Of a call that is made again on the way back.
inline constexpr char kMadeAgain[] = "program.made_again";

/// Of a construction: the fields, tensors all, whose changes are taken as tensors, zeros for none.
inline constexpr char kDenseFields[] = "program.dense_fields";

/// Whether a function hands its argument on as it is, as a recursion does with weights, or
/// multiplies by it: then what it gives to the argument is a change.
bool isHandedOn(mlir::Value argument);

class Checkpoints {
public:
  Checkpoints(mlir::ModuleOp module, const graph::GradientCode &code, Changes &changes,
              Checkpointing plan)
      : module_(module), code_(code), changes_(changes), plan_(plan) {}

  /// The same call of a function that keeps some of its states, with one argument more, where the
  /// callee is a recursion by tail calls; else null.
  program::CallOp segmented(program::CallOp call, const Activity &activity);

private:
  bool isLoop(mlir::func::FuncOp function);
  llvm::SmallVector<bool> activeArguments(mlir::func::FuncOp function, program::CallOp call,
                                          const Activity &activity);
  mlir::func::FuncOp segmentsOf(mlir::func::FuncOp function);
  mlir::func::FuncOp makeRun(mlir::func::FuncOp function);
  mlir::func::FuncOp makeLevel(mlir::func::FuncOp function, mlir::func::FuncOp run);
  mlir::func::FuncOp makeSegments(mlir::func::FuncOp function, mlir::func::FuncOp part);
  /// A procedure with the function's parameters and a counter.
  mlir::func::FuncOp begin(mlir::func::FuncOp function, llvm::StringRef suffix, mlir::Type result);
  void giveNext(mlir::Block &block, mlir::func::FuncOp function, mlir::func::FuncOp run);
  mlir::Value levelParts(mlir::func::FuncOp function, mlir::func::FuncOp level,
                         mlir::ValueRange arguments, mlir::Value counter, int parts);
  using Build = llvm::function_ref<mlir::Value()>;
  mlir::Value choose(mlir::Value condition, mlir::Type type, Build yes, Build no);
  mlir::Value matchNext(mlir::Value value, mlir::Type type, Build done, Build next);
  /// The arguments that a value built by Next has.
  llvm::SmallVector<mlir::Value> argumentsIn(mlir::Value value, mlir::func::FuncOp function);
  mlir::Value call(mlir::func::FuncOp callee, mlir::ValueRange arguments, mlir::Value counter,
                   bool isMadeAgain);
  mlir::Value number(int64_t value);
  mlir::Value isAtMost(mlir::Value value, int64_t bound);

  mlir::ModuleOp module_;
  const graph::GradientCode &code_;
  Changes &changes_;
  Checkpointing plan_;
  // Of the recursion that is being cut: the type of what a part gives, and which arguments depend
  // on wanted values in some iteration. The others, as rows that are read one by one, get nothing,
  // though they come out of a value that others are in.
  program::ObjectType next_;
  llvm::SmallVector<bool> active_;
  llvm::StringMap<mlir::func::FuncOp> segmented_; // by function and active arguments
  llvm::StringSet<> made_;                        // by this, and cut no further
};

} // namespace tensmith::autodiff

// Gradients of a program's functions: of a function two, one that also records and one that goes
// back.
//
// before: call f(x)        after: (y, tape) = call f.record(x)
//                                 cotangent of x = call f.pull(tape, cotangent of y)
//
// A function is differentiated once for each set of arguments that are wanted, whoever calls it,
// and the gradient of a recursive call is a recursive call. The tape is a tuple of the values that
// the way back uses, tapes of the calls within among them; a branch has one of the side that it
// took, told apart by its constructor, and the way back is a match on that. Pearlmutter and
// Siskind, "Reverse-Mode AD in a Functional Framework", TOPLAS 2008.
//
// Cotangents of data are changes (Changes.h). So are those of tensors that not every way through a
// function or a branch gives one to: of weights that a recursion hands on, of which its leaves use
// others than its nodes; and of the result of a function that acts on references, which goes back
// whether its result has got a cotangent or not.
#pragma once

#include "compiler/autodiff/Checkpoints.h"
#include "compiler/autodiff/Reverse.h"
#include "compiler/program/Program.h"

#include "llvm/ADT/StringMap.h"

namespace tensmith::autodiff {

class Procedures {
public:
  Procedures(mlir::ModuleOp module, const graph::GradientCode &code,
             Checkpointing plan = Checkpointing::None)
      : module_(module), code_(code), plan_(plan), changes_(module, code),
        checkpoints_(module, code, changes_, plan) {}

  /// The reverse of a call, and of a branch or match, given its result's cotangent.
  mlir::LogicalResult pullCall(program::CallOp call, mlir::Value cotangent, Reverse &reverse,
                               Activity &activity);
  mlir::LogicalResult pullChoice(mlir::Operation *choice, mlir::Value cotangent, Reverse &reverse,
                                 Activity &activity);
  Changes &changes() { return changes_; }
  Checkpointing plan() const { return plan_; }

private:
  /// Names, and the types of what the first gives beside its result and of what the second gives.
  struct Pair {
    std::string record, pull;
    program::ObjectType recorded, tape, pulled;
    llvm::SmallVector<bool> gathers; // of the active arguments: whether the cotangent is a change
  };

  mlir::FailureOr<Pair> gradientOf(const ActiveCall &call);
  mlir::LogicalResult pullAgain(program::CallOp call, mlir::Value cotangent, Reverse &reverse,
                                Activity &activity);
  mlir::func::FuncOp replayOf(const ActiveCall &call, const Pair &pair, mlir::Type cotangent);
  mlir::LogicalResult giveInputs(program::CallOp call, mlir::Value results, const ActiveCall &known,
                                 const Pair &pair, Reverse &reverse);
  mlir::LogicalResult build(mlir::func::FuncOp record, mlir::func::FuncOp pull,
                            const ActiveCall &call, const Pair &pair);
  mlir::LogicalResult reverseBlock(Reverse &inner, mlir::Block &forward, mlir::Block &backward,
                                   mlir::Value cotangent);
  mlir::Value sizesOf(mlir::Value value);
  void keepSizes(mlir::Region &forward, mlir::Block &backward);
  llvm::SmallVector<mlir::Value> valuesToSave(mlir::Region &forward, mlir::Block &backward);
  void restore(mlir::Block &backward, mlir::Value tape, llvm::ArrayRef<mlir::Value> saved,
               uint64_t tag);
  mlir::Value construct(program::ObjectType type, llvm::ArrayRef<mlir::Value> fields,
                        uint64_t tag = 0);

  mlir::ModuleOp module_;
  const graph::GradientCode &code_;
  Checkpointing plan_;
  Changes changes_;
  Checkpoints checkpoints_;
  llvm::StringMap<Pair> pairs_;                 // by function and active arguments
  llvm::StringMap<mlir::func::FuncOp> replays_; // the same
};

} // namespace tensmith::autodiff

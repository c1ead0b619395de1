// Gradients of a program's functions: of a function two, one that also records and one that goes
// back.
//
// before: call f(x)        after: (y, tape) = call f.record(x)
//                                 cotangent of x = call f.pull(tape, cotangent of y)
//
// A function is differentiated once for each set of arguments that are wanted, whoever calls it,
// and the gradient of a recursive call is a recursive call. The tape is a tuple of the values that
// the way back uses, tapes of the calls within among them; a branch has one of the side that it
// took. Pearlmutter and Siskind, "Reverse-Mode AD in a Functional Framework", TOPLAS 2008.
//
// Tensors go through; what is in data types, closures and references has no derivative yet.
#pragma once

#include "compiler/autodiff/Reverse.h"
#include "compiler/program/Program.h"

#include "llvm/ADT/StringMap.h"

namespace tensmith::autodiff {

class Procedures {
public:
  Procedures(mlir::ModuleOp module, const graph::GradientCode &code)
      : module_(module), code_(code) {}

  /// The reverse of a call, and of a branch or match, given its result's cotangent.
  mlir::LogicalResult pullCall(program::CallOp call, mlir::Value cotangent, Reverse &reverse,
                               Activity &activity);
  mlir::LogicalResult pullChoice(mlir::Operation *choice, mlir::Value cotangent, Reverse &reverse,
                                 Activity &activity);

private:
  struct Pair {
    std::string record, pull;
  };

  mlir::FailureOr<Pair> gradientOf(mlir::func::FuncOp function, llvm::ArrayRef<bool> active);
  mlir::LogicalResult build(mlir::func::FuncOp record, mlir::func::FuncOp pull,
                            llvm::ArrayRef<bool> active);
  mlir::LogicalResult reverseBlock(Reverse &inner, mlir::Block &forward, mlir::Block &backward,
                                   mlir::Value cotangent);
  mlir::Value save(mlir::Region &forward, mlir::Block &backward);
  void restore(mlir::Block &backward, mlir::Value tape, mlir::Value saved);
  mlir::Value tuple(llvm::ArrayRef<mlir::Value> fields);
  mlir::Value field(mlir::Value tuple, unsigned index, mlir::Type type);
  mlir::Type object();

  mlir::ModuleOp module_;
  const graph::GradientCode &code_;
  llvm::StringMap<Pair> pairs_; // by function and active arguments
};

} // namespace tensmith::autodiff

// The function in the making: results by name, which are taken away and added, and states.
#pragma once

#include "compiler/training/Training.h"

#include "base/Status.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tensmith::training {

class StepFunction {
public:
  struct Output {
    std::string name;
    mlir::Value value;
  };

  explicit StepFunction(mlir::func::FuncOp function);

  mlir::Block &block() { return function.getBody().front(); }
  mlir::Operation *exit() { return block().getTerminator(); }
  std::vector<std::string> inputNames();
  /// The results with their names; those without one are called by their number.
  std::vector<Output> outputs();
  /// The results are these from now on. Attributes other than names are gone.
  void setOutputs(llvm::ArrayRef<Output> outputs);

  /// InvalidArgument where an input has that name already: states are found by their names.
  Result<mlir::BlockArgument> addInput(llvm::StringRef name, mlir::Type type);
  /// A further input with its first value, zeros where that is null.
  Result<mlir::BlockArgument> addState(llvm::StringRef name, mlir::Type type, StateKind kind,
                                       mlir::Attribute initial);
  /// The first value that a state has; null for zeros.
  mlir::Attribute initial(unsigned argument);
  /// What takes the states' places in the next run: further results.
  struct Update {
    mlir::BlockArgument state;
    mlir::Value next;
  };
  void update(llvm::ArrayRef<Update> updates);

  mlir::func::FuncOp function;

private:
  Result<mlir::BlockArgument> add(llvm::StringRef name, mlir::Type type,
                                  std::optional<StateKind> kind);
  Status nameIsTaken(llvm::StringRef name, std::optional<StateKind> kind);

  unsigned own_;                        // the model's inputs; what is added comes after them
  llvm::StringMap<unsigned> arguments_; // by name
};

} // namespace tensmith::training

// Why a model's kernels are what they are: which operators each took, by which template, why what
// feeds it is no part of it, and what was decided and refused.
#pragma once

#include "compiler/kernel/Schedule.h"
#include "compiler/vm/PlanBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tensmith::pipeline {

/// Which library doesn't do an operator, and why.
struct LibraryRefusal {
  std::string op;                 // "MatMul"
  std::vector<std::string> nodes; // of the model that it comes from
  std::string library, why;

  LibraryRefusal(mlir::Operation *op, llvm::StringRef library, llvm::StringRef why);
};

/// JSON: {"kernels": [{"kernel", "nodes", "by", "operands": [{"from", "why"}]}], "by_reference":
/// [{"operator", "nodes", "why"}], "libraries": [{"operator", "nodes", "library", "why"}],
/// "decisions": [as in schedules]}. Of functions whose kernels are bound, and were fused with
/// `rewrite::Options::explains`.
std::string explanation(llvm::ArrayRef<mlir::func::FuncOp> functions, const vm::PlanInput &plan,
                        const kernel::Schedules &schedules, llvm::ArrayRef<LibraryRefusal> refusals,
                        const kernel::Machine &machine);

} // namespace tensmith::pipeline

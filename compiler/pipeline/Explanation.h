// Why a model's kernels are what they are: which operators each took, by which template, why what
// feeds it is no part of it, and what was decided and refused.
#pragma once

#include "compiler/kernel/Schedule.h"
#include "compiler/vm/PlanBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tensmith::pipeline {

/// JSON: {"kernels": [{"kernel", "nodes", "by", "operands": [{"from", "why"}]}], "by_reference":
/// [{"operator", "nodes", "why"}], "decisions": [as in schedules]}. Of functions whose kernels are
/// bound, and were fused with `rewrite::Options::explains`.
std::string explanation(llvm::ArrayRef<mlir::func::FuncOp> functions, const vm::PlanInput &plan,
                        const kernel::Schedules &schedules);

} // namespace tensmith::pipeline

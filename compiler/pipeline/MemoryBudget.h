// What a run computes again so that it holds no more than a budget: the search of
// vm/Recomputation.h, each of whose choices is measured on a copy of the module.
#pragma once

#include "compiler/kernel/Machine.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/vm/PlanBuilder.h"

namespace tensmith::pipeline {

/// A kernel's number, by which copies of it have its code.
inline constexpr char kKernelNumber[] = "graph.kernel_number";

/// Seconds that the kernel takes on this machine.
using KernelSeconds = std::function<Result<double>(graph::KernelOp)>;

/// Puts copies into the main function, and the choice in words into `plan`, whose `kernel` must go
/// by numbers. Prices are measured where `measure` is given, and estimated where it is not or
/// fails. ResourceExhausted where the budget can't be met, with the least that can.
Status meetBudget(mlir::ModuleOp module, const CompileOptions &options, vm::PlanInput &plan,
                  const KernelSeconds &measure = {});
/// InvalidArgument where the options name no plan.
Status checkBudget(const CompileOptions &options);

} // namespace tensmith::pipeline

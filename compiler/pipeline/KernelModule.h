// A module that runs one kernel of a compilation, with its code and sizes, on operands that it is
// given: what the kernel's time is measured with.
#pragma once

#include "compiler/module/ModuleWriter.h"
#include "compiler/pipeline/Measure.h"
#include "compiler/vm/PlanBuilder.h"

namespace tensmith::pipeline {

/// The plan and its constants, which the parts refer to.
void addPlan(modules::ModuleParts &parts, const vm::Plan &plan);

/// The module, with drawn inputs; its result is the kernel's first. `plan` says what the kernel is
/// bound to, whose code is among `objects` or a library's.
Result<Candidate> kernelModule(graph::KernelOp kernel, const vm::PlanInput &plan,
                               llvm::ArrayRef<modules::KernelObject> objects,
                               const std::string &triple);

} // namespace tensmith::pipeline

// A module that runs one probe (compiler/target/cpu/Probes.h), so that what is measured goes
// through the runtime like any program.
#pragma once

#include "compiler/target/cpu/KernelCompiler.h"
#include "compiler/target/cpu/Probes.h"

namespace tensmith::pipeline {

/// The module's bytes. It takes nothing, and gives u8[items * stride], which the probe works on:
/// the caller gives the memory. `calls`: of the kernel, one after another.
Result<std::string> probeModule(const target::cpu::KernelObject &kernel,
                                const target::cpu::ProbeSizes &sizes, int calls,
                                const target::cpu::Machine &machine);

} // namespace tensmith::pipeline

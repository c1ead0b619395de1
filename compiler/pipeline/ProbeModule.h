// A module that runs one probe (compiler/targets/cpu/machine/Probes.h), so that what is measured
// goes through the runtime like any program.
#pragma once

#include "compiler/targets/cpu/codegen/KernelCompiler.h"
#include "compiler/targets/cpu/machine/Probes.h"

namespace tensmith::pipeline {

/// The module's bytes. It takes nothing, and gives u8[items * stride], which the probe works on:
/// the caller gives the memory. `calls`: of the kernel, one after another.
Result<std::string> probeModule(const modules::KernelObject &kernel,
                                const targets::cpu::ProbeSizes &sizes, int calls,
                                const targets::cpu::Cpu &machine);

} // namespace tensmith::pipeline

// Measuring what the host can do at most (compiler/targets/cpu/machine/MachineLimits.h), with
// probes that run as any program does.
#pragma once

#include "compiler/targets/cpu/machine/MachineLimits.h"

#include <functional>

namespace tensmith {

/// Takes some seconds. Each figure is that of the fastest of several runs, the one that other
/// processes disturbed least.
Result<targets::cpu::MachineLimits>
measureMachine(const targets::cpu::Cpu &machine,
               const std::function<void(const char *stage, double fraction)> &progress);

} // namespace tensmith

// Measuring what the host can do at most (compiler/target/cpu/MachineLimits.h), with probes that
// run as any program does.
#pragma once

#include "compiler/target/cpu/MachineLimits.h"

#include <functional>

namespace tensmith {

/// Takes some seconds. Each figure is that of the fastest of several runs, the one that other
/// processes disturbed least.
Result<target::cpu::MachineLimits>
measureMachine(const target::cpu::Machine &machine,
               const std::function<void(const char *stage, double fraction)> &progress);

} // namespace tensmith

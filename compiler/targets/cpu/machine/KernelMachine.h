// A machine as the kernel templates see it.
#pragma once

#include "compiler/kernel/Machine.h"
#include "compiler/targets/cpu/machine/Machine.h"

namespace tensmith::targets::cpu {

/// Without what was measured of the machine.
kernel::Machine kernelMachine(const Machine &machine);

} // namespace tensmith::targets::cpu

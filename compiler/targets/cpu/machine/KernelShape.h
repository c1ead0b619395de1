// A machine as the kernel templates see it.
#pragma once

#include "compiler/kernel/Kernel.h"
#include "compiler/targets/cpu/machine/Machine.h"

namespace tensmith::targets::cpu {

/// Without what was measured of the machine.
kernel::MachineShape kernelShape(const Machine &machine);

} // namespace tensmith::targets::cpu

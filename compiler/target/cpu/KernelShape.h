// A machine as the kernel templates see it.
#pragma once

#include "compiler/kernel/Kernel.h"
#include "compiler/target/cpu/Machine.h"

namespace tensmith::target::cpu {

/// Without what was measured of the machine.
kernel::MachineShape kernelShape(const Machine &machine);

} // namespace tensmith::target::cpu

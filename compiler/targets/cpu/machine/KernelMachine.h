// A machine as the kernel templates see it.
#pragma once

#include "compiler/kernel/Machine.h"
#include "compiler/targets/cpu/machine/Cpu.h"

namespace tensmith::targets::cpu {

/// Without what was measured of the machine.
kernel::Machine kernelMachine(const Cpu &machine);

} // namespace tensmith::targets::cpu

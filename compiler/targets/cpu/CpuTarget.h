// A CPU as a target.
#pragma once

#include "compiler/targets/Target.h"

namespace tensmith::targets::cpu {

/// "host", or what parseCpu (Cpu.h) takes.
Result<std::unique_ptr<Target>> openCpu(std::string_view name);

} // namespace tensmith::targets::cpu

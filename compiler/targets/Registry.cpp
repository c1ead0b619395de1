// The kinds of machine that there are; see Target.h.
#include "compiler/targets/Target.h"

#include "compiler/targets/cpu/CpuTarget.h"
#include "compiler/targets/cpu/codegen/Dialects.h"

namespace tensmith::targets {

Result<std::unique_ptr<Target>> openTarget(std::string_view name) { return cpu::openCpu(name); }

void registerDialects(mlir::DialectRegistry &registry) { cpu::registerCodegenDialects(registry); }

} // namespace tensmith::targets

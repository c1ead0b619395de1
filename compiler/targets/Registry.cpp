// The kinds of machine that there are; see Target.h.
#include "compiler/targets/Target.h"

#include "compiler/targets/cpu/CpuTarget.h"
#include "compiler/targets/cpu/codegen/Dialects.h"
#include "compiler/targets/cpu/templates/Templates.h"

namespace tensmith::targets {

Table<TargetKind> &targetKinds() {
  static constexpr TargetKind kOwn[] = {{"cpu", cpu::openCpu, cpu::registerCodegenDialects}};
  static Table<TargetKind> all("target", {std::span<const TargetKind>(kOwn)});
  return all;
}

Table<kernel::Template> &vectorTemplates() { return cpu::templates(); }

/// CPUs have names of their own, whose families are no kinds: "host", "aarch64:cortex-a53".
Result<std::unique_ptr<Target>> openTarget(std::string_view name) {
  const TargetKind *kind = targetKinds().find(name.substr(0, name.find(':')));
  return kind ? kind->open(name) : cpu::openCpu(name);
}

void registerDialects(mlir::DialectRegistry &registry) {
  for (const TargetKind *kind : targetKinds().rows())
    if (kind->registerDialects)
      kind->registerDialects(registry);
}

} // namespace tensmith::targets

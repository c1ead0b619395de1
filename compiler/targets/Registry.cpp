// The kinds of machine that there are; see Target.h.
#include "compiler/targets/Target.h"

#include "compiler/targets/cpu/CpuTarget.h"
#include "compiler/targets/cpu/codegen/Dialects.h"
#include "compiler/targets/cpu/machine/Cpu.h"
#include "compiler/targets/cpu/templates/Templates.h"

namespace tensmith::targets {

Table<TargetKind> &targetKinds() {
  static constexpr TargetKind kOwn[] = {{"cpu", cpu::openCpu, cpu::registerCodegenDialects}};
  static Table<TargetKind> all("target", {std::span<const TargetKind>(kOwn)});
  return all;
}

Table<kernel::Template> &vectorTemplates() { return cpu::templates(); }

Status checkKind(const TargetKind &kind) {
  std::string named = "the target '" + std::string(kind.name) + "'";
  if (kind.name.empty() || kind.name.find_first_of(":, ") != std::string_view::npos)
    return invalidArgument(named + " can't be named: a kind is a word that stands before a colon");
  if (cpu::namesCpus(kind.name))
    return invalidArgument(named + " has a name of CPUs, which would be found in their place");
  if (!kind.open)
    return invalidArgument(named + " has no function that opens its machines");
  return {};
}

/// CPUs have names of their own, whose families are no kinds: "host", "aarch64:cortex-a53".
Result<std::unique_ptr<Target>> openTarget(std::string_view name) {
  const TargetKind *kind = targetKinds().find(name.substr(0, name.find(':')));
  if (!kind)
    return cpu::openCpu(name);
  auto target = kind->open(name);
  if (target && !*target)
    return Status(StatusCode::Internal, "machine '" + std::string(name) + "': the target '" +
                                            std::string(kind->name) + "' gave none");
  return target;
}

void registerDialects(mlir::DialectRegistry &registry) {
  for (const TargetKind *kind : targetKinds().rows())
    if (kind->registerDialects)
      kind->registerDialects(registry);
}

} // namespace tensmith::targets

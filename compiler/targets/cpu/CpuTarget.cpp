// The machine's description, its measured limits and its code generation, put together; see
// CpuTarget.h.
#include "compiler/targets/cpu/CpuTarget.h"

#include "compiler/targets/cpu/codegen/KernelCompiler.h"
#include "compiler/targets/cpu/machine/KernelMachine.h"
#include "compiler/targets/cpu/machine/MachineLimits.h"

namespace tensmith::targets::cpu {
namespace {

class CpuTarget : public Target {
public:
  explicit CpuTarget(Cpu machine)
      : machine_(std::move(machine)), kernelMachine_(kernelMachine(machine_)) {
    auto limits = keptLimits(machine_);
    auto figures = limits ? costFigures(*limits, machine_) : std::nullopt;
    if (!figures)
      return;
    kernelMachine_.nearBytesPerCycle = figures->nearBytesPerCycle;
    kernelMachine_.farBytesPerCycle = figures->farBytesPerCycle;
    kernelMachine_.memoryBytesPerCycle = figures->memoryBytesPerCycle;
    kernelMachine_.lastCacheBytes = figures->lastCacheBytes;
    machine_.limits = limits->identity();
  }

  const kernel::Machine &machine() const override { return kernelMachine_; }
  const std::string &triple() const override { return machine_.triple; }
  const std::string &cpu() const override { return machine_.cpu; }
  const std::string &limits() const override { return machine_.limits; }
  std::vector<std::string> codeFeatures(bool usesMatrixUnit) const override {
    return machine_.codeFeatures(usesMatrixUnit);
  }
  Result<CompiledKernels> compile(std::span<const KernelSource> sources,
                                  const CodeOptions &options) const override {
    return compileKernels(sources, machine_, options);
  }

private:
  Cpu machine_;
  kernel::Machine kernelMachine_;
};

} // namespace

Result<std::unique_ptr<Target>> openCpu(std::string_view name) {
  auto machine = parseCpu(name);
  if (!machine.ok())
    return machine.status();
  return std::unique_ptr<Target>(std::make_unique<CpuTarget>(std::move(*machine)));
}

} // namespace tensmith::targets::cpu

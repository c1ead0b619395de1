// A function around a copy of the kernel, planned and written as any; see KernelModule.h.
#include "compiler/pipeline/KernelModule.h"

#include "compiler/graph/Outputs.h"

using namespace mlir;

namespace tensmith::pipeline {

void addPlan(modules::ModuleParts &parts, const vm::Plan &plan) {
  parts.plan = std::as_bytes(std::span(plan.bytes));
  parts.weightsBytes = plan.weightsBytes;
  for (const vm::PlanConstant &constant : plan.constants)
    parts.weights.push_back(
        {constant.offset, {constant.tensor.data(), size_t(constant.tensor.bytes())}});
}

Result<Candidate> kernelModule(graph::KernelOp kernel, const vm::PlanInput &plan,
                               ArrayRef<modules::KernelObject> objects, const std::string &triple) {
  OwningOpRef<ModuleOp> module =
      graph::moduleOf({kernel}, kernel->getOperands(), kernel->getResult(0));
  vm::PlanInput input = plan;
  input.function = module->lookupSymbol<func::FuncOp>("main");
  input.devices.clear();
  input.resident = false;
  input.schedules.clear();
  auto built = vm::buildPlan(input);
  if (!built.ok())
    return built.status();
  modules::ModuleParts parts;
  parts.name = "kernel.so";
  for (const modules::KernelObject &object : objects)
    if (object.symbol == plan.kernel(kernel).symbol)
      parts.objects.push_back(object);
  addPlan(parts, *built);
  parts.triple = triple;
  auto bytes = modules::moduleBytes(parts);
  if (!bytes.ok())
    return bytes.status();
  return Candidate{std::move(*bytes), drawnInputs(input.function), {}};
}

} // namespace tensmith::pipeline

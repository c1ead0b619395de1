// A function around a copy of the kernel, planned and written as any; see KernelModule.h.
#include "compiler/pipeline/KernelModule.h"

#include "compiler/target/cpu/ModuleWriter.h"

using namespace mlir;

namespace tensmith::pipeline {
namespace {

/// `main`, whose arguments are the kernel's operands.
OwningOpRef<ModuleOp> moduleAround(graph::KernelOp kernel) {
  Location location = kernel.getLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  auto builder = OpBuilder::atBlockEnd(module->getBody());
  auto type = builder.getFunctionType(kernel->getOperandTypes(), kernel->getResult(0).getType());
  auto function = builder.create<func::FuncOp>(location, "main", type);
  Block *block = function.addEntryBlock();
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    function.setArgAttr(i, "graph.name", builder.getStringAttr("operand" + Twine(i)));
  function.setResultAttr(0, "graph.name", builder.getStringAttr("result"));
  builder.setInsertionPointToEnd(block);
  IRMapping operands;
  operands.map(kernel->getOperands(), block->getArguments());
  Operation *copy = builder.clone(*kernel, operands);
  builder.create<func::ReturnOp>(location, copy->getResult(0));
  return module;
}

} // namespace

Result<std::string> kernelModule(graph::KernelOp kernel, const vm::PlanInput &plan,
                                 ArrayRef<target::cpu::KernelObject> objects,
                                 const target::cpu::Machine &machine) {
  OwningOpRef<ModuleOp> module = moduleAround(kernel);
  vm::PlanInput input = plan;
  input.function = module->lookupSymbol<func::FuncOp>("main");
  input.device.clear();
  input.schedules.clear();
  auto built = vm::buildPlan(input);
  if (!built.ok())
    return built.status();
  target::cpu::ModuleParts parts;
  parts.name = "kernel.so";
  for (const target::cpu::KernelObject &object : objects)
    if (object.symbol == plan.kernel(kernel).symbol)
      parts.objects.push_back(object);
  parts.plan = std::as_bytes(std::span(built->bytes));
  parts.weightsBytes = built->weightsBytes;
  for (const vm::PlanConstant &constant : built->constants)
    parts.weights.push_back(
        {constant.offset, {constant.tensor.data(), size_t(constant.tensor.bytes())}});
  parts.machine = machine;
  return target::cpu::moduleBytes(parts);
}

} // namespace tensmith::pipeline

// The plan of a probe: a straight line of equal calls, the last of which has the buffer as its
// result.
#include "compiler/pipeline/ProbeModule.h"

#include "base/DataType.h"
#include "compiler/module/ModuleWriter.h"
#include "runtime/ModuleFormat.h"
#include "runtime/plan_generated.h"

namespace tensmith::pipeline {
namespace {

uint32_t addConstant(plan::FunctionT &function, int64_t value) {
  function.exprs.emplace_back(value, 0, plan::ExprKind::Constant);
  return uint32_t(function.exprs.size() - 1);
}

std::unique_ptr<plan::FunctionT> mainFunction(const targets::cpu::ProbeSizes &sizes, int calls) {
  auto function = std::make_unique<plan::FunctionT>();
  function->name = "main";
  std::vector<uint32_t> given;
  for (int64_t size : {sizes.rounds, sizes.items, sizes.passes, sizes.count, sizes.stride})
    given.push_back(addConstant(*function, size));
  function->arena_bytes = addConstant(*function, 64);
  uint32_t start = addConstant(*function, 0);
  for (int call = 0; call < calls; ++call) {
    auto value = std::make_unique<plan::ValueT>();
    value->kind = plan::ValueKind::Tensor;
    value->type = uint8_t(DataType::U8);
    bool last = call + 1 == calls;
    value->dims = {addConstant(*function, last ? sizes.items * sizes.stride : 1)};
    value->storage = last ? plan::Storage::Result : plan::Storage::Arena;
    value->offset = start;
    value->name = "buffer";
    auto instruction = std::make_unique<plan::InstructionT>();
    instruction->opcode = plan::Opcode::Kernel;
    instruction->results = {uint32_t(call)};
    instruction->sizes = given;
    instruction->location = runtime::kAbsent;
    function->values.push_back(std::move(value));
    function->instructions.push_back(std::move(instruction));
  }
  function->results = {uint32_t(calls - 1)};
  return function;
}

std::vector<uint8_t> planOf(const std::string &symbol, const targets::cpu::ProbeSizes &sizes,
                            int calls, const targets::cpu::Cpu &machine) {
  plan::ModuleT module;
  module.producer = "tensmith";
  module.model = "probe";
  module.triple = machine.triple;
  module.cpu = machine.cpu;
  module.features = machine.codeFeatures();
  module.functions.push_back(mainFunction(sizes, calls));
  auto kernel = std::make_unique<plan::KernelT>();
  kernel->symbol = symbol;
  kernel->label = "probe";
  module.kernels.push_back(std::move(kernel));
  auto port = std::make_unique<plan::PortT>();
  port->name = "buffer";
  port->value = module.functions[0]->results[0];
  port->dims = {std::to_string(sizes.items * sizes.stride)};
  module.outputs.push_back(std::move(port));
  flatbuffers::FlatBufferBuilder builder;
  plan::FinishModuleBuffer(builder, plan::Module::Pack(builder, &module));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

} // namespace

Result<std::string> probeModule(const modules::KernelObject &kernel,
                                const targets::cpu::ProbeSizes &sizes, int calls,
                                const targets::cpu::Cpu &machine) {
  std::vector<uint8_t> plan = planOf(kernel.symbol, sizes, calls, machine);
  modules::ModuleParts parts;
  parts.name = "probe.so";
  parts.objects = {kernel};
  parts.plan = std::as_bytes(std::span(plan));
  parts.triple = machine.triple;
  return modules::moduleBytes(parts);
}

} // namespace tensmith::pipeline

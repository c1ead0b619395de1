// The module around the functions: signature, target, metadata; see PlanBuilder.h.
#include "compiler/vm/PlanBuilder.h"

#include "compiler/vm/ModuleTables.h"
#include "compiler/vm/Signature.h"

using namespace mlir;

namespace tensmith::vm {
namespace {

std::vector<std::unique_ptr<plan::PortT>> ports(std::vector<SignaturePort> signature,
                                                const std::vector<uint32_t> &values) {
  std::vector<std::unique_ptr<plan::PortT>> result;
  for (auto [port, value] : llvm::zip_equal(signature, values)) {
    result.push_back(std::make_unique<plan::PortT>());
    result.back()->name = std::move(port.name);
    result.back()->value = value;
    result.back()->dims = std::move(port.dims);
  }
  return result;
}

std::unique_ptr<plan::AttributeT> integer(std::string name, int64_t value) {
  auto attribute = std::make_unique<plan::AttributeT>();
  attribute->name = std::move(name);
  attribute->value.Set(plan::IntegerT{});
  attribute->value.AsInteger()->value = value;
  return attribute;
}

std::unique_ptr<plan::AttributeT> texts(std::string name, std::vector<std::string> values) {
  auto attribute = std::make_unique<plan::AttributeT>();
  attribute->name = std::move(name);
  attribute->value.Set(plan::TextsT{});
  attribute->value.AsTexts()->values = std::move(values);
  return attribute;
}

} // namespace

Result<Plan> buildPlan(const PlanInput &input) {
  plan::ModuleT module;
  module.producer = "tensmith " TENSMITH_VERSION_TEXT;
  module.model = input.model;
  module.triple = input.triple;
  module.cpu = input.cpu;
  module.features = input.features;
  ModuleTables tables(input, module);
  func::FuncOp function = input.function;
  auto main = tables.addFunction("main", function.getBody().front(), {}, {});
  if (!main.ok())
    return main.status();
  const plan::FunctionT &body = *module.functions[0];
  module.inputs = ports(inputsOf(function), body.params);
  module.outputs = ports(outputsOf(function), body.results);
  module.metadata.push_back(integer("arena_bytes_planned", tables.plannedBytes));
  module.metadata.push_back(integer("arena_buffers", tables.buffers));
  module.metadata.push_back(integer("arena_bytes_without_sharing", tables.separateBytes));
  module.metadata.push_back(texts("unemitted_kernels", input.unemitted));

  flatbuffers::FlatBufferBuilder builder;
  plan::FinishModuleBuffer(builder, plan::Module::Pack(builder, &module));
  Plan result;
  result.bytes.assign(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
  result.constants = std::move(tables.constants);
  result.weightsBytes = tables.weightsBytes;
  return result;
}

} // namespace tensmith::vm

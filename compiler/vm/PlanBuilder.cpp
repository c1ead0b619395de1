// The module around the functions: signature, target, metadata; see PlanBuilder.h.
#include "compiler/vm/PlanBuilder.h"

#include "base/SizeText.h"
#include "compiler/vm/ModuleTables.h"

using namespace mlir;

namespace tensmith::vm {
namespace {

SizeText dimText(AffineExpr expression, ArrayRef<StringAttr> names) {
  if (!expression)
    return {SizeText::Atom, "?"};
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expression))
    return {SizeText::Atom, names[symbol.getPosition()].str()};
  if (auto constant = dyn_cast<AffineConstantExpr>(expression))
    return {SizeText::Atom, std::to_string(constant.getValue())};
  auto pair = cast<AffineBinaryOpExpr>(expression);
  SizeText a = dimText(pair.getLHS(), names), b = dimText(pair.getRHS(), names);
  switch (pair.getKind()) {
  case AffineExprKind::Add:
    return size_text::sum(a, b);
  case AffineExprKind::Mul:
    return size_text::product(a, b);
  case AffineExprKind::FloorDiv:
    return size_text::quotient(a, '/', b);
  case AffineExprKind::CeilDiv:
    return size_text::ceilQuotient(a, b);
  default:
    return size_text::quotient(a, '%', b);
  }
}

std::unique_ptr<plan::PortT> port(StringAttr name, Type type, uint32_t value,
                                  std::string fallback) {
  auto result = std::make_unique<plan::PortT>();
  result->name = name ? name.str() : std::move(fallback);
  result->value = value;
  if (auto ranked = dyn_cast<RankedTensorType>(type))
    for (int64_t dim = 0; dim < ranked.getRank(); ++dim)
      result->dims.push_back(
          dimText(graph::dimExpression(ranked, dim), graph::symbolNames(ranked)).text);
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
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes()))
    module.inputs.push_back(port(function.getArgAttrOfType<StringAttr>(index, "graph.name"), type,
                                 body.params[index], "input" + std::to_string(index)));
  for (auto [index, type] : llvm::enumerate(function.getResultTypes()))
    module.outputs.push_back(port(function.getResultAttrOfType<StringAttr>(index, "graph.name"),
                                  type, body.results[index], "output" + std::to_string(index)));
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

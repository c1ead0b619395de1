// The module around the functions: signature, target, metadata; see PlanBuilder.h.
#include "compiler/vm/PlanBuilder.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/OpenSize.h"
#include "compiler/program/Batching.h"
#include "compiler/vm/DevicePlacement.h"
#include "compiler/vm/DeviceStreams.h"
#include "compiler/vm/LayoutConversions.h"
#include "compiler/vm/ModuleTables.h"
#include "compiler/vm/ProcedureBuilder.h"
#include "compiler/vm/Signature.h"
#include "compiler/vm/States.h"

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
    result.back()->type = std::move(port.object);
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

std::unique_ptr<plan::AttributeT> text(std::string name, std::string value) {
  auto attribute = std::make_unique<plan::AttributeT>();
  attribute->name = std::move(name);
  attribute->value.Set(plan::TextT{});
  attribute->value.AsText()->value = std::move(value);
  return attribute;
}

std::unique_ptr<plan::AttributeT> texts(std::string name, std::vector<std::string> values) {
  auto attribute = std::make_unique<plan::AttributeT>();
  attribute->name = std::move(name);
  attribute->value.Set(plan::TextsT{});
  attribute->value.AsTexts()->values = std::move(values);
  return attribute;
}

std::vector<std::string> textsOf(mlir::Attribute attribute) {
  std::vector<std::string> texts;
  for (auto text : cast<ArrayAttr>(attribute).getAsRange<StringAttr>())
    texts.push_back(text.str());
  return texts;
}

std::unique_ptr<plan::DataDeclarationT> dataType(DictionaryAttr type) {
  auto result = std::make_unique<plan::DataDeclarationT>();
  result->name = cast<StringAttr>(type.get("name")).str();
  result->params = textsOf(type.get("params"));
  for (auto one : cast<ArrayAttr>(type.get("constructors")).getAsRange<DictionaryAttr>()) {
    auto constructor = std::make_unique<plan::ConstructorT>();
    constructor->name = cast<StringAttr>(one.get("name")).str();
    constructor->fields = textsOf(one.get("fields"));
    result->constructors.push_back(std::move(constructor));
  }
  return result;
}

/// A program's segments, procedures and data types.
Status addProgram(ModuleOp program, ModuleTables &tables) {
  for (auto function : program.getOps<func::FuncOp>()) {
    if (!program::isSegment(function))
      continue;
    auto index = tables.addFunction(function.getName().str(), function.getBody().front(), {}, {});
    if (!index.ok())
      return index.status();
    tables.segments[function.getName().str()] = *index;
  }
  for (auto function : program.getOps<func::FuncOp>())
    if (auto batched = function->getAttrOfType<FlatSymbolRefAttr>(program::kBatched))
      tables.module.functions[tables.segments.at(function.getName().str())]->batched =
          tables.segments.at(batched.getValue().str());
  for (auto function : program.getOps<func::FuncOp>()) {
    if (!program::isProcedure(function))
      continue;
    auto procedure = std::make_unique<plan::ProcedureT>();
    if (Status status = ProcedureBuilder(tables, *procedure).build(function); !status.ok())
      return status;
    tables.module.procedures.push_back(std::move(procedure));
  }
  if (auto types = program->getAttrOfType<ArrayAttr>(program::kDataTypes))
    for (auto type : types.getAsRange<DictionaryAttr>())
      tables.module.data_types.push_back(dataType(type));
  return {};
}

int64_t bytesOf(Type type) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked)
    return 0;
  int64_t bytes = byteSize(graph::dataType(ranked.getElementType()));
  for (int64_t size : ranked.getShape())
    bytes *= ShapedType::isDynamic(size) ? graph::kOpenSize : size;
  return bytes;
}

/// As the system gives it: large memory comes in large pages.
int64_t inPages(int64_t bytes) {
  constexpr int64_t kLargePage = 2 << 20;
  return bytes < kLargePage ? bytes : int64_t(llvm::alignTo(bytes, kLargePage));
}

/// Beside the arena.
int64_t bytesHeld(func::FuncOp function, const ModuleTables &tables) {
  int64_t bytes = 0;
  for (Type type : function.getFunctionType().getInputs())
    bytes += bytesOf(type);
  for (Type type : function.getFunctionType().getResults())
    bytes += bytesOf(type);
  for (const auto &state : tables.module.states)
    if (state->in_place)
      bytes -= bytesOf(function.getArgument(state->input).getType());
  return bytes;
}

/// What a process that has loaded the plan holds for it, as measured of networks of thousands of
/// instructions: the plan's pages and what is decoded of them, tensors of states, kernels' code.
int64_t bytesOfPlan(const ModuleTables &tables, int64_t planBytes) {
  constexpr int64_t kDecoded = 5, kState = 3 << 10, kKernel = 8 << 10;
  return kDecoded * planBytes + kState * int64_t(tables.module.states.size()) +
         kKernel * int64_t(tables.module.kernels.size());
}

/// With devices, once it is known which instructions may go on at the same time.
ArenaTotals layOutArenas(ModuleTables &tables) {
  ArenaTotals totals;
  size_t devices = tables.module.devices.size();
  for (size_t f = 0; f < tables.arenas.size(); ++f) {
    plan::FunctionT &function = *tables.module.functions[f];
    Arena &arena = *tables.arenas[f];
    std::vector<llvm::BitVector> before;
    if (devices)
      before = putOnStreams(tables.module, function, arena);
    layOutArena(function, arena, devices, before, totals);
  }
  return totals;
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
  auto program = function->getParentOfType<ModuleOp>();
  for (auto procedure : program.getOps<func::FuncOp>())
    if (program::isProcedure(procedure))
      tables.procedures.emplace(procedure.getName().str(), tables.procedures.size());
  auto main = tables.addFunction("main", function.getBody().front(), {}, {});
  if (!main.ok())
    return main.status();
  if (Status status = addProgram(program, tables); !status.ok())
    return status;
  const plan::FunctionT &body = *module.functions[0];
  module.inputs = ports(inputsOf(function), body.params);
  module.outputs = ports(outputsOf(function), body.results);
  int64_t constants = tables.weightsBytes; // without first values
  if (Status status = addStates(function, tables); !status.ok())
    return status;
  if (!input.devices.empty())
    placeOnDevices(tables);
  ArenaTotals arenas = layOutArenas(tables);
  module.metadata.push_back(integer("arena_bytes_planned", arenas.plannedBytes));
  module.metadata.push_back(integer("arena_buffers", arenas.buffers));
  module.metadata.push_back(integer("arena_bytes_without_sharing", arenas.separateBytes));
  Plan result;
  result.arenaBytes = inPages(arenas.plannedBytes);
  result.runBytes = result.arenaBytes + constants + bytesHeld(function, tables);
  module.metadata.push_back(integer("arena_bytes_alive", arenas.aliveBytes));
  if (!input.madeOf.empty())
    module.metadata.push_back(text("made_of", input.madeOf));
  if (!input.recomputation.empty())
    module.metadata.push_back(text("recomputation", input.recomputation));
  module.metadata.push_back(texts("unemitted_kernels", input.unemitted));
  module.metadata.push_back(text("schedules", input.schedules));
  module.metadata.push_back(text("layout_conversions", layoutConversions(program)));
  if (!input.calibration.empty())
    module.metadata.push_back(text("calibration", input.calibration));
  if (!input.casts.empty())
    module.metadata.push_back(text("casts", input.casts));
  module.metadata.push_back(
      text("machine_limits", input.limits.empty() ? "defaults" : input.limits));

  // How large the plan is it can tell only once it is written.
  module.metadata.push_back(integer("run_bytes_planned", 0));
  flatbuffers::FlatBufferBuilder builder;
  plan::FinishModuleBuffer(builder, plan::Module::Pack(builder, &module));
  module.metadata.back()->value.AsInteger()->value =
      result.runBytes + bytesOfPlan(tables, int64_t(builder.GetSize()));
  builder.Clear();
  plan::FinishModuleBuffer(builder, plan::Module::Pack(builder, &module));
  result.runBytes += bytesOfPlan(tables, int64_t(builder.GetSize()));
  result.bytes.assign(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
  result.constants = std::move(tables.constants);
  result.weightsBytes = tables.weightsBytes;
  return result;
}

} // namespace tensmith::vm

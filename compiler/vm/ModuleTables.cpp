// Shared tables of a plan; see ModuleTables.h.
#include "compiler/vm/ModuleTables.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/vm/FunctionBuilder.h"

using namespace mlir;

namespace tensmith::vm {

int64_t ModuleTables::addConstant(const HostTensor &tensor) {
  constexpr int64_t kAlignment = 64;
  std::span contents(tensor.data(), size_t(tensor.bytes()));
  // The hash finds candidates and the bytes decide: contents with the same hash can be made.
  Hash128 hash = hash128(contents);
  auto [first, last] = constantsByHash_.equal_range(hash);
  for (auto &[_, index] : llvm::make_range(first, last))
    if (const HostTensor &known = constants[index].tensor;
        std::ranges::equal(std::span(known.data(), size_t(known.bytes())), contents))
      return constants[index].offset;
  constantsByHash_.emplace(hash, constants.size());
  constants.push_back({weightsBytes, tensor});
  weightsBytes += int64_t(llvm::alignTo(std::max<int64_t>(tensor.bytes(), 1), kAlignment));
  return constants.back().offset;
}

uint32_t ModuleTables::addConstantTensor(const HostTensor &tensor) {
  int64_t offset = addConstant(tensor);
  auto [it, isNew] = constantTensors_.try_emplace({offset, uint8_t(tensor.type()), tensor.shape()},
                                                  module.constants.size());
  if (isNew) {
    auto constant = std::make_unique<plan::ConstantTensorT>();
    constant->type = uint8_t(tensor.type());
    constant->dims = tensor.shape();
    constant->offset = uint64_t(offset);
    module.constants.push_back(std::move(constant));
  }
  return it->second;
}

uint32_t ModuleTables::addMessage(StringRef message) {
  auto [it, isNew] = messages_.try_emplace(message.str(), module.messages.size());
  if (isNew)
    module.messages.push_back(message.str());
  return it->second;
}

uint32_t ModuleTables::addKernel(graph::KernelOp op) {
  const KernelBinding &binding = input.kernel(op);
  // A library's function does many operators.
  std::string key = binding.symbol;
  llvm::raw_string_ostream stream(key);
  if (llvm::StringRef(binding.symbol).contains(':')) {
    stream << binding.schedule;
    for (mlir::AffineExpr number : binding.numbers)
      stream << " " << number;
  }
  auto [it, isNew] = kernels_.try_emplace(key, module.kernels.size());
  if (isNew) {
    auto kernel = std::make_unique<plan::KernelT>();
    kernel->symbol = binding.symbol;
    kernel->label = binding.label;
    kernel->schedule = binding.schedule;
    kernel->messages = binding.messages;
    module.kernels.push_back(std::move(kernel));
    multiplies.push_back(binding.multiplies);
  }
  return it->second;
}

Result<uint32_t> ModuleTables::addRoutine(Operation *op) {
  auto routine = std::make_unique<plan::RoutineT>();
  routine->operator_ = graph::operatorName(op).str();
  Attributes parameters = graph::attributes(op);
  for (auto &[name, value] : parameters.all()) {
    auto attribute = std::make_unique<plan::AttributeT>();
    attribute->name = name;
    if (auto *integer = std::get_if<int64_t>(&value)) {
      attribute->value.Set(plan::IntegerT{});
      attribute->value.AsInteger()->value = *integer;
    } else if (auto *real = std::get_if<double>(&value)) {
      attribute->value.Set(plan::RealT{});
      attribute->value.AsReal()->value = *real;
    } else if (auto *text = std::get_if<std::string>(&value)) {
      attribute->value.Set(plan::TextT{});
      attribute->value.AsText()->value = *text;
    } else if (auto *integers = std::get_if<std::vector<int64_t>>(&value)) {
      attribute->value.Set(plan::IntegersT{});
      attribute->value.AsIntegers()->values = *integers;
    } else if (auto *reals = std::get_if<std::vector<double>>(&value)) {
      attribute->value.Set(plan::RealsT{});
      attribute->value.AsReals()->values = *reals;
    } else if (auto *texts = std::get_if<std::vector<std::string>>(&value)) {
      attribute->value.Set(plan::TextsT{});
      attribute->value.AsTexts()->values = *texts;
    } else {
      return unsupported("attribute '" + name + "' of " + graph::describe(op->getLoc()) +
                         " holds a tensor");
    }
    routine->attributes.push_back(std::move(attribute));
  }
  module.routines.push_back(std::move(routine));
  return uint32_t(module.routines.size() - 1);
}

uint32_t ModuleTables::addLocation(Location location) {
  std::string text = input.model;
  if (!isa<UnknownLoc>(location))
    text += ": " + graph::describe(location);
  auto [it, isNew] = locations_.try_emplace(text, module.locations.size());
  if (isNew)
    module.locations.push_back(text);
  return it->second;
}

Result<uint32_t> ModuleTables::addFunction(std::string name, Block &block, ValueRange captured,
                                           ArrayRef<StringAttr> given) {
  auto index = uint32_t(module.functions.size());
  module.functions.push_back(std::make_unique<plan::FunctionT>());
  arenas.emplace_back();
  // The table may move when functions inside are added; the function itself does not.
  plan::FunctionT &function = *module.functions.back();
  function.name = std::move(name);
  FunctionBuilder builder(*this, function);
  if (Status status = builder.build(block, captured, given); !status.ok())
    return status;
  arenas[index].emplace(builder.takeArena());
  return index;
}

} // namespace tensmith::vm

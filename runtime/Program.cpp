// Decodes a verified plan.
#include "runtime/Program.h"

#include "runtime/ModuleFormat.h"
#include "runtime/VerifyProcedures.h"

#include <algorithm>

namespace tensmith::runtime {
namespace {

Indices span(const flatbuffers::Vector<uint32_t> *vector) {
  return vector ? Indices(vector->data(), vector->size()) : Indices();
}

std::string_view view(const flatbuffers::String *text) {
  return text ? std::string_view(text->c_str(), text->size()) : std::string_view();
}

ValueCode decodeValue(const plan::Value &value) {
  ValueCode code = {};
  code.kind = value.kind();
  code.type = DataType(value.type());
  code.ranked = value.ranked();
  code.storage = value.storage();
  code.dims = span(value.dims());
  code.offset = value.offset();
  code.name = view(value.name());
  code.reserved = value.reserved();
  code.device = value.device();
  code.pitch = value.pitch();
  return code;
}

Step decodeInstruction(const plan::Instruction &instruction) {
  Step step = {};
  step.opcode = instruction.opcode();
  step.target = instruction.target();
  step.operands = span(instruction.operands());
  step.results = span(instruction.results());
  step.sizes = span(instruction.sizes());
  step.releases = span(instruction.releases());
  step.functions = span(instruction.functions());
  step.carried = instruction.carried();
  step.location = instruction.location();
  step.flops = instruction.flops();
  step.bytes = instruction.bytes();
  step.message = instruction.message();
  step.stream = instruction.stream();
  step.waits = span(instruction.waits());
  return step;
}

/// Gives a kernel's step its places in a frame.
void layOut(FunctionCode &code, Step &step, const KnownTimes &times) {
  step.firstPointer = code.pointerCount;
  step.firstSize = code.sizeCount;
  step.call = code.callCount++;
  code.pointerCount += uint32_t(step.operands.size() + step.results.size());
  code.sizeCount += uint32_t(step.sizes.size());
  step.lateSizes = std::any_of(step.sizes.begin(), step.sizes.end(),
                               [&](uint32_t size) { return times.exprs[size] != kAtEntry; });
  bool allocates = std::any_of(step.results.begin(), step.results.end(), [&](uint32_t result) {
    return !fixedAddress(code.values[result]) || code.values[result].late;
  });
  step.bare =
      !allocates && !step.lateSizes && !step.device && step.waits.empty() && step.releases.empty();
}

template <typename Visit> void visitKernelPointers(const FunctionCode &code, Visit visit) {
  for (const Step &step : code.steps) {
    if (step.opcode != plan::Opcode::Kernel)
      continue;
    uint32_t position = step.firstPointer;
    for (Indices list : {step.operands, step.results})
      for (uint32_t value : list)
        visit(value, position++);
  }
}

/// Operands of joins, and what these are views of.
void findParts(FunctionCode &code) {
  for (size_t i = code.steps.size(); i-- > 0;) {
    const Step &step = code.steps[i];
    bool isJoin = step.opcode == plan::Opcode::Join;
    if (isJoin || (step.opcode == plan::Opcode::View && code.values[step.results[0]].isPart))
      for (uint32_t operand : step.operands)
        code.values[operand].isPart = true;
  }
}

/// The values that `Frame::clear` has to let go of: also those that may turn out larger than what
/// the arena has for them.
void collectTransient(FunctionCode &code) {
  std::vector<bool> holds(code.values.size());
  for (size_t i = 0; i < code.values.size(); ++i)
    holds[i] = !fixedAddress(code.values[i]) || code.values[i].late;
  for (const Step &step : code.steps)
    if (step.opcode == plan::Opcode::View && !step.settled)
      holds[step.results[0]] = true;
  for (uint32_t i = 0; i < holds.size(); ++i)
    if (holds[i])
      code.transient.push_back(i);
}

/// Groups the places in Frame::pointers by value.
void collectUses(FunctionCode &code) {
  auto count = [&](uint32_t value, uint32_t) {
    if (value != kAbsent)
      ++code.values[value].useCount;
  };
  visitKernelPointers(code, count);
  uint32_t first = 0;
  for (ValueCode &value : code.values) {
    value.firstUse = first;
    first += std::exchange(value.useCount, 0);
  }
  code.uses.resize(first);
  visitKernelPointers(code, [&](uint32_t index, uint32_t position) {
    if (index == kAbsent)
      return;
    ValueCode &value = code.values[index];
    code.uses[value.firstUse + value.useCount++] = position;
  });
}

/// Those that are like the first, if there are more: what has one size lives no longer for lying
/// with others than they could have made it live by being as large.
void collectTogether(FunctionCode &code, const KnownTimes &times) {
  for (const Step &step : code.steps)
    for (uint32_t result : step.results) {
      if (step.opcode != plan::Opcode::Kernel || step.device ||
          code.values[result].storage != plan::Storage::Result)
        continue;
      const ValueCode &value = code.values[result];
      const ValueCode &first = code.values[code.together.empty() ? result : code.together[0]];
      auto known = [&](uint32_t dim) { return times.exprs[dim] == kAtEntry; };
      if (value.type == first.type && std::ranges::equal(value.dims, first.dims) &&
          std::ranges::all_of(value.dims, known))
        code.together.push_back(result);
    }
  if (code.together.size() < 2)
    code.together.clear();
}

std::string missingKernel(const std::string &symbol) {
  size_t end = symbol.find(':');
  return end == symbol.npos ? "the module's code lacks the kernel '" + symbol + "'"
                            : missingLibrary(symbol.substr(0, end));
}

Result<FunctionCode> decodeFunction(const plan::Module &module, const plan::Function &function,
                                    const FindKernel &find) {
  KnownTimes times = knownTimes(function);
  FunctionCode code = {};
  code.plan = &function;
  code.name = view(function.name());
  code.symbolCount = uint32_t(times.symbols.size());
  if (function.exprs())
    code.exprs = {reinterpret_cast<const plan::Expr *>(function.exprs()->Data()),
                  function.exprs()->size()};
  code.params = span(function.params());
  code.results = span(function.results());
  code.arenaBytes = function.arena_bytes();
  code.deviceArenas = span(function.device_arenas());
  if (function.buffers())
    code.buffers = {reinterpret_cast<const plan::ArenaBuffer *>(function.buffers()->Data()),
                    function.buffers()->size()};
  code.firstPlace = function.first_place();
  code.batched = function.batched();
  Indices overwrites = span(function.overwrites());
  for (size_t i = 0; i + 1 < overwrites.size() && i < 2 * kMostOverwrites; i += 2)
    code.overwrites.push_back({overwrites[i], overwrites[i + 1]});
  for (uint32_t i = 0; function.values() && i < function.values()->size(); ++i)
    code.values.push_back(decodeValue(*function.values()->Get(i)));
  for (ValueCode &value : code.values)
    value.late =
        std::ranges::any_of(value.dims, [&](uint32_t dim) { return times.exprs[dim] != kAtEntry; });
  for (uint32_t i = 0; function.instructions() && i < function.instructions()->size(); ++i) {
    Step step = decodeInstruction(*function.instructions()->Get(i));
    if (step.stream != kAbsent) {
      step.device = code.values[step.results[0]].device;
      if (step.device == 0)
        step.device = code.values[step.operands[0]].device;
      code.hasStreams = true;
    }
    if (step.opcode == plan::Opcode::Kernel) {
      layOut(code, step, times);
      const char *symbol = module.kernels()->Get(step.target)->symbol()->c_str();
      step.entry = find(symbol);
      if (!step.entry)
        return Status(StatusCode::InvalidModule, missingKernel(symbol));
    }
    if (step.opcode == plan::Opcode::View) {
      auto isSettled = [&](uint32_t value) {
        return fixedAddress(code.values[value]) && !code.values[value].late;
      };
      step.settled = isSettled(step.operands[0]) && isSettled(step.results[0]);
    }
    if (step.opcode == plan::Opcode::Check)
      step.settled = std::ranges::all_of(
          step.sizes, [&](uint32_t size) { return times.exprs[size] == kAtEntry; });
    code.steps.push_back(std::move(step));
  }
  for (uint32_t i = 0; i < times.exprs.size(); ++i)
    if (times.exprs[i] == kAtEntry)
      code.entryExprs.push_back(i);
    else if (times.exprs[i] != kNever)
      code.steps[size_t(times.exprs[i])].learned.push_back(i);
  for (const ValueCode &value : code.values) {
    code.hasArena |= value.storage == plan::Storage::Arena && !value.device;
    code.hasDeviceArena |= value.storage == plan::Storage::Arena && value.device;
  }
  findParts(code);
  collectUses(code);
  collectTransient(code);
  collectTogether(code, times);
  code.times = std::move(times);
  return code;
}

template <typename T> std::vector<T> vectorOf(const flatbuffers::Vector<T> *values) {
  return values ? std::vector<T>(values->begin(), values->end()) : std::vector<T>();
}

std::vector<std::string>
stringsOf(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>> *values) {
  std::vector<std::string> strings;
  for (uint32_t i = 0; values && i < values->size(); ++i)
    strings.push_back(values->Get(i)->str());
  return strings;
}

Attribute decodeAttribute(const plan::Attribute &attribute) {
  switch (attribute.value_type()) {
  case plan::AttributeValue::Integer:
    return attribute.value_as_Integer()->value();
  case plan::AttributeValue::Real:
    return attribute.value_as_Real()->value();
  case plan::AttributeValue::Text:
    return std::string(view(attribute.value_as_Text()->value()));
  case plan::AttributeValue::Integers:
    return vectorOf(attribute.value_as_Integers()->values());
  case plan::AttributeValue::Reals:
    return vectorOf(attribute.value_as_Reals()->values());
  default:
    return stringsOf(attribute.value_as_Texts()->values());
  }
}

} // namespace

namespace {

/// Whether the procedure invokes a batched function, or calls what does.
bool mayBatch(const Program &program, const ProcedureCode &procedure) {
  for (uint32_t at = 0, length; at < procedure.code.size(); at += length) {
    const uint32_t *word = procedure.code.data() + at;
    auto code = plan::Code(word[0] & 0xff);
    length = instructionLength(procedure.code.data(), uint32_t(procedure.code.size()), at);
    bool call = code == plan::Code::Call || code == plan::Code::TailCall;
    bool apply = code == plan::Code::Apply || code == plan::Code::TailApply;
    if ((code == plan::Code::Invoke && program.functions[word[1]].batched) ||
        (call && program.procedures[word[1]].batches) || (apply && program.closuresBatch))
      return true;
  }
  return false;
}

bool isClosure(const Program &program, uint32_t index) {
  for (const ProcedureCode &procedure : program.procedures)
    for (uint32_t at = 0; at < procedure.code.size();
         at += instructionLength(procedure.code.data(), uint32_t(procedure.code.size()), at))
      if (plan::Code(procedure.code[at] & 0xff) == plan::Code::Closure &&
          procedure.code[at + 1] == index)
        return true;
  return false;
}

/// Which procedures may come to a batched function; so until nothing is added.
void findBatching(Program &program) {
  bool any = std::any_of(program.functions.begin(), program.functions.end(),
                         [](const FunctionCode &function) { return function.batched != 0; });
  for (bool changed = any; changed;) {
    changed = false;
    for (uint32_t i = 0; i < program.procedures.size(); ++i) {
      if (program.procedures[i].batches || !mayBatch(program, program.procedures[i]))
        continue;
      changed = program.procedures[i].batches = true;
      program.closuresBatch |= isClosure(program, i);
    }
  }
}

} // namespace

std::string missingLibrary(const std::string &name) {
  return "the module calls libtensmith_" + name +
         ".so, which can't be loaded: put it, and what it needs, beside the runtime's library "
         "(docs/libraries.md says how it is built), or compile the model with --libraries "
         "generated";
}

Result<Program> decodePlan(const plan::Module &module, const FindKernel &find) {
  Program program;
  for (uint32_t i = 0; module.routines() && i < module.routines()->size(); ++i) {
    const plan::Routine *routine = module.routines()->Get(i);
    RoutineCode code = {routine->operator_()->str(), {}};
    for (uint32_t j = 0; routine->attributes() && j < routine->attributes()->size(); ++j) {
      const plan::Attribute *attribute = routine->attributes()->Get(j);
      code.attributes.set(attribute->name()->str(), decodeAttribute(*attribute));
    }
    program.routines.push_back(std::move(code));
  }
  for (uint32_t i = 0; i < module.functions()->size(); ++i) {
    auto function = decodeFunction(module, *module.functions()->Get(i), find);
    if (!function)
      return function.status();
    program.functions.push_back(std::move(*function));
  }
  for (uint32_t i = 0; module.procedures() && i < module.procedures()->size(); ++i) {
    const plan::Procedure *procedure = module.procedures()->Get(i);
    program.procedures.push_back({view(procedure->name()), procedure->params(),
                                  procedure->registers(), span(procedure->code()),
                                  span(procedure->places())});
  }
  findBatching(program);
  return program;
}

} // namespace tensmith::runtime

// What is known of a module, as JSON.
//
// Sizes of a program with symbols are given as text over them ("batch*1024"), those of a static one
// as numbers.
#include "runtime/Describe.h"

#include "runtime/Json.h"
#include "runtime/ModuleFormat.h"
#include "runtime/PortJson.h"
#include "runtime/VerifyProcedures.h"

#include <algorithm>
#include <set>

namespace tensmith::runtime {
namespace {

std::string_view view(const flatbuffers::String *text) {
  return text ? std::string_view(text->c_str(), text->size()) : std::string_view();
}

const char *opcodeName(plan::Opcode opcode) {
  switch (opcode) {
  case plan::Opcode::Kernel:
    return "kernel";
  case plan::Opcode::Routine:
    return "routine";
  case plan::Opcode::If:
    return "if";
  case plan::Opcode::Loop:
    return "loop";
  case plan::Opcode::Procedure:
    return "procedure";
  case plan::Opcode::Copy:
    return "copy";
  case plan::Opcode::Join:
    return "join";
  case plan::Opcode::Check:
    return "check";
  default:
    return "view";
  }
}

const char *storageName(plan::Storage storage) {
  constexpr const char *names[] = {"parameter", "arena", "constant", "heap", "result"};
  return names[size_t(storage)];
}

std::string labelOf(const Module &module, const Step &step) {
  if (step.opcode == plan::Opcode::Kernel) {
    auto label = view(module.plan().kernels()->Get(step.target)->label());
    if (!label.empty())
      return std::string(label);
  }
  if (step.opcode == plan::Opcode::Routine)
    return module.program().routines[step.target].name;
  std::string_view location = module.location(step.location);
  return location.empty() ? opcodeName(step.opcode) : std::string(location);
}

/// The values of a function's expressions that depend on constants alone; poison for the others.
std::vector<int64_t> constantValues(const FunctionCode &code) {
  std::vector<int64_t> values;
  auto isKnown = [&](const plan::Expr &expr) {
    return expr.kind() == plan::ExprKind::Constant ||
           (expr.kind() != plan::ExprKind::Symbol && values[size_t(expr.a())] != kPoison &&
            values[size_t(expr.b())] != kPoison);
  };
  for (const plan::Expr &expr : code.exprs)
    values.push_back(isKnown(expr) ? evaluate(expr, nullptr, values.data()) : kPoison);
  return values;
}

/// A number where it is constant, text otherwise.
void writeExpression(JsonWriter &json, const FunctionCode &code, uint32_t index,
                     const std::vector<int64_t> &constants) {
  if (constants[index] != kPoison)
    json.value(constants[index]);
  else
    json.value(expressionText(*code.plan, index));
}

void writeWork(JsonWriter &json, const FunctionCode &code, uint32_t index,
               const std::vector<int64_t> &constants) {
  if (index == kAbsent)
    json.null();
  else
    writeExpression(json, code, index, constants);
}

/// What the calls of one kernel have in common.
struct Calls {
  int64_t count = 0;
  std::string flops = "null", bytes = "null"; // as JSON, of one call; null where they differ

  void add(const std::string &callFlops, const std::string &callBytes) {
    flops = count == 0 || flops == callFlops ? callFlops : "null";
    bytes = count == 0 || bytes == callBytes ? callBytes : "null";
    ++count;
  }
};

std::vector<Calls> callsOfKernels(const Module &module) {
  const auto *kernels = module.plan().kernels();
  std::vector<Calls> calls(kernels ? kernels->size() : 0);
  for (const FunctionCode &code : module.program().functions) {
    std::vector<int64_t> constants = constantValues(code);
    auto text = [&](uint32_t work) {
      JsonWriter json;
      writeWork(json, code, work, constants);
      return json.take();
    };
    for (const Step &step : code.steps)
      if (step.opcode == plan::Opcode::Kernel)
        calls[step.target].add(text(step.flops), text(step.bytes));
  }
  return calls;
}

void writePorts(JsonWriter &json, const Module &module, bool inputs) {
  const auto *ports = inputs ? module.plan().inputs() : module.plan().outputs();
  const FunctionCode &main = module.program().functions[0];
  json.key(inputs ? "inputs" : "outputs").open('[');
  for (uint32_t i = 0; ports && i < ports->size(); ++i) {
    const plan::Port *port = ports->Get(i);
    const ValueCode &value = main.values[port->value()];
    PortText text{view(port->name()), value.kind, value.type, value.ranked, {}, view(port->type())};
    for (uint32_t j = 0; port->dims() && j < port->dims()->size(); ++j)
      text.dims.push_back(view(port->dims()->Get(j)));
    writePort(json, text);
  }
  json.close(']');
}

void writeValues(JsonWriter &json, const char *key, const FunctionCode &code, Indices values,
                 const std::vector<int64_t> &constants) {
  json.key(key).open('[');
  for (uint32_t index : values) {
    if (index == kAbsent) {
      json.null();
      continue;
    }
    const ValueCode &value = code.values[index];
    json.open('{').key("value").value(int64_t(index)).key("name").value(value.name);
    json.key("type").value(name(value.type)).key("storage").value(storageName(value.storage));
    json.key("dims");
    json.open('[');
    for (uint32_t dim : value.dims)
      writeExpression(json, code, dim, constants);
    json.close(']');
    if (value.device)
      json.key("device").value(int64_t(value.device));
    if (value.late && value.storage == plan::Storage::Arena)
      writeExpression(json.key("bytes_at_most"), code, value.reserved, constants);
    json.close('}');
  }
  json.close(']');
}

/// Results that take an argument's place where nothing else refers to any of them.
std::set<uint32_t> overwritingResults(const FunctionCode &code) {
  std::set<uint32_t> results, params;
  for (auto [param, result] : code.overwrites)
    if (!params.contains(param) && results.insert(result).second)
      params.insert(param);
  return results;
}

/// How often a call of the function asks for memory for tensors: not for those in the arena, which
/// is made once and kept, nor for `placed` ones, and once for results that are alike.
int64_t allocationsOf(const FunctionCode &code, bool main, const std::set<uint32_t> &placed) {
  auto own = [&](uint32_t result) {
    return result != kAbsent && code.values[result].storage != plan::Storage::Arena &&
           !placed.contains(result);
  };
  int64_t count = 0, alike = main ? 0 : std::ranges::count_if(code.together, own);
  for (const Step &step : code.steps)
    if (step.opcode == plan::Opcode::Kernel || step.opcode == plan::Opcode::Routine)
      count += std::ranges::count_if(step.results, own);
  return alike > 1 ? count - std::min(alike, int64_t(kMostInBlock)) + 1 : count;
}

/// Tensors that a call of the function computes, and allocations for them: where nothing else
/// refers to the operands, and where all are referred to.
void writeAllocations(JsonWriter &json, const FunctionCode &code, bool main) {
  int64_t tensors = 0;
  for (const Step &step : code.steps)
    if (step.opcode == plan::Opcode::Kernel || step.opcode == plan::Opcode::Routine)
      tensors += std::ranges::count_if(step.results, [](uint32_t i) { return i != kAbsent; });
  json.key("tensors").value(tensors);
  json.key("allocations").value(allocationsOf(code, main, overwritingResults(code)));
  json.key("allocations_at_most").value(allocationsOf(code, main, {}));
}

void writeFunction(JsonWriter &json, const Module &module, const FunctionCode &code) {
  std::vector<int64_t> constants = constantValues(code);
  json.open('{').key("name").value(code.name).key("arena_bytes");
  if (!code.buffers.empty())
    json.value("placed when sizes are known");
  else if (code.hasArena)
    writeExpression(json, code, code.arenaBytes, constants);
  else
    json.value(int64_t(0));
  auto planned = std::count_if(code.values.begin(), code.values.end(), [](const ValueCode &value) {
    return value.storage == plan::Storage::Arena;
  });
  auto heap = std::count_if(code.values.begin(), code.values.end(), [](const ValueCode &value) {
    return value.storage == plan::Storage::Heap;
  });
  auto onDevice = std::count_if(code.values.begin(), code.values.end(),
                                [](const ValueCode &value) { return value.device; });
  json.key("device_values").value(int64_t(onDevice));
  json.key("host_values").value(int64_t(code.values.size()) - int64_t(onDevice));
  json.key("planned_allocations").value(int64_t(planned)).key("heap_values").value(int64_t(heap));
  writeAllocations(json, code, &code == module.program().functions.data());
  json.key("instructions").open('[');
  for (const Step &step : code.steps) {
    json.open('{').key("opcode").value(opcodeName(step.opcode));
    json.key("label").value(labelOf(module, step));
    json.key("location").value(module.location(step.location));
    writeValues(json, "operands", code, step.operands, constants);
    writeValues(json, "results", code, step.results, constants);
    writeWork(json.key("flops"), code, step.flops, constants);
    writeWork(json.key("bytes"), code, step.bytes, constants);
    if (step.device)
      json.key("device").value(int64_t(step.device)).key("stream").value(int64_t(step.stream));
    if (!step.waits.empty()) {
      json.key("waits").open('[');
      for (uint32_t earlier : step.waits)
        json.value(int64_t(earlier));
      json.close(']');
    }
    json.close('}');
  }
  json.close(']').close('}');
}

void writeKernels(JsonWriter &json, const Module &module) {
  const auto *kernels = module.plan().kernels();
  std::vector<Calls> calls = callsOfKernels(module);
  json.key("kernels").open('[');
  for (uint32_t i = 0; kernels && i < kernels->size(); ++i) {
    const plan::Kernel *kernel = kernels->Get(i);
    json.open('{').key("symbol").value(view(kernel->symbol()));
    json.key("label").value(view(kernel->label()));
    json.key("schedule").value(view(kernel->schedule())).key("uses").value(calls[i].count);
    json.key("flops").raw(calls[i].flops).key("bytes").raw(calls[i].bytes).close('}');
  }
  json.close(']');
}

void writeTexts(JsonWriter &json, std::string_view key,
                const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>> *texts) {
  json.key(key).open('[');
  for (uint32_t i = 0; texts && i < texts->size(); ++i)
    json.value(view(texts->Get(i)));
  json.close(']');
}

/// "7: Call 2 -> r4 (r1 r3!)": an exclamation mark where the register is emptied.
std::string instructionText(const Module &module, const ProcedureCode &procedure, uint32_t at) {
  const uint32_t *word = procedure.code.data() + at;
  auto code = plan::Code(word[0] & 0xff);
  uint32_t length = instructionLength(procedure.code.data(), uint32_t(procedure.code.size()), at);
  std::string text = std::to_string(at) + ": " + plan::EnumNameCode(code);
  if (code == plan::Code::Call || code == plan::Code::TailCall || code == plan::Code::Closure)
    text += " " + std::string(module.program().procedures[word[1]].name);
  if (code == plan::Code::Invoke)
    text += " " + std::string(module.program().functions[word[1]].name);
  uint32_t first = 1;
  if (code == plan::Code::Fork)
    text += " " + std::to_string(word[0] >> 8);
  if (code == plan::Code::Scalar) {
    text += std::string(" ") + plan::EnumNameScalarOperator(plan::ScalarOperator(word[1] & 0xff)) +
            " " + plan::EnumNameScalarType(plan::ScalarType(word[1] >> 8));
    first = 2;
  }
  for (uint32_t i = first; i < length; ++i)
    text += " " + std::to_string(word[i] & ~kTake) + (word[i] & kTake ? "!" : "");
  return text;
}

void writeProcedures(JsonWriter &json, const Module &module) {
  json.key("procedures").open('[');
  for (const ProcedureCode &procedure : module.program().procedures) {
    json.open('{').key("name").value(procedure.name);
    json.key("params").value(int64_t(procedure.params));
    json.key("registers").value(int64_t(procedure.registers)).key("code").open('[');
    for (uint32_t at = 0; at < procedure.code.size();
         at += instructionLength(procedure.code.data(), uint32_t(procedure.code.size()), at))
      json.value(instructionText(module, procedure, at));
    json.close(']').close('}');
  }
  json.close(']');
}

void writeDataTypes(JsonWriter &json, const Module &module) {
  const auto *types = module.plan().data_types();
  json.key("data_types").open('[');
  for (uint32_t i = 0; types && i < types->size(); ++i) {
    json.open('{').key("name").value(view(types->Get(i)->name()));
    writeTexts(json, "params", types->Get(i)->params());
    json.key("constructors").open('[');
    const auto *constructors = types->Get(i)->constructors();
    for (uint32_t j = 0; constructors && j < constructors->size(); ++j) {
      json.open('{').key("name").value(view(constructors->Get(j)->name()));
      writeTexts(json, "fields", constructors->Get(j)->fields());
      json.close('}');
    }
    json.close(']').close('}');
  }
  json.close(']');
}

void writeStates(JsonWriter &json, const Module &module) {
  const auto *states = module.plan().states();
  json.key("states").open('[');
  for (uint32_t i = 0; states && i < states->size(); ++i) {
    const plan::State *state = states->Get(i);
    json.open('{').key("name").value(view(state->name()));
    json.key("kind").value(plan::EnumNameStateKind(state->kind()));
    bool updated = state->output() != UINT32_MAX;
    json.key("input").value(int64_t(state->input()));
    json.key("output").value(updated ? int64_t(state->output()) : int64_t(-1));
    json.key("in_place").value(int64_t(state->in_place())).close('}');
  }
  json.close(']');
}

void writeMetadata(JsonWriter &json, const Module &module) {
  const auto *metadata = module.plan().metadata();
  json.key("metadata").open('{');
  for (uint32_t i = 0; metadata && i < metadata->size(); ++i) {
    const plan::Attribute *attribute = metadata->Get(i);
    if (attribute->value_type() == plan::AttributeValue::Text)
      json.key(view(attribute->name())).value(view(attribute->value_as_Text()->value()));
    if (attribute->value_type() == plan::AttributeValue::Integer)
      json.key(view(attribute->name())).value(attribute->value_as_Integer()->value());
    if (attribute->value_type() == plan::AttributeValue::Texts)
      writeTexts(json, view(attribute->name()), attribute->value_as_Texts()->values());
  }
  json.close('}');
}

} // namespace

std::string describeModule(const Module &module) {
  const plan::Module &plan = module.plan();
  JsonWriter json;
  json.open('{');
  json.key("format").value(std::to_string(kFormatMajor) + "." + std::to_string(kFormatMinor));
  json.key("producer").value(view(plan.producer())).key("model").value(view(plan.model()));
  writeTexts(json, "devices", plan.devices());
  json.key("triple").value(view(plan.triple())).key("cpu").value(view(plan.cpu()));
  writeTexts(json, "features", plan.features());
  writePorts(json, module, true);
  writePorts(json, module, false);
  json.key("weights_bytes").value(int64_t(module.weights().size()));
  writeKernels(json, module);
  json.key("functions").open('[');
  for (const FunctionCode &code : module.program().functions)
    writeFunction(json, module, code);
  json.close(']');
  writeProcedures(json, module);
  writeDataTypes(json, module);
  writeStates(json, module);
  writeMetadata(json, module);
  return json.close('}').take();
}

/// What the machine did for each instruction of a program's functions.
static void writeInstructions(JsonWriter &json, const Module &module, const Profile &profile) {
  for (size_t i = 0; i < profile.procedures.size(); ++i) {
    const ProcedureCode &procedure = module.program().procedures[i];
    for (size_t at = 0; at < profile.procedures[i].size(); ++at) {
      const Profile::Instruction &entry = profile.procedures[i][at];
      if (entry.count == 0)
        continue;
      uint32_t place = kAbsent;
      for (size_t j = 0; j + 1 < procedure.places.size() && procedure.places[j] <= at; j += 2)
        place = procedure.places[j + 1];
      json.open('{').key("label").value(plan::EnumNameCode(plan::Code(procedure.code[at] & 0xff)));
      json.key("kind").value("instruction").key("procedure").value(procedure.name);
      json.key("position").value(int64_t(at)).key("count").value(entry.count);
      json.key("nanoseconds").value(entry.nanoseconds);
      json.key("location").value(module.location(place)).close('}');
    }
  }
}

std::string describeProfile(const Module &module, const Profile &profile) {
  JsonWriter json;
  json.open('[');
  writeInstructions(json, module, profile);
  for (size_t i = 0; i < profile.functions.size(); ++i) {
    const FunctionCode &code = module.program().functions[i];
    for (size_t j = 0; j < profile.functions[i].size(); ++j) {
      const Profile::Entry &entry = profile.functions[i][j];
      const Step &step = code.steps[j];
      if (entry.count == 0)
        continue;
      json.open('{').key("label").value(labelOf(module, step));
      json.key("kind").value(opcodeName(step.opcode)).key("function").value(int64_t(i));
      json.key("count").value(entry.count);
      json.key("nanoseconds").value(entry.nanoseconds);
      json.key("own_nanoseconds").value(entry.ownNanoseconds).key("flops");
      if (entry.flops == kPoison)
        json.null();
      else
        json.value(entry.flops);
      json.key("bytes").value(entry.bytes).key("constant_bytes").value(entry.constantBytes);
      json.key("type").value(name(entry.type));
      json.key("location").value(module.location(step.location)).close('}');
    }
  }
  return json.close(']').take();
}

std::string describeTrace(const Module &module, const Trace &trace) {
  JsonWriter json;
  json.open('[');
  for (const Trace::Span &span : trace.spans()) {
    const Step &step = module.program().functions[span.function].steps[span.step];
    json.open('{').key("label").value(labelOf(module, step));
    json.key("kind").value(opcodeName(step.opcode)).key("function").value(int64_t(span.function));
    json.key("instruction").value(int64_t(span.step)).key("thread").value(int64_t(span.thread));
    json.key("begin").value(span.begin).key("end").value(span.end);
    if (span.first >= 0)
      json.key("items").open('[').value(span.first).value(span.last).close(']');
    json.close('}');
  }
  return json.close(']').take();
}

} // namespace tensmith::runtime

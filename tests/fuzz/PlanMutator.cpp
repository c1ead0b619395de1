// Changes to a plan, by the table of plan.fbs that they are made in; see PlanMutator.h.
#include "tests/fuzz/PlanMutator.h"

#include "reference/Reference.h"
#include "runtime/VerifyProcedures.h"

namespace tensmith::fuzz {
namespace {

/// An index into a list of `size`, or just past it, or none.
uint32_t index(size_t size, Draw &draw) {
  return draw.oneIn(30)   ? uint32_t(draw.integer())
         : draw.oneIn(30) ? 0xffffffff
                          : uint32_t(draw.below(size + 1));
}

void changeIndices(std::vector<uint32_t> &list, size_t size, Draw &draw) {
  if (list.empty() || draw.oneIn(5))
    list.push_back(index(size, draw));
  else if (draw.oneIn(5))
    list.pop_back();
  else
    draw.among(list) = index(size, draw);
}

void changeExpression(plan::FunctionT &function, Draw &draw) {
  auto kind = plan::ExprKind(draw.below(draw.oneIn(20) ? 256 : 9));
  size_t count = function.exprs.size();
  bool number = kind == plan::ExprKind::Constant;
  plan::Expr expr(number ? draw.integer() : int64_t(draw.below(count + 1)),
                  int32_t(draw.below(count + 1)), kind);
  if (function.exprs.empty() || draw.oneIn(3))
    function.exprs.push_back(expr);
  else if (plan::Expr &old = draw.among(function.exprs);
           old.kind() == plan::ExprKind::Constant && draw.oneIn(2))
    old = plan::Expr(draw.integer(), 0, plan::ExprKind::Constant);
  else
    old = expr;
}

void changeValue(plan::FunctionT &function, Draw &draw) {
  if (function.values.empty() || draw.oneIn(10)) {
    auto added = function.values.empty() ? plan::ValueT() : *draw.among(function.values);
    function.values.push_back(std::make_unique<plan::ValueT>(std::move(added)));
    return;
  }
  plan::ValueT &value = *draw.among(function.values);
  switch (draw.below(6)) {
  case 0:
    value.kind = plan::ValueKind(draw.below(draw.oneIn(20) ? 256 : 4));
    return;
  case 1:
    value.type = uint8_t(draw.below(draw.oneIn(20) ? 256 : 27));
    return;
  case 2:
    value.ranked = !value.ranked;
    return;
  case 3:
    value.storage = plan::Storage(draw.below(draw.oneIn(20) ? 256 : 5));
    return;
  case 4:
    value.offset = draw.oneIn(2) ? draw.below(function.exprs.size() + 1) : uint64_t(draw.integer());
    return;
  default:
    changeIndices(value.dims, function.exprs.size(), draw);
  }
}

void changeInstruction(plan::ModuleT &module, plan::FunctionT &function, Draw &draw) {
  size_t values = function.values.size(), exprs = function.exprs.size();
  plan::InstructionT &instruction = *draw.among(function.instructions);
  switch (draw.below(12)) {
  case 0:
    instruction.opcode = plan::Opcode(draw.below(draw.oneIn(20) ? 256 : 5));
    return;
  case 1:
    instruction.target = index(std::max(module.kernels.size(), module.routines.size()), draw);
    return;
  case 2:
  case 3:
  case 4:
    return changeIndices(instruction.operands, values, draw);
  case 5:
    return changeIndices(instruction.results, values, draw);
  case 6:
    return changeIndices(instruction.sizes, exprs, draw);
  case 7:
    return changeIndices(instruction.functions, module.functions.size(), draw);
  case 8:
    instruction.carried = index(values, draw);
    return;
  case 9:
    return changeIndices(instruction.releases, values, draw);
  case 10:
    instruction.location = index(module.locations.size(), draw);
    return;
  default:
    (draw.oneIn(2) ? instruction.flops : instruction.bytes) = index(exprs, draw);
  }
}

void changeOrder(plan::FunctionT &function, Draw &draw) {
  auto &list = function.instructions;
  size_t at = draw.below(list.size());
  switch (draw.below(3)) {
  case 0:
    list.erase(list.begin() + long(at));
    return;
  case 1:
    return std::swap(list[at], draw.among(list));
  default:
    list.insert(list.begin() + long(draw.below(list.size())),
                std::make_unique<plan::InstructionT>(*list[at]));
  }
}

void changeSignature(plan::ModuleT &module, plan::FunctionT &function, Draw &draw) {
  switch (draw.below(7)) {
  case 5:
    function.first_place = index(function.symbols.size(), draw);
    if (draw.oneIn(2) || function.buffers.empty())
      function.buffers.emplace_back(index(function.exprs.size(), draw), uint32_t(draw.below(8)),
                                    uint32_t(draw.below(8)));
    else
      function.buffers.pop_back();
    return;
  case 0:
    return changeIndices(function.params, function.values.size(), draw);
  case 1:
    return changeIndices(function.results, function.values.size(), draw);
  case 2:
    function.given_symbols = index(function.symbols.size(), draw);
    return;
  case 3:
    function.arena_bytes = index(function.exprs.size(), draw);
    return;
  case 4:
    draw.oneIn(2) || function.symbols.empty() ? function.symbols.push_back("s")
                                              : function.symbols.pop_back();
    return;
  default:
    auto &ports = draw.oneIn(2) ? module.inputs : module.outputs;
    if (!ports.empty())
      draw.among(ports)->value = index(function.values.size(), draw);
  }
}

std::string_view anyOperator(Draw &draw) {
  static const auto names = [] {
    using namespace reference;
    std::vector<std::string_view> all;
    for (auto family :
         {arithmeticEntries,   functionEntries,   comparisonEntries,      castEntries,
          reductionEntries,    movementEntries,   dynamicMovementEntries, gatherEntries,
          scatterEntries,      creationEntries,   contractionEntries,     convolutionEntries,
          winogradEntries,     resamplingEntries, normalizationEntries,   recurrentEntries,
          quantizationEntries, signalEntries,     selectionEntries,       textEntries})
      for (const Entry &entry : family())
        all.push_back(entry.name);
    return all;
  }();
  return draw.among(names);
}

void changeAttribute(plan::AttributeT &attribute, Draw &draw) {
  if (auto *integer = attribute.value.AsInteger())
    integer->value = draw.integer();
  else if (auto *real = attribute.value.AsReal())
    real->value = draw.real();
  else if (auto *list = attribute.value.AsIntegers())
    if (list->values.empty() || draw.oneIn(4))
      list->values.push_back(draw.integer());
    else if (draw.oneIn(3))
      list->values.pop_back();
    else
      draw.among(list->values) = draw.integer();
  else if (auto *text = attribute.value.AsText())
    text->value = draw.oneIn(2) ? "" : "max";
  else
    attribute.value.Set(plan::IntegerT());
}

void changeRoutine(plan::ModuleT &module, Draw &draw) {
  if (module.routines.empty() || draw.oneIn(8)) {
    module.routines.push_back(std::make_unique<plan::RoutineT>());
    module.routines.back()->operator_ = anyOperator(draw);
    return;
  }
  plan::RoutineT &routine = *draw.among(module.routines);
  if (routine.attributes.empty() || draw.oneIn(3))
    routine.operator_ = anyOperator(draw);
  else if (draw.oneIn(6))
    routine.attributes.erase(routine.attributes.begin() +
                             long(draw.below(routine.attributes.size())));
  else
    changeAttribute(*draw.among(routine.attributes), draw);
}

void changeKernel(plan::ModuleT &module, Draw &draw) {
  if (module.kernels.empty() || draw.oneIn(4))
    module.kernels.push_back(std::make_unique<plan::KernelT>());
  draw.among(module.kernels)->symbol = draw.oneIn(5) ? "fuzz_failure" : "fuzz_kernel";
}

/// Where the instructions begin.
std::vector<size_t> instructionsOf(const plan::ProcedureT &procedure) {
  std::vector<size_t> starts;
  auto size = uint32_t(procedure.code.size());
  for (uint32_t at = 0, length = 0; at < size; at += length) {
    length = runtime::instructionLength(procedure.code.data(), size, at);
    if (!length)
      break;
    starts.push_back(at);
  }
  return starts;
}

/// A register, read for the last time or not; or an index of whatever else an operand may name.
uint32_t operand(const plan::ModuleT &module, const plan::ProcedureT &procedure, Draw &draw) {
  switch (draw.below(6)) {
  case 0:
    return index(module.procedures.size(), draw);
  case 1:
    return index(module.functions.size(), draw);
  case 2:
    return index(procedure.code.size(), draw);
  default:
    return index(procedure.registers, draw) | (draw.oneIn(2) ? uint32_t(1) << 31 : 0);
  }
}

void changeProcedure(plan::ModuleT &module, Draw &draw) {
  if (module.procedures.empty())
    return;
  plan::ProcedureT &procedure = *draw.among(module.procedures);
  auto &code = procedure.code;
  auto starts = instructionsOf(procedure);
  if (starts.empty() || draw.oneIn(12)) {
    (draw.oneIn(2) ? procedure.registers : procedure.params) = index(procedure.registers, draw);
    return;
  }
  size_t at = draw.among(starts);
  size_t length = runtime::instructionLength(code.data(), uint32_t(code.size()), uint32_t(at));
  auto begin = code.begin() + ptrdiff_t(at);
  switch (draw.below(8)) {
  case 0: // another code, of as many operands or not
    code[at] = (code[at] & ~0xffu) | uint32_t(draw.below(draw.oneIn(20) ? 256 : 20));
    return;
  case 1: // one operand more or less
    code[at] += draw.oneIn(2) ? 256 : uint32_t(-256);
    if (draw.oneIn(2) && length > 1)
      code.erase(begin + 1);
    else
      code.insert(begin + 1, operand(module, procedure, draw));
    return;
  case 2: { // twice, or somewhere else
    std::vector<uint32_t> words(begin, begin + ptrdiff_t(length));
    if (draw.oneIn(2))
      code.erase(begin, begin + ptrdiff_t(length));
    size_t to = std::min(draw.among(starts), code.size());
    code.insert(code.begin() + ptrdiff_t(to), words.begin(), words.end());
    return;
  }
  default:
    if (length > 1)
      code[at + 1 + draw.below(length - 1)] = operand(module, procedure, draw);
  }
}

void addFunction(plan::ModuleT &module, Draw &draw) {
  if (module.functions.empty() || draw.oneIn(4))
    module.functions.push_back(std::make_unique<plan::FunctionT>());
  else
    module.functions.push_back(std::make_unique<plan::FunctionT>(*draw.among(module.functions)));
}

} // namespace

void mutate(plan::ModuleT &module, Draw &draw) {
  if (module.functions.empty() || draw.oneIn(40))
    return addFunction(module, draw);
  if (!module.procedures.empty() && draw.oneIn(2))
    return changeProcedure(module, draw);
  plan::FunctionT &function = *draw.among(module.functions);
  switch (draw.below(12)) {
  case 0:
  case 1:
    return changeExpression(function, draw);
  case 2:
  case 3:
    return changeValue(function, draw);
  case 4:
    return changeSignature(module, function, draw);
  case 5:
  case 6:
    return changeRoutine(module, draw);
  case 7:
    return changeKernel(module, draw);
  case 8:
    return function.instructions.empty() ? void() : changeOrder(function, draw);
  default:
    if (function.instructions.empty() || draw.oneIn(10))
      function.instructions.push_back(std::make_unique<plan::InstructionT>());
    return changeInstruction(module, function, draw);
  }
}

} // namespace tensmith::fuzz

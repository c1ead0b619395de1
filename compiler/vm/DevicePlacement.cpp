// Homes, needs and copies; see DevicePlacement.h.
#include "compiler/vm/DevicePlacement.h"

#include "base/DataType.h"
#include "runtime/ModuleFormat.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <map>
#include <optional>
#include <set>

namespace tensmith::vm {
namespace {

using runtime::kAbsent;

using Memory = uint8_t; // as plan::Value::device
constexpr Memory kHost = 0, kFirstDevice = 1;

/// Memories that a value is read in, a bit each.
using Needs = uint32_t;
Needs in(Memory memory) { return Needs(1) << memory; }
bool needsSeveral(Needs needs) { return std::popcount(needs) > 1; }

/// Kernels of at most so many integers are worth no copy.
constexpr int64_t kFewElements = 1024;

/// How a function comes to be called, which decides where its results have to be.
struct Caller {
  uint32_t function = kAbsent, instruction = 0; // of the control flow; none: main, or procedures
};

class Placer {
public:
  explicit Placer(ModuleTables &tables)
      : tables_(tables), module_(tables.module), memories_(Memory(1 + module_.devices.size())),
        callers_(module_.functions.size()), kernels_(module_.functions.size()),
        homes_(module_.functions.size()), needs_(module_.functions.size()),
        versions_(module_.functions.size()), extra_(module_.functions.size()),
        entry_(module_.functions.size()) {}

  void place();

private:
  plan::FunctionT &function(uint32_t index) { return *module_.functions[index]; }
  const plan::ValueT &value(uint32_t f, uint32_t index) { return *function(f).values[index]; }
  bool isMain(uint32_t f) const { return f == 0; }
  bool isCalled(uint32_t f) const { return callers_[f].function != kAbsent; }

  // ---- kernels
  struct Kernel {
    uint32_t function;
    const plan::InstructionT *instruction;
    double cycles;
  };
  void collectKernels(uint32_t f, std::vector<Kernel> &kernels);
  double cyclesOf(uint32_t f, const plan::InstructionT &instruction);
  void assignKernels();
  /// The device that it runs on, or the host.
  Memory memoryOfKernel(uint32_t f, const plan::InstructionT &instruction);

  // ---- homes
  void findCallers();
  void findHomes();
  bool updateHomes(uint32_t f);
  bool updateResults(uint32_t f, const plan::InstructionT &instruction);
  bool move(uint32_t f, uint32_t index, Memory memory);
  Memory paramHome(uint32_t f, uint32_t number);
  bool isSmall(uint32_t f, uint32_t index);
  bool isConstant(uint32_t f, uint32_t index) {
    return value(f, index).storage == plan::Storage::Constant;
  }
  /// Where the caller has a value of this type.
  Memory ofCaller(const plan::ValueT &value) const {
    return tables_.input.resident && isPlain(value) ? kFirstDevice : kHost;
  }
  /// Where procedures have a value of this type.
  static Memory ofProcedures(const plan::ValueT &value);
  bool keepsElements(const plan::InstructionT &instruction) const;

  // ---- needs
  /// Where an operand is read; nothing where it may be anywhere.
  std::optional<Memory> operandMemory(uint32_t f, const plan::InstructionT &instruction, size_t i);
  Memory resultMemory(uint32_t f, size_t number);
  void collectNeeds(uint32_t f);
  void routeThroughHost(uint32_t f);
  Needs operandNeeds(uint32_t f, const plan::InstructionT &instruction, size_t i);

  // ---- rewriting
  using Code = std::vector<std::unique_ptr<plan::InstructionT>>;
  using Extras = std::vector<std::pair<size_t, Memory>>;
  size_t firstCapturedParam(uint32_t f);
  /// Whether it is there in all memories that need it, without copies.
  bool isAnywhere(uint32_t f, uint32_t index);
  void joinBranches(uint32_t f);
  void noteReasons(uint32_t f);
  std::string nameOf(uint32_t f, uint32_t index);
  uint32_t bytesOf(uint32_t f, uint32_t index);
  std::string reader(uint32_t f, uint32_t index, Memory memory);
  std::string nameOf(Memory memory);
  uint32_t &versionIn(uint32_t f, uint32_t index, Memory memory) {
    return versions_[f][size_t(index) * memories_ + memory];
  }
  uint32_t version(uint32_t f, uint32_t index, Memory memory);
  uint32_t addVersion(uint32_t f, uint32_t index, Memory memory);
  void giveMemory(uint32_t f, uint32_t index);
  std::vector<bool> knownAtEntry(uint32_t f);
  bool isView(uint32_t f, uint32_t index) const { return views_.contains({f, index}); }
  void addVersions(uint32_t f);
  void rewrite(uint32_t f);
  void rewriteResults(uint32_t f);
  void rewriteOperands(uint32_t f, plan::InstructionT &instruction);
  void addViews(uint32_t f, const plan::InstructionT &view, Code &code);
  void addCopies(uint32_t f, const std::vector<uint32_t> &made, Code &code);
  void keepOverwrites(uint32_t f);
  void releaseValues(uint32_t f);

  ModuleTables &tables_;
  plan::ModuleT &module_;
  const Memory memories_; // how many
  std::vector<Caller> callers_;
  std::vector<std::map<uint32_t, Memory>> kernels_; // their devices, by their results
  std::vector<std::vector<Memory>> homes_;
  std::vector<std::vector<Needs>> needs_;
  std::vector<std::vector<uint32_t>> versions_; // of each value in each memory; kAbsent: none
  std::vector<Extras> extra_; // parameters by number that are handed over in other memories too
  std::set<std::pair<uint32_t, uint32_t>> views_;
  std::map<std::tuple<uint32_t, uint32_t, Memory>, uint32_t> reasons_; // of copies, as locations
  std::map<std::string, uint32_t> locations_;
  std::vector<size_t> buffers_;          // of the values of the function that is being rewritten
  std::vector<std::vector<bool>> entry_; // expressions that are known when a function begins
};

bool isNumber(DataType type) {
  return type == DataType::Bool || type == DataType::I64 || type == DataType::F32 ||
         type == DataType::F64;
}

Memory Placer::ofProcedures(const plan::ValueT &value) {
  if (value.kind == plan::ValueKind::Object)
    return kFirstDevice;
  bool number = value.ranked && value.dims.empty() && isNumber(DataType(value.type));
  bool device =
      value.kind == plan::ValueKind::Tensor && DataType(value.type) != DataType::String && !number;
  return device ? kFirstDevice : kHost;
}

/// Operators that read no element of their first operand: a shape, or the operand by another shape.
bool Placer::keepsElements(const plan::InstructionT &instruction) const {
  if (instruction.opcode != plan::Opcode::Routine)
    return false;
  const std::string &name = module_.routines[instruction.target]->operator_;
  return name == "reshape" || name == "dynamic_reshape";
}

void Placer::findCallers() {
  for (uint32_t f = 0; f < module_.functions.size(); ++f)
    for (uint32_t i = 0; i < function(f).instructions.size(); ++i) {
      const plan::InstructionT &instruction = *function(f).instructions[i];
      for (uint32_t callee : instruction.functions)
        callers_[callee] = {f, i};
      if (instruction.opcode == plan::Opcode::View)
        views_.insert({f, instruction.results[0]});
    }
}

bool Placer::isSmall(uint32_t f, uint32_t index) {
  const plan::ValueT &one = value(f, index);
  auto type = DataType(one.type);
  if (one.kind != plan::ValueKind::Tensor || !one.ranked ||
      !(isInteger(type) || type == DataType::Bool))
    return false;
  int64_t elements = 1;
  for (uint32_t dim : one.dims) {
    const plan::Expr &expr = function(f).exprs[dim];
    if (expr.kind() != plan::ExprKind::Constant || expr.a() > kFewElements)
      return false;
    elements *= std::max<int64_t>(expr.a(), 1);
    if (elements > kFewElements)
      return false;
  }
  return true;
}

Memory Placer::memoryOfKernel(uint32_t f, const plan::InstructionT &instruction) {
  Memory device = kernels_[f].at(instruction.results[0]);
  for (const auto *list : {&instruction.operands, &instruction.results})
    for (uint32_t index : *list)
      if (index != kAbsent && !isSmall(f, index))
        return device;
  bool isOnDevice = std::ranges::any_of(instruction.operands, [&](uint32_t index) {
    return index != kAbsent && !isConstant(f, index) && homes_[f][index] != kHost;
  });
  return isOnDevice ? device : kHost;
}

/// Where sizes that nobody knows are as large as memory's planning takes them for.
double Placer::cyclesOf(uint32_t f, const plan::InstructionT &instruction) {
  auto estimate = [&](uint32_t expression) {
    return expression == kAbsent ? 0 : double(tables_.arenas[f]->expressions.estimate(expression));
  };
  const auto &cycles = tables_.input.cycles;
  return cycles ? cycles(estimate(instruction.flops), estimate(instruction.bytes),
                         tables_.multiplies[instruction.target])
                : 1;
}

/// In the order in which they run for the first time.
void Placer::collectKernels(uint32_t f, std::vector<Kernel> &kernels) {
  for (const auto &instruction : function(f).instructions) {
    if (instruction->opcode == plan::Opcode::Kernel)
      kernels.push_back({f, instruction.get(), cyclesOf(f, *instruction)});
    for (uint32_t callee : instruction->functions)
      collectKernels(callee, kernels);
  }
}

void Placer::assignKernels() {
  std::vector<Kernel> kernels;
  for (uint32_t f = 0; f < module_.functions.size(); ++f)
    if (!isCalled(f))
      collectKernels(f, kernels);
  double all = 0, done = 0;
  for (const Kernel &kernel : kernels)
    all += kernel.cycles;
  auto devices = uint32_t(memories_ - 1);
  for (uint32_t i = 0; i < kernels.size(); ++i) {
    double middle = done + kernels[i].cycles / 2;
    done += kernels[i].cycles;
    uint32_t device = tables_.input.deviceOf
                          ? tables_.input.deviceOf(i, devices)
                          : std::min(1 + uint32_t(middle / all * devices), devices);
    assert(device >= 1 && device <= devices);
    for (uint32_t result : kernels[i].instruction->results)
      kernels_[kernels[i].function][result] = Memory(device);
  }
}

/// Notes that a value is at home there; whether that is news.
bool Placer::move(uint32_t f, uint32_t index, Memory memory) {
  if (memory == kHost || homes_[f][index] != kHost || isConstant(f, index))
    return false;
  homes_[f][index] = memory;
  return true;
}

Memory Placer::paramHome(uint32_t f, uint32_t number) {
  const plan::ValueT &param = value(f, function(f).params[number]);
  if (isMain(f))
    return ofCaller(param);
  if (!isCalled(f))
    return ofProcedures(param);
  const plan::InstructionT &call =
      *function(callers_[f].function).instructions[callers_[f].instruction];
  bool loop = call.opcode == plan::Opcode::Loop;
  if (loop && number < 2)
    return kHost;
  uint32_t outer = callers_[f].function;
  if (loop && number < 2 + call.carried)
    return homes_[outer][call.results[number - 2]];
  uint32_t operand = call.operands[loop ? number : number + 1];
  return operand == kAbsent || isConstant(outer, operand) ? kHost : homes_[outer][operand];
}

bool Placer::updateResults(uint32_t f, const plan::InstructionT &instruction) {
  bool news = false;
  switch (instruction.opcode) {
  case plan::Opcode::Kernel:
    for (uint32_t result : instruction.results)
      news |= move(f, result, memoryOfKernel(f, instruction));
    return news;
  case plan::Opcode::View:
    return !isConstant(f, instruction.operands[0]) &&
           move(f, instruction.results[0], homes_[f][instruction.operands[0]]);
  case plan::Opcode::Routine:
    return keepsElements(instruction) && !isConstant(f, instruction.operands[0]) &&
           move(f, instruction.results[0], homes_[f][instruction.operands[0]]);
  case plan::Opcode::Procedure:
    for (uint32_t result : instruction.results)
      news |= move(f, result, ofProcedures(value(f, result)));
    return news;
  default:
    break;
  }
  // What functions give. A carried value that the body hands on as it is comes from outside.
  bool loop = instruction.opcode == plan::Opcode::Loop;
  for (uint32_t callee : instruction.functions)
    for (size_t i = 0; i < instruction.results.size(); ++i) {
      uint32_t given = function(callee).results[i + loop];
      bool isCarried = loop && i < instruction.carried;
      bool handsOn = isCarried && given == function(callee).params[2 + i];
      uint32_t init = isCarried ? instruction.operands[2 + i] : kAbsent;
      if (handsOn ? !isConstant(f, init) : !isConstant(callee, given))
        news |= move(f, instruction.results[i], handsOn ? homes_[f][init] : homes_[callee][given]);
    }
  return news;
}

bool Placer::updateHomes(uint32_t f) {
  bool news = false;
  for (uint32_t i = 0; i < function(f).params.size(); ++i)
    news |= move(f, function(f).params[i], paramHome(f, i));
  for (const auto &instruction : function(f).instructions)
    news |= updateResults(f, *instruction);
  return news;
}

void Placer::findHomes() {
  for (uint32_t f = 0; f < module_.functions.size(); ++f)
    homes_[f].assign(function(f).values.size(), kHost);
  for (bool news = true; news;) {
    news = false;
    for (uint32_t f = 0; f < module_.functions.size(); ++f)
      news |= updateHomes(f);
  }
}

std::optional<Memory> Placer::operandMemory(uint32_t f, const plan::InstructionT &instruction,
                                            size_t i) {
  switch (instruction.opcode) {
  case plan::Opcode::Kernel:
    return memoryOfKernel(f, instruction);
  case plan::Opcode::Routine:
    if (i == 0 && readsShapeAlone(module_, instruction))
      return std::nullopt;
    if (i == 0 && keepsElements(instruction))
      return homes_[f][instruction.results[0]];
    return kHost;
  case plan::Opcode::If:
    return kHost; // the condition; the others are the functions'
  case plan::Opcode::Loop:
    return i < 2 ? kHost : homes_[f][instruction.results[i - 2]];
  case plan::Opcode::Procedure:
    return ofProcedures(value(f, instruction.operands[i]));
  default:
    return std::nullopt;
  }
}

/// Of a view those of what it gives, since it can be made in either memory.
Needs Placer::operandNeeds(uint32_t f, const plan::InstructionT &instruction, size_t i) {
  bool loop = instruction.opcode == plan::Opcode::Loop,
       branch = instruction.opcode == plan::Opcode::If;
  bool captured = loop ? i >= 2 + instruction.carried : branch && i >= 1;
  if (captured) {
    Needs needs = 0;
    for (uint32_t callee : instruction.functions)
      needs |= needs_[callee][function(callee).params[loop ? i : i - 1]];
    return needs;
  }
  if (instruction.opcode == plan::Opcode::View) {
    Needs needs = needs_[f][instruction.results[0]];
    return needs ? needs : in(homes_[f][instruction.results[0]]);
  }
  auto memory = operandMemory(f, instruction, i);
  return memory ? in(*memory) : Needs(0);
}

Memory Placer::resultMemory(uint32_t f, size_t number) {
  if (isMain(f))
    return ofCaller(value(f, function(f).results[number]));
  if (!isCalled(f))
    return ofProcedures(value(f, function(f).results[number]));
  uint32_t outer = callers_[f].function;
  const plan::InstructionT &call = *function(outer).instructions[callers_[f].instruction];
  bool loop = call.opcode == plan::Opcode::Loop;
  if (loop && number == 0)
    return kHost; // the condition
  return homes_[outer][call.results[number - loop]];
}

/// Functions come before those that they call, so that the latter's needs are known by now; and
/// what a view is read as, before what it looks at.
void Placer::collectNeeds(uint32_t f) {
  std::vector<Needs> &needs = needs_[f];
  needs.assign(function(f).values.size(), 0);
  for (size_t i = 0; i < function(f).results.size(); ++i)
    needs[function(f).results[i]] |= in(resultMemory(f, i));
  const auto &code = function(f).instructions;
  for (auto it = code.rbegin(); it != code.rend(); ++it)
    for (size_t i = 0; i < (*it)->operands.size(); ++i)
      if (uint32_t operand = (*it)->operands[i]; operand != kAbsent)
        needs[operand] |= operandNeeds(f, **it, i);
}

/// The value as it is in that memory.
uint32_t Placer::version(uint32_t f, uint32_t index, Memory memory) {
  uint32_t version = versionIn(f, index, memory);
  assert(version != kAbsent && "a value is read where it is not needed");
  return version;
}

/// The operands that control flow hands to its functions as they are: the first of them.
size_t firstCaptured(const plan::InstructionT &call) {
  return call.opcode == plan::Opcode::Loop ? 2 + call.carried : 1;
}

/// Of a function that control flow calls, the number of the first parameter that is captured.
size_t Placer::firstCapturedParam(uint32_t f) {
  if (!isCalled(f))
    return function(f).params.size();
  const plan::InstructionT &call =
      *function(callers_[f].function).instructions[callers_[f].instruction];
  return call.opcode == plan::Opcode::Loop ? firstCaptured(call) : 0;
}

/// Both branches are handed the same operands, and so need the same.
void Placer::joinBranches(uint32_t f) {
  for (const auto &instruction : function(f).instructions) {
    if (instruction->opcode != plan::Opcode::If)
      continue;
    for (size_t i = 1; i < instruction->operands.size(); ++i) {
      Needs needs = operandNeeds(f, *instruction, i);
      for (uint32_t callee : instruction->functions)
        needs_[callee][function(callee).params[i - 1]] = needs;
    }
  }
}

bool Placer::isAnywhere(uint32_t f, uint32_t index) {
  const std::vector<uint32_t> &params = function(f).params;
  auto captured = params.begin() + long(firstCapturedParam(f));
  return isConstant(f, index) || isView(f, index) ||
         std::find(captured, params.end(), index) != params.end();
}

/// What goes from a device to another one is the host's on the way.
void Placer::routeThroughHost(uint32_t f) {
  for (uint32_t index = 0; index < needs_[f].size(); ++index) {
    Memory home = homes_[f][index];
    bool goes = home != kHost && (needs_[f][index] & ~(in(kHost) | in(home)));
    if (goes && !isAnywhere(f, index))
      needs_[f][index] |= in(kHost);
  }
}

/// Of expressions, those over what is given and whole dimensions of parameters alone.
std::vector<bool> Placer::knownAtEntry(uint32_t f) {
  std::vector<bool> symbols(function(f).symbols.size()), known;
  std::fill_n(symbols.begin(), function(f).given_symbols, true);
  for (uint32_t param : function(f).params)
    for (uint32_t dim : value(f, param).dims)
      if (function(f).exprs[dim].kind() == plan::ExprKind::Symbol)
        symbols[size_t(function(f).exprs[dim].a())] = true;
  for (const plan::Expr &expr : function(f).exprs)
    known.push_back(expr.kind() == plan::ExprKind::Constant ||
                    (expr.kind() == plan::ExprKind::Symbol
                         ? symbols[size_t(expr.a())]
                         : known[size_t(expr.a())] && known[size_t(expr.b())]));
  return known;
}

/// Of a value that a kernel or a copy makes, and whose size is known when the function begins: a
/// place in an arena, so that runs that follow another need no memory.
void Placer::giveMemory(uint32_t f, uint32_t index) {
  plan::ValueT &given = *function(f).values[index];
  given.storage = plan::Storage::Heap;
  given.reserved = kAbsent;
  given.offset = 0;
  if (!isPlain(given) ||
      !std::ranges::all_of(given.dims, [&](uint32_t dim) { return entry_[f][dim]; }))
    return;
  given.storage = plan::Storage::Arena;
  Arena &arena = *tables_.arenas[f];
  uint32_t line = arena.expressions.constant(64), bytes = bytesOf(f, index);
  uint32_t lines = arena.expressions.binary(plan::ExprKind::CeilDiv, bytes, line);
  arena.placed.push_back({index, arena.buffers.size(), 0, false});
  arena.buffers.push_back({arena.expressions.binary(plan::ExprKind::Mul, lines, line), 0, 0});
}

uint32_t Placer::addVersion(uint32_t f, uint32_t index, Memory memory) {
  auto copy = std::make_unique<plan::ValueT>(value(f, index));
  copy->device = memory;
  function(f).values.push_back(std::move(copy));
  return versionIn(f, index, memory) = uint32_t(function(f).values.size()) - 1;
}

/// A value's first version keeps its number: where it is made, or, of what is there in all
/// memories, where it is read.
void Placer::addVersions(uint32_t f) {
  size_t count = function(f).values.size(), captured = firstCapturedParam(f);
  versions_[f].assign(count * memories_, kAbsent);
  entry_[f] = knownAtEntry(f);
  std::map<uint32_t, size_t> handed; // captured parameters and their numbers
  for (size_t i = captured; i < function(f).params.size(); ++i)
    handed.emplace(function(f).params[i], i);
  for (uint32_t index = 0; index < count; ++index) {
    Needs needs = needs_[f][index];
    Memory first = homes_[f][index];
    if (isAnywhere(f, index) && needs && !(needs & in(first)))
      first = Memory(std::countr_zero(needs));
    versionIn(f, index, first) = index;
    function(f).values[index]->device = first;
    for (Memory other = 0; other < memories_; ++other) {
      if (other == first || !(needs & in(other)))
        continue;
      uint32_t version = addVersion(f, index, other);
      if (auto it = handed.find(index); it != handed.end()) {
        extra_[f].push_back({it->second, other});
        function(f).params.push_back(version);
      } else if (!isConstant(f, index) && !isView(f, index)) {
        giveMemory(f, version);
      }
    }
  }
}

void Placer::rewriteOperands(uint32_t f, plan::InstructionT &instruction) {
  const plan::InstructionT before = instruction;
  bool loop = before.opcode == plan::Opcode::Loop, calls = !before.functions.empty();
  size_t captured = calls ? firstCaptured(before) : before.operands.size();
  for (size_t i = 0; i < before.operands.size(); ++i) {
    uint32_t operand = before.operands[i];
    if (operand == kAbsent)
      continue;
    auto memory = i < captured ? operandMemory(f, before, i) : std::nullopt;
    if (i >= captured) {
      uint32_t callee = before.functions[0];
      memory = value(callee, function(callee).params[loop ? i : i - 1]).device;
    }
    // What is read as neither is taken as it is.
    instruction.operands[i] = memory ? versionIn(f, operand, *memory) : operand;
    if (instruction.operands[i] == kAbsent)
      instruction.operands[i] = operand; // a captured value that no branch reads
  }
  for (auto [number, memory] : calls ? extra_[before.functions[0]] : Extras())
    instruction.operands.push_back(version(f, before.operands[loop ? number : number + 1], memory));
}

/// A view is made of each version that there is of its operand.
void Placer::addViews(uint32_t f, const plan::InstructionT &view, Code &code) {
  uint32_t reserved = value(f, view.results[0]).reserved; // of an arena
  for (Memory memory = 0; memory < memories_; ++memory) {
    uint32_t result = versionIn(f, view.results[0], memory);
    if (result == kAbsent)
      continue;
    uint32_t from = version(f, view.operands[0], memory);
    const plan::ValueT &source = value(f, from);
    plan::ValueT &seen = *function(f).values[result];
    bool own = source.storage == plan::Storage::Result;
    seen.storage = own ? plan::Storage::Heap : source.storage;
    seen.offset = source.offset;
    seen.reserved = source.storage == plan::Storage::Arena ? reserved : kAbsent;
    buffers_[result] = buffers_[from];
    if (seen.storage == plan::Storage::Arena)
      tables_.arenas[f]->place(result, buffers_[from]);
    code.push_back(std::make_unique<plan::InstructionT>(view));
    code.back()->operands = {from};
    code.back()->results = {result};
  }
}

/// What reads the value first in that memory, for people.
std::string Placer::reader(uint32_t f, uint32_t index, Memory memory) {
  for (const auto &instruction : function(f).instructions)
    for (size_t i = 0; i < instruction->operands.size(); ++i) {
      bool reads =
          instruction->operands[i] == index && (operandNeeds(f, *instruction, i) & in(memory));
      if (!reads)
        continue;
      if (instruction->opcode == plan::Opcode::View)
        return reader(f, instruction->results[0], memory);
      if (instruction->opcode == plan::Opcode::Kernel)
        return "kernel '" + module_.kernels[instruction->target]->label + "'";
      if (instruction->opcode == plan::Opcode::Routine)
        return "operator '" + module_.routines[instruction->target]->operator_ + "'";
      return instruction->opcode == plan::Opcode::Procedure ? "the program's functions"
             : instruction->opcode == plan::Opcode::If      ? "a branch"
                                                            : "a loop";
    }
  bool isGiven = std::ranges::find(function(f).results, index) != function(f).results.end();
  return !isGiven    ? "another device"
         : isMain(f) ? "an output"
                     : "a result of '" + function(f).name + "'";
}

/// An expression of the bytes of a tensor, or kAbsent where its rank is unknown, or it is none.
uint32_t Placer::bytesOf(uint32_t f, uint32_t index) {
  const plan::ValueT &one = value(f, index);
  if (one.kind != plan::ValueKind::Tensor || !one.ranked)
    return kAbsent;
  Expressions &expressions = tables_.arenas[f]->expressions;
  uint32_t bytes = expressions.constant(byteSize(DataType(one.type)));
  for (uint32_t dim : one.dims)
    bytes = expressions.binary(plan::ExprKind::Mul, bytes, dim);
  return bytes;
}

/// To the host first, on the way to other devices.
void Placer::addCopies(uint32_t f, const std::vector<uint32_t> &made, Code &code) {
  for (uint32_t index : made) {
    Memory home = value(f, index).device;
    for (Memory memory = 0; memory < memories_; ++memory) {
      uint32_t copy = versionIn(f, index, memory);
      if (memory == home || copy == kAbsent)
        continue;
      bool isOnWay = home != kHost && memory != kHost;
      auto instruction = std::make_unique<plan::InstructionT>();
      instruction->opcode = plan::Opcode::Copy;
      instruction->operands = {isOnWay ? version(f, index, kHost) : index};
      instruction->results = {copy};
      instruction->location = reasons_.at({f, index, memory});
      instruction->bytes = bytesOf(f, index);
      code.push_back(std::move(instruction));
    }
  }
}

std::string Placer::nameOf(Memory memory) {
  return memory == kHost ? "host" : memories_ == 2 ? "device" : module_.devices[memory - 1];
}

std::string Placer::nameOf(uint32_t f, uint32_t index) {
  for (const auto &port : module_.inputs)
    if (isMain(f) && port->value == index)
      return "input '" + port->name + "'";
  const std::string &name = value(f, index).name; // of a node it has quotes already
  return name.find_first_of("'\"") == name.npos ? "'" + name + "'" : name;
}

void Placer::noteReasons(uint32_t f) {
  for (uint32_t index = 0; index < needs_[f].size(); ++index)
    for (Memory memory = 0; memory < memories_; ++memory) {
      if (memory == homes_[f][index] || !(needs_[f][index] & in(memory)))
        continue;
      std::string text = "copy of " + nameOf(f, index) + " to " +
                         (memory == kHost || memories_ == 2 ? "the " : "") + nameOf(memory) +
                         " for " + reader(f, index, memory);
      auto [it, isNew] = locations_.try_emplace(text, uint32_t(module_.locations.size()));
      if (isNew)
        module_.locations.push_back(text);
      reasons_[{f, index, memory}] = it->second;
    }
}

/// Values that may have memory of their own are let go of after the last instruction that has to do
/// with them.
void Placer::releaseValues(uint32_t f) {
  std::map<uint32_t, plan::InstructionT *> last;
  for (auto &instruction : function(f).instructions) {
    instruction->releases.clear();
    for (const auto *list : {&instruction->operands, &instruction->results})
      for (uint32_t index : *list)
        if (index != kAbsent &&
            (value(f, index).storage == plan::Storage::Heap || value(f, index).reserved != kAbsent))
          last[index] = instruction.get();
  }
  for (uint32_t result : function(f).results)
    last.erase(result);
  for (auto [index, instruction] : last)
    instruction->releases.push_back(index);
}

void Placer::rewriteResults(uint32_t f) {
  std::vector<uint32_t> &results = function(f).results;
  for (size_t i = 0; i < results.size(); ++i) {
    uint32_t made = results[i], given = version(f, made, resultMemory(f, i));
    if (given != made && value(f, made).storage == plan::Storage::Result) {
      if (kernels_[f].contains(made))
        giveMemory(f, made);
      else
        function(f).values[made]->storage = plan::Storage::Heap;
      function(f).values[given]->storage = plan::Storage::Result;
    }
    results[i] = given;
  }
}

/// A result takes a parameter's place only where both are in one memory and nothing lies between.
void Placer::keepOverwrites(uint32_t f) {
  std::vector<uint32_t> kept, &pairs = function(f).overwrites;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const plan::ValueT &param = value(f, function(f).params[pairs[i]]);
    const plan::ValueT &result = value(f, pairs[i + 1]);
    bool read = needsSeveral(needs_[f][function(f).params[pairs[i]]]);
    if (param.device == result.device && !read && result.storage == plan::Storage::Result)
      kept.insert(kept.end(), {pairs[i], pairs[i + 1]});
  }
  pairs = std::move(kept);
}

void Placer::rewrite(uint32_t f) {
  size_t own = std::min(firstCapturedParam(f), function(f).params.size() - extra_[f].size());
  std::vector<uint32_t> params(function(f).params.begin(), function(f).params.begin() + long(own));
  rewriteResults(f);
  buffers_ = tables_.arenas[f]->buffersOfValues(function(f));
  Code code;
  addCopies(f, params, code);
  for (auto &instruction : function(f).instructions) {
    if (instruction->opcode == plan::Opcode::View) {
      addViews(f, *instruction, code);
      continue;
    }
    rewriteOperands(f, *instruction);
    code.push_back(std::move(instruction));
    addCopies(f, std::vector<uint32_t>(code.back()->results), code);
  }
  function(f).instructions = std::move(code);
  keepOverwrites(f);
  releaseValues(f);
}

void Placer::place() {
  findCallers();
  assignKernels();
  findHomes();
  for (auto f = uint32_t(module_.functions.size()); f-- > 0;)
    collectNeeds(f);
  for (uint32_t f = 0; f < module_.functions.size(); ++f) {
    joinBranches(f);
    routeThroughHost(f);
    noteReasons(f);
  }
  for (uint32_t f = 0; f < module_.functions.size(); ++f)
    addVersions(f);
  // Functions ask how those that call them were before.
  for (auto f = uint32_t(module_.functions.size()); f-- > 0;)
    rewrite(f);
}

} // namespace

bool isPlain(const plan::ValueT &value) {
  return value.kind == plan::ValueKind::Tensor && value.ranked &&
         DataType(value.type) != DataType::Undefined && DataType(value.type) != DataType::String;
}

bool readsShapeAlone(const plan::ModuleT &module, const plan::InstructionT &instruction) {
  if (instruction.opcode != plan::Opcode::Routine)
    return false;
  const std::string &name = module.routines[instruction.target]->operator_;
  return name == "shape" || name == "size";
}

void placeOnDevices(ModuleTables &tables) {
  plan::ModuleT &module = tables.module;
  module.devices = tables.input.devices;
  module.resident = tables.input.resident;
  Placer(tables).place();
  const plan::FunctionT &main = *module.functions[0];
  for (size_t i = 0; i < module.outputs.size(); ++i)
    module.outputs[i]->value = main.results[i];
  for (auto &state : module.states)
    state->in_place = false; // the caller's tensor is not what kernels read
  for (auto &function : module.functions)
    function->batched = 0; // rows are put together by the host
}

} // namespace tensmith::vm

// Verification of a plan, from the FlatBuffer's structure up to the order of definitions.
//
// Functions are straight lines, so one walk over the instructions with the state of each value
// (undefined, defined, released) and the time at which each expression is known decides everything
// that the interpreter relies on. The first fault found is reported with the function and
// instruction.
#include "runtime/Verify.h"

#include "base/HostTensor.h"
#include "runtime/ListBytes.h"
#include "runtime/ModuleFormat.h"
#include "runtime/Program.h"
#include "runtime/States.h"
#include "runtime/VerifyProcedures.h"

#include <algorithm>
#include <map>

namespace tensmith::runtime {
namespace {

constexpr size_t kMaxRank = 64;
constexpr uint64_t kConstantAlignment = 64;

enum class State : uint8_t { Undefined, Defined, Released };

template <typename T> uint32_t sizeOf(const flatbuffers::Vector<T> *vector) {
  return vector ? vector->size() : 0;
}

Status fault(const std::string &what) {
  return {StatusCode::InvalidModule, "the module's plan is not valid: " + what};
}

bool isPlain(const plan::Value &value) {
  return value.kind() == plan::ValueKind::Tensor && value.ranked() && value.type() != 0 &&
         DataType(value.type()) != DataType::String;
}

/// A check of one function. Each method returns a text that says what is wrong, or an empty one.
class FunctionVerifier {
public:
  FunctionVerifier(const plan::Module &module, const plan::Function &function, uint64_t weights)
      : module_(module), function_(function), weights_(weights) {}

  std::string verify();

private:
  std::string verifyExprs();
  std::string verifyBuffers();
  std::string verifyValues();
  std::string verifyValue(const plan::Value &value);
  std::string verifyConstant(const plan::Value &value);
  std::string verifyArena(const plan::Value &value);
  std::string verifyParams();
  std::string verifyOverwrites();
  std::string verifyInstruction(const plan::Instruction &instruction, int32_t index);
  std::string verifyOperands(const plan::Instruction &instruction);
  std::string verifyResults(const plan::Instruction &instruction, int32_t index);
  std::string verifyOpcode(const plan::Instruction &instruction, int32_t index);
  std::string verifyKernel(const plan::Instruction &instruction);
  std::string verifyCall(const plan::Instruction &instruction);
  std::string verifyView(const plan::Instruction &instruction);
  std::string verifyJoin(const plan::Instruction &instruction);
  std::string verifyCheck(const plan::Instruction &instruction);
  std::string verifyCopy(const plan::Instruction &instruction);
  std::string verifyDevice(const plan::Instruction &instruction, uint32_t index);
  std::string verifyProcedureCall(const plan::Instruction &instruction);
  std::string release(const plan::Instruction &instruction);

  bool isMain() const { return &function_ == module_.functions()->Get(0); }
  uint8_t memoryOfCaller(const plan::Value &value) const {
    return module_.resident() && isPlain(value) ? 1 : 0;
  }
  std::string callersMemory(const plan::Value &value) const {
    return memoryOfCaller(value) ? "the first device's" : "the host's";
  }
  uint32_t exprCount() const { return sizeOf(function_.exprs()); }
  uint32_t valueCount() const { return sizeOf(function_.values()); }
  const plan::Value &value(uint32_t index) const { return *function_.values()->Get(index); }

  bool isKnownAtEntry(uint64_t expr) const {
    return expr < exprCount() && times_.exprs[expr] == kAtEntry;
  }
  bool dimsKnownBefore(const plan::Value &value, int64_t time) const {
    for (uint32_t i = 0; i < sizeOf(value.dims()); ++i)
      if (times_.exprs[value.dims()->Get(i)] >= time)
        return false;
    return true;
  }

  const plan::Module &module_;
  const plan::Function &function_;
  uint64_t weights_;
  KnownTimes times_;
  std::vector<State> states_;
};

/// A tensor of plain elements with known rank: what a kernel or a fixed address can hold.
std::string FunctionVerifier::verifyExprs() {
  for (uint32_t i = 0; i < exprCount(); ++i) {
    const plan::Expr *expr = function_.exprs()->Get(i);
    if (expr->kind() > plan::ExprKind::MAX)
      return "expression " + std::to_string(i) + " has an unknown kind";
    if (expr->kind() == plan::ExprKind::Constant)
      continue;
    bool symbol = expr->kind() == plan::ExprKind::Symbol;
    int64_t limit = symbol ? sizeOf(function_.symbols()) : i;
    if (expr->a() < 0 || expr->a() >= limit || (!symbol && (expr->b() < 0 || expr->b() >= limit)))
      return "expression " + std::to_string(i) + " refers to what does not come before it";
  }
  return {};
}

/// Symbols of places are nobody else's, and no buffer's size depends on one.
std::string FunctionVerifier::verifyBuffers() {
  uint32_t count = sizeOf(function_.buffers()), first = function_.first_place();
  if (count == 0)
    return {};
  if (first < function_.given_symbols() || uint64_t(first) + count >= sizeOf(function_.symbols()))
    return "the places of its buffers are no symbols of its own";
  std::vector<bool> isPlace(exprCount());
  for (uint32_t i = 0; i < exprCount(); ++i) {
    const plan::Expr &expr = *function_.exprs()->Get(i);
    if (expr.kind() == plan::ExprKind::Symbol)
      isPlace[i] = expr.a() >= first && expr.a() <= int64_t(first) + count;
    else if (expr.kind() != plan::ExprKind::Constant)
      isPlace[i] = isPlace[size_t(expr.a())] || isPlace[size_t(expr.b())];
  }
  for (uint32_t i = 0; i < count; ++i)
    if (uint32_t bytes = function_.buffers()->Get(i)->bytes();
        bytes >= exprCount() || isPlace[bytes])
      return "buffer " + std::to_string(i) + " has no size that inputs tell";
  for (uint32_t i = 0; i < valueCount(); ++i)
    for (uint32_t j = 0; j < sizeOf(value(i).dims()); ++j)
      if (uint32_t dim = value(i).dims()->Get(j); dim < exprCount() && isPlace[dim])
        return "value " + std::to_string(i) + " has a place as a size";
  return {};
}

std::string FunctionVerifier::verifyConstant(const plan::Value &value) {
  std::vector<int64_t> exprs, shape;
  for (uint32_t i = 0; i < sizeOf(value.dims()); ++i) {
    const plan::Expr *expr = function_.exprs()->Get(value.dims()->Get(i));
    if (expr->kind() != plan::ExprKind::Constant)
      return "a constant has a symbolic dimension";
    shape.push_back(expr->a());
  }
  auto count = elementCount(shape);
  if (!count || value.offset() % kConstantAlignment || value.offset() > weights_ ||
      uint64_t(*count) > (weights_ - value.offset()) / uint64_t(byteSize(DataType(value.type()))))
    return "a constant lies outside the weights";
  return {};
}

std::string FunctionVerifier::verifyArena(const plan::Value &value) {
  bool hasArena = value.device() ? value.device() <= sizeOf(function_.device_arenas())
                                 : isKnownAtEntry(function_.arena_bytes());
  bool placed = isKnownAtEntry(value.offset()) && hasArena &&
                (dimsKnownBefore(value, 0) || isKnownAtEntry(value.reserved()));
  return placed ? ""
                : "it is in an arena, but its size or place is not known when the function begins";
}

std::string FunctionVerifier::verifyValue(const plan::Value &value) {
  if (value.kind() > plan::ValueKind::MAX || value.storage() > plan::Storage::MAX ||
      value.type() >= kDataTypeCount)
    return "its kind, storage or type is unknown";
  if (value.device() > sizeOf(module_.devices()))
    return "it is a device's that the module is not for";
  // What a value of a data type is made of is the first device's.
  if (value.device() > 1 && value.kind() != plan::ValueKind::Tensor)
    return "it is no tensor, and not the first device's";
  if (sizeOf(value.dims()) > (value.ranked() ? kMaxRank : 0))
    return "it has too many dimensions";
  for (uint32_t i = 0; i < sizeOf(value.dims()); ++i)
    if (value.dims()->Get(i) >= exprCount())
      return "its dimension " + std::to_string(i) + " is no expression";
  if (value.pitch() && (value.storage() != plan::Storage::Arena || value.device() ||
                        value.reserved() != kAbsent || sizeOf(value.dims()) == 0))
    return "its rows lie apart, which only rows of known size in the host's arena can";
  bool fixed =
      value.storage() == plan::Storage::Arena || value.storage() == plan::Storage::Constant;
  return fixed && !isPlain(value) ? "its storage can't hold its type" : "";
}

std::string FunctionVerifier::verifyValues() {
  for (uint32_t i = 0; i < valueCount(); ++i)
    if (std::string what = verifyValue(value(i)); !what.empty())
      return "value " + std::to_string(i) + ": " + what;
  for (uint32_t param = 0; param < sizeOf(function_.params()); ++param)
    if (function_.params()->Get(param) >= valueCount())
      return "parameter " + std::to_string(param) + " is no value";
  for (uint32_t i = 0; i < sizeOf(function_.instructions()); ++i)
    for (uint32_t j = 0; j < sizeOf(function_.instructions()->Get(i)->results()); ++j)
      if (function_.instructions()->Get(i)->results()->Get(j) >= valueCount())
        return "instruction " + std::to_string(i) + ": result " + std::to_string(j) +
               " is no value";

  times_ = knownTimes(function_);
  const auto *arenas = function_.device_arenas();
  if (sizeOf(arenas) > sizeOf(module_.devices()))
    return "it has arenas on more devices than there are";
  for (uint32_t i = 0; i < sizeOf(arenas); ++i)
    if (!isKnownAtEntry(arenas->Get(i)))
      return "the size of the arena on device " + std::to_string(i + 1) +
             " is not known when the function begins";
  for (uint32_t i = 0; i < valueCount(); ++i) {
    const plan::Value &one = value(i);
    std::string what = one.storage() == plan::Storage::Constant ? verifyConstant(one)
                       : one.storage() == plan::Storage::Arena  ? verifyArena(one)
                                                                : std::string();
    if (!what.empty())
      return "value " + std::to_string(i) + ": " + what;
  }
  return {};
}

std::string FunctionVerifier::verifyParams() {
  states_.assign(valueCount(), State::Undefined);
  for (uint32_t i = 0; i < valueCount(); ++i)
    if (value(i).storage() == plan::Storage::Constant)
      states_[i] = State::Defined;
  for (uint32_t i = 0; i < sizeOf(function_.params()); ++i) {
    uint32_t param = function_.params()->Get(i);
    if (value(param).storage() != plan::Storage::Parameter || states_[param] != State::Undefined)
      return "parameter " + std::to_string(i) + " is stored elsewhere, or given twice";
    if (isMain() && value(param).device() != memoryOfCaller(value(param)))
      return "input " + std::to_string(i) + " is not " + callersMemory(value(param));
    if (!dimsKnownBefore(value(param), 0))
      return "parameter " + std::to_string(i) + " has a size that is not known when it is given";
    states_[param] = State::Defined;
  }
  return {};
}

/// Shapes are compared when it runs.
std::string FunctionVerifier::verifyOverwrites() {
  const auto *pairs = function_.overwrites();
  for (uint32_t i = 0; i < sizeOf(pairs); i += 2) {
    if (i + 1 == sizeOf(pairs) || pairs->Get(i) >= sizeOf(function_.params()) ||
        pairs->Get(i + 1) >= valueCount())
      return "it writes over what is no parameter, or what is no value";
    const plan::Value &param = value(function_.params()->Get(pairs->Get(i)));
    const plan::Value &result = value(pairs->Get(i + 1));
    if (!isPlain(param) || !isPlain(result) || param.type() != result.type() ||
        result.storage() != plan::Storage::Result || !dimsKnownBefore(result, 0) ||
        param.device() != result.device())
      return "a result can't be written over the parameter";
  }
  return {};
}

std::string FunctionVerifier::verifyOperands(const plan::Instruction &instruction) {
  for (uint32_t i = 0; i < sizeOf(instruction.operands()); ++i) {
    uint32_t operand = instruction.operands()->Get(i);
    bool optional = instruction.opcode() == plan::Opcode::Routine ||
                    instruction.opcode() == plan::Opcode::Kernel ||
                    (instruction.opcode() == plan::Opcode::Loop && i < 2);
    if (operand == kAbsent && optional)
      continue;
    if (operand >= valueCount() || states_[operand] != State::Defined)
      return "operand " + std::to_string(i) + " is not defined there";
    bool readsParts =
        instruction.opcode() == plan::Opcode::View || instruction.opcode() == plan::Opcode::Join;
    if (value(operand).pitch() && !readsParts)
      return "operand " + std::to_string(i) + " has rows that lie apart";
  }
  return {};
}

std::string FunctionVerifier::verifyResults(const plan::Instruction &instruction, int32_t index) {
  bool isView = instruction.opcode() == plan::Opcode::View;
  for (uint32_t i = 0; i < sizeOf(instruction.results()); ++i) {
    uint32_t result = instruction.results()->Get(i);
    plan::Storage storage = value(result).storage();
    bool shared = storage == plan::Storage::Constant || storage == plan::Storage::Parameter;
    if (shared && !isView)
      return "result " + std::to_string(i) + " is stored where it can't be written";
    if (value(result).pitch() && !isView && instruction.opcode() != plan::Opcode::Kernel)
      return "result " + std::to_string(i) + " has rows that lie apart, and is no kernel's";
    if (states_[result] != State::Undefined && storage != plan::Storage::Constant)
      return "result " + std::to_string(i) + " is defined twice";
    int64_t time = int64_t(index) + bindsSymbols(instruction.opcode());
    if (!dimsKnownBefore(value(result), time))
      return "result " + std::to_string(i) + " has a size that is not known there";
    states_[result] = State::Defined;
  }
  return {};
}

std::string FunctionVerifier::verifyKernel(const plan::Instruction &instruction) {
  if (instruction.target() >= sizeOf(module_.kernels()))
    return "there is no such kernel";
  for (const auto *list : {instruction.operands(), instruction.results()})
    for (uint32_t i = 0; i < sizeOf(list); ++i)
      if (list->Get(i) != kAbsent && !isPlain(value(list->Get(i))))
        return "a kernel can't take or give value " + std::to_string(list->Get(i));
  return {};
}

std::string FunctionVerifier::verifyCall(const plan::Instruction &instruction) {
  bool loop = instruction.opcode() == plan::Opcode::Loop;
  uint32_t operands = sizeOf(instruction.operands()), results = sizeOf(instruction.results());
  uint32_t fixed = loop ? 2 : 1;
  if (operands < fixed || sizeOf(instruction.functions()) != (loop ? 1u : 2u))
    return "it lacks operands or functions";
  if (loop && (instruction.carried() > operands - fixed || instruction.carried() > results))
    return "it carries more than it is given";
  uint32_t params = loop ? operands : operands - 1;
  uint32_t returned = loop ? results + 1 : results;
  for (uint32_t i = 0; i < sizeOf(instruction.functions()); ++i) {
    uint32_t index = instruction.functions()->Get(i);
    if (index >= module_.functions()->size())
      return "there is no such function";
    const plan::Function *callee = module_.functions()->Get(index);
    if (sizeOf(callee->params()) != params || sizeOf(callee->results()) != returned ||
        callee->given_symbols() != sizeOf(instruction.sizes()))
      return "function " + std::to_string(index) + " takes or gives another number of values";
  }
  return {};
}

std::string FunctionVerifier::verifyView(const plan::Instruction &instruction) {
  if (sizeOf(instruction.operands()) != 1 || sizeOf(instruction.results()) != 1)
    return "a view has one operand and one result";
  const plan::Value &operand = value(instruction.operands()->Get(0));
  const plan::Value &result = value(instruction.results()->Get(0));
  bool tensors = operand.kind() == plan::ValueKind::Tensor &&
                 result.kind() == plan::ValueKind::Tensor && result.ranked();
  if (!tensors || operand.type() != result.type() || result.type() == 0)
    return "a view's operand and result differ in type";
  if (operand.pitch() != result.pitch())
    return "a view's rows lie apart by more or less than its operand's";
  // A constant keeps its address from the first run to the last.
  bool changes =
      result.storage() == plan::Storage::Constant && operand.storage() != plan::Storage::Constant;
  return changes ? "a view makes a constant of what is none" : "";
}

/// Nothing is done by it: all addresses are known beforehand.
std::string FunctionVerifier::verifyJoin(const plan::Instruction &instruction) {
  if (sizeOf(instruction.operands()) == 0 || sizeOf(instruction.results()) != 1)
    return "a join has operands and one result";
  auto isPlaced = [&](uint32_t index) {
    const plan::Value &one = value(index);
    return one.storage() == plan::Storage::Arena && one.reserved() == kAbsent;
  };
  uint32_t result = instruction.results()->Get(0);
  bool isGood = isPlaced(result) && value(result).pitch() == 0;
  for (uint32_t operand : *instruction.operands())
    isGood &= isPlaced(operand) && value(operand).type() == value(result).type();
  return isGood ? "" : "a join's operands and result are no parts of one value in the arena";
}

/// Its sizes were looked at.
std::string FunctionVerifier::verifyCheck(const plan::Instruction &instruction) {
  uint32_t sizes = sizeOf(instruction.sizes());
  bool isPlain = sizeOf(instruction.operands()) == 0 && sizeOf(instruction.results()) == 0 &&
                 sizeOf(instruction.releases()) == 0;
  if (!isPlain || sizes < 2 || sizes > 3)
    return "a check has two sizes, or three, and no values";
  if (instruction.target() > uint32_t(plan::Relation::MAX))
    return "a check's relation is unknown";
  return instruction.message() < sizeOf(module_.messages()) ? "" : "a check has no message";
}

/// From the host's memory to another one or back, into memory of its own.
std::string FunctionVerifier::verifyCopy(const plan::Instruction &instruction) {
  if (sizeOf(instruction.operands()) != 1 || sizeOf(instruction.results()) != 1)
    return "a copy has one operand and one result";
  const plan::Value &from = value(instruction.operands()->Get(0));
  const plan::Value &to = value(instruction.results()->Get(0));
  bool alike = from.kind() == to.kind() && from.type() == to.type() &&
               from.ranked() == to.ranked() && sizeOf(from.dims()) == sizeOf(to.dims()) &&
               from.device() != to.device() && (from.device() == 0 || to.device() == 0);
  for (uint32_t i = 0; alike && i < sizeOf(from.dims()); ++i)
    alike = from.dims()->Get(i) == to.dims()->Get(i);
  bool own = to.storage() == plan::Storage::Heap || to.storage() == plan::Storage::Result ||
             to.storage() == plan::Storage::Arena;
  return alike && own ? "" : "a copy's operand and result are not the same in two memories";
}

/// Main alone calls procedures: what they invoke never comes back to one, and so the host's stack
/// stays bounded.
std::string FunctionVerifier::verifyProcedureCall(const plan::Instruction &instruction) {
  if (&function_ != module_.functions()->Get(0))
    return "a function that is not the main one calls a procedure";
  if (instruction.target() >= sizeOf(module_.procedures()))
    return "there is no such procedure";
  return module_.procedures()->Get(instruction.target())->params() == sizeOf(instruction.operands())
             ? ""
             : "the procedure takes another number of values";
}

std::string FunctionVerifier::verifyOpcode(const plan::Instruction &instruction, int32_t index) {
  for (uint32_t i = 0; i < sizeOf(instruction.sizes()); ++i) {
    uint32_t size = instruction.sizes()->Get(i);
    if (size >= exprCount() || times_.exprs[size] >= index)
      return "size " + std::to_string(i) + " is not known there";
  }
  for (uint32_t work : {instruction.flops(), instruction.bytes()})
    if (work != kAbsent && (work >= exprCount() || times_.exprs[work] >= index))
      return "its work is no expression that is known there";
  switch (instruction.opcode()) {
  case plan::Opcode::Kernel:
    return verifyKernel(instruction);
  case plan::Opcode::Routine:
    return instruction.target() < sizeOf(module_.routines()) ? "" : "there is no such routine";
  case plan::Opcode::If:
  case plan::Opcode::Loop:
    return verifyCall(instruction);
  case plan::Opcode::View:
    return verifyView(instruction);
  case plan::Opcode::Procedure:
    return verifyProcedureCall(instruction);
  case plan::Opcode::Copy:
    return verifyCopy(instruction);
  case plan::Opcode::Join:
    return verifyJoin(instruction);
  case plan::Opcode::Check:
    return verifyCheck(instruction);
  }
  return "its opcode is unknown";
}

/// That each instruction finds its operands where it reads them, and what is on streams. (What a
/// function is handed, it looks at itself; a shape can be read anywhere.)
std::string FunctionVerifier::verifyDevice(const plan::Instruction &instruction, uint32_t index) {
  std::optional<uint8_t> memory;
  bool isOne = true;
  for (const auto *list : {instruction.operands(), instruction.results()})
    for (uint32_t i = 0; i < sizeOf(list); ++i)
      if (list->Get(i) != kAbsent) {
        memory = memory ? memory : value(list->Get(i)).device();
        isOne &= value(list->Get(i)).device() == *memory;
      }
  bool isKernel = instruction.opcode() == plan::Opcode::Kernel;
  bool isSeen =
      instruction.opcode() == plan::Opcode::View || instruction.opcode() == plan::Opcode::Join;
  if ((isKernel || isSeen) && !isOne)
    return "its operands and results are in different memories";
  bool hasStream = instruction.stream() != kAbsent;
  bool isCopy = instruction.opcode() == plan::Opcode::Copy &&
                isPlain(value(instruction.operands()->Get(0))) &&
                isPlain(value(instruction.results()->Get(0)));
  bool isOfDevice = isKernel && memory.value_or(0) != 0;
  if ((isOfDevice || isCopy) && !hasStream)
    return "a device does it, and it is on no stream";
  if (hasStream && sizeOf(instruction.results()) == 0)
    return "it is on a stream, and has no result";
  if (hasStream && !isOfDevice && !isCopy)
    return "it is on a stream, and the host does it";
  for (uint32_t i = 0; i < sizeOf(instruction.waits()); ++i)
    if (uint32_t earlier = instruction.waits()->Get(i);
        earlier >= index || function_.instructions()->Get(earlier)->stream() == kAbsent)
      return "it waits for what is on no stream before it";
  return "";
}

std::string FunctionVerifier::release(const plan::Instruction &instruction) {
  for (uint32_t i = 0; i < sizeOf(instruction.releases()); ++i) {
    uint32_t index = instruction.releases()->Get(i);
    if (index >= valueCount() || states_[index] != State::Defined ||
        (value(index).storage() != plan::Storage::Heap && value(index).reserved() == kAbsent))
      return "it releases what has no memory of its own";
    states_[index] = State::Released;
  }
  return {};
}

std::string FunctionVerifier::verifyInstruction(const plan::Instruction &instruction,
                                                int32_t index) {
  if (instruction.location() != kAbsent && instruction.location() >= sizeOf(module_.locations()))
    return "its location does not exist";
  if (std::string what = verifyOperands(instruction); !what.empty())
    return what;
  if (std::string what = verifyOpcode(instruction, index); !what.empty())
    return what;
  if (std::string what = verifyResults(instruction, index); !what.empty())
    return what;
  if (std::string what = verifyDevice(instruction, uint32_t(index)); !what.empty())
    return what;
  return release(instruction);
}

std::string FunctionVerifier::verify() {
  if (function_.given_symbols() > sizeOf(function_.symbols()))
    return "it is given more symbols than it has";
  if (function_.batched() && sizeOf(module_.devices()))
    return "it does several calls at once, which is the host's to put together";
  for (auto stage : {&FunctionVerifier::verifyExprs, &FunctionVerifier::verifyBuffers,
                     &FunctionVerifier::verifyValues, &FunctionVerifier::verifyParams,
                     &FunctionVerifier::verifyOverwrites})
    if (std::string what = (this->*stage)(); !what.empty())
      return what;
  for (uint32_t i = 0; i < sizeOf(function_.instructions()); ++i)
    if (std::string what = verifyInstruction(*function_.instructions()->Get(i), int32_t(i));
        !what.empty())
      return "instruction " + std::to_string(i) + ": " + what;
  for (uint32_t i = 0; i < sizeOf(function_.results()); ++i) {
    uint32_t result = function_.results()->Get(i);
    if (result >= valueCount() || states_[result] != State::Defined)
      return "result " + std::to_string(i) + " is not defined at its end";
    if (value(result).pitch())
      return "result " + std::to_string(i) + " has rows that lie apart";
    if (isMain() && value(result).device() != memoryOfCaller(value(result)))
      return "output " + std::to_string(i) + " is not " + callersMemory(value(result));
  }
  return {};
}

std::string
verifyAttributes(const flatbuffers::Vector<flatbuffers::Offset<plan::Attribute>> *attributes) {
  for (uint32_t i = 0; i < sizeOf(attributes); ++i) {
    const plan::Attribute *attribute = attributes->Get(i);
    if (!attribute->name() || attribute->value_type() == plan::AttributeValue::NONE ||
        attribute->value_type() > plan::AttributeValue::MAX || !attribute->value())
      return "it lacks a name or a value";
  }
  return {};
}

using Ports = flatbuffers::Vector<flatbuffers::Offset<plan::Port>>;

std::string verifyPorts(const plan::Function &main, const Ports *ports,
                        const flatbuffers::Vector<uint32_t> *values) {
  if (sizeOf(ports) != sizeOf(values))
    return "the signature and the main function differ in number";
  for (uint32_t i = 0; i < sizeOf(ports); ++i) {
    const plan::Port *port = ports->Get(i);
    if (!port->name() || port->value() != values->Get(i))
      return "port " + std::to_string(i) + " is another value than the main function's";
    const plan::Value *value = main.values()->Get(port->value());
    if (value->kind() == plan::ValueKind::Tensor && value->ranked() &&
        sizeOf(port->dims()) != sizeOf(value->dims()))
      return "port " + std::to_string(i) + " has another rank than its value";
  }
  return {};
}

std::string verifyTables(const plan::Module &module) {
  if (sizeOf(module.devices()) > UINT8_MAX)
    return "it has too many devices";
  for (uint32_t i = 0; i < sizeOf(module.kernels()); ++i) {
    const plan::Kernel *kernel = module.kernels()->Get(i);
    if (!kernel->symbol())
      return "kernel " + std::to_string(i) + " lacks a symbol";
  }
  for (uint32_t i = 0; i < sizeOf(module.routines()); ++i) {
    const plan::Routine *routine = module.routines()->Get(i);
    if (!routine->operator_())
      return "routine " + std::to_string(i) + " has no operator";
    if (std::string what = verifyAttributes(routine->attributes()); !what.empty())
      return "routine " + std::to_string(i) + ": an attribute: " + what;
  }
  if (std::string what = verifyAttributes(module.metadata()); !what.empty())
    return "the metadata: " + what;
  return {};
}

/// The depth of calls below a function, by depth-first search; nothing where it calls itself.
std::optional<int> callDepth(const plan::Module &module, uint32_t index,
                             std::map<uint32_t, int> &depths, int above) {
  if (above > kMaxCallDepth)
    return std::nullopt;
  auto [known, fresh] = depths.try_emplace(index, -1);
  if (!fresh)
    return known->second < 0 ? std::nullopt : std::optional(known->second);
  int depth = 0;
  const plan::Function *function = module.functions()->Get(index);
  for (uint32_t i = 0; i < sizeOf(function->instructions()); ++i) {
    const plan::Instruction *instruction = function->instructions()->Get(i);
    if (instruction->opcode() != plan::Opcode::If && instruction->opcode() != plan::Opcode::Loop)
      continue;
    for (uint32_t callee : *instruction->functions()) {
      if (callee == 0) // main, which may come here by way of procedures
        return std::nullopt;
      auto below = callDepth(module, callee, depths, above + 1);
      if (!below)
        return std::nullopt;
      depth = std::max(depth, *below + 1);
    }
  }
  depths[index] = depth;
  return above + depth > kMaxCallDepth ? std::nullopt : std::optional(depth);
}

Result<const plan::Module *> verifyStructure(std::span<const std::byte> bytes) {
  flatbuffers::Verifier::Options options;
  options.max_depth = 32;
  options.max_tables = 4'000'000;
  const auto *data = reinterpret_cast<const uint8_t *>(bytes.data());
  if (bytes.size() < 8 || bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return fault("it has no size that a plan can have");
  flatbuffers::Verifier verifier(data, bytes.size(), options);
  if (!plan::VerifyModuleBuffer(verifier))
    return fault("it is no FlatBuffer of the plan's schema");
  return plan::GetModule(data);
}

} // namespace

Result<const plan::Module *> verifyPlan(std::span<const std::byte> bytes, uint64_t weightsBytes) {
  auto checked = verifyStructure(bytes);
  if (!checked)
    return checked;
  const plan::Module &module = **checked;
  if (sizeOf(module.functions()) == 0)
    return fault("it has no main function");
  if (listBytes(module, bytes.size()) > bytes.size())
    return fault("its lists share their contents");
  for (uint32_t i = 0; i < module.functions()->size(); ++i) {
    const plan::Function *function = module.functions()->Get(i);
    if (std::string what = FunctionVerifier(module, *function, weightsBytes).verify();
        !what.empty())
      return fault("function " + std::to_string(i) + ": " + what);
  }
  const plan::Function *main = module.functions()->Get(0);
  if (main->given_symbols() != 0)
    return fault("the main function is given symbols");
  if (std::string what = verifyTables(module); !what.empty())
    return fault(what);
  if (std::string what = verifyPorts(*main, module.inputs(), main->params()); !what.empty())
    return fault("inputs: " + what);
  if (std::string what = verifyPorts(*main, module.outputs(), main->results()); !what.empty())
    return fault("outputs: " + what);
  if (std::string what = verifyStates(module, weightsBytes); !what.empty())
    return fault(what);
  if (std::string what = verifyProcedures(module, weightsBytes); !what.empty())
    return fault(what);
  std::map<uint32_t, int> depths;
  for (uint32_t i = 0; i < module.functions()->size(); ++i)
    if (!callDepth(module, i, depths, 0))
      return fault("its functions call one another in a circle or too deep");
  return &module;
}

} // namespace tensmith::runtime

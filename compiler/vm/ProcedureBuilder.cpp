// Operators to words; see ProcedureBuilder.h and the codes in runtime/plan.fbs.
//
// Every value has a register of its own. One that is read for the last time on a way through the
// procedure is marked, so that what it holds lives no longer: a list that is walked is freed behind
// the walk.
#include "compiler/vm/ProcedureBuilder.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/Graph.h"
#include "compiler/program/Scalars.h"
#include "runtime/ModuleFormat.h"

using namespace mlir;

namespace tensmith::vm {
namespace {

/// Whether a value may still be needed when the operand's operator has run. Regions of one operator
/// exclude one another.
bool isNeededAfter(OpOperand &operand) {
  Operation *owner = operand.getOwner();
  for (OpOperand &use : operand.get().getUses()) {
    Operation *other = use.getOwner();
    if (other == owner) {
      if (use.getOperandNumber() > operand.getOperandNumber())
        return true;
      continue;
    }
    if (owner->isProperAncestor(other))
      return true;
    for (Operation *here = owner; here; here = here->getParentOp()) {
      Operation *there = here->getBlock()->findAncestorOpInBlock(*other);
      if (there && here != there && here->isBeforeInBlock(there))
        return true;
      if (there || isa<func::FuncOp>(here->getParentOp()))
        break;
    }
  }
  return false;
}

} // namespace

Status ProcedureBuilder::build(func::FuncOp function) {
  Block &body = function.getBody().front();
  procedure_.name = function.getName().str();
  procedure_.params = body.getNumArguments();
  for (Value argument : body.getArguments())
    registerOf(argument);
  Status status = emitBlock(body, std::nullopt);
  procedure_.registers = uint32_t(registers_.size());
  return status;
}

uint32_t ProcedureBuilder::registerOf(Value value) {
  return registers_.try_emplace(value, registers_.size()).first->second;
}

void ProcedureBuilder::begin(Operation *op, plan::Code code, size_t count) {
  uint32_t location = tables_.addLocation(op->getLoc());
  auto &places = procedure_.places;
  if (places.empty() || places.back() != location) {
    places.push_back(position());
    places.push_back(location);
  }
  word(uint32_t(code) | uint32_t(count) << 8);
}

void ProcedureBuilder::read(OpOperand &operand) {
  // A constant is loaded again for each operator, or for calls that are forked together.
  bool last = !isNeededAfter(operand);
  if (operand.get().getDefiningOp<graph::ConstantOp>())
    last = !forked_ &&
           llvm::none_of(
               operand.getOwner()->getOpOperands().drop_front(operand.getOperandNumber() + 1),
               [&](OpOperand &other) { return other.get() == operand.get(); });
  word(registerOf(operand.get()) | (last ? runtime::kTake : 0));
}

Status ProcedureBuilder::constants(ArrayRef<Operation *> ops) {
  llvm::SmallDenseSet<Value> loaded;
  for (Operation *op : ops)
    for (Value operand : op->getOperands()) {
      auto constant = operand.getDefiningOp<graph::ConstantOp>();
      if (!constant || !loaded.insert(operand).second)
        continue;
      auto tensor = graph::hostTensor(constant.getValue());
      if (!tensor.ok())
        return tensor.status();
      if (tensor->type() == DataType::String)
        return unsupported(graph::describe(op->getLoc()) + ": a program can't hold texts");
      load(op, operand, *tensor);
    }
  return {};
}

void ProcedureBuilder::load(Operation *op, Value constant, const HostTensor &tensor) {
  if (!program::isScalarType(constant.getType())) {
    begin(op, plan::Code::Constant, 0);
    word(registerOf(constant));
    return word(tables_.addConstantTensor(tensor));
  }
  uint64_t bits = 0;
  std::memcpy(&bits, tensor.data(), size_t(tensor.bytes()));
  plan::ScalarType type = tensor.type() == DataType::Bool  ? plan::ScalarType::Bool
                          : tensor.type() == DataType::I64 ? plan::ScalarType::I64
                          : tensor.type() == DataType::F32 ? plan::ScalarType::F32
                                                           : plan::ScalarType::F64;
  if (type == plan::ScalarType::Bool)
    bits = bits != 0;
  begin(op, plan::Code::Immediate, 0);
  word(registerOf(constant));
  word(uint32_t(type));
  word(uint32_t(bits));
  word(uint32_t(bits >> 32));
}

bool ProcedureBuilder::emitTailCall(Operation *op) {
  if (auto call = dyn_cast<program::CallOp>(op)) {
    begin(op, plan::Code::TailCall, call.getInputs().size());
    word(tables_.procedures.at(call.getProcedure().str()));
  } else if (isa<program::ApplyOp>(op)) {
    begin(op, plan::Code::TailApply, op->getNumOperands() - 1);
  } else {
    return false;
  }
  for (OpOperand &operand : op->getOpOperands())
    read(operand);
  return true;
}

/// The operator and, where it is a call, those behind it that use no result of one another. A call
/// whose result is what `end` returns is none of them: it takes the place of its caller.
static SmallVector<Operation *> independentCalls(Operation *op, Operation *end) {
  auto isCall = [&](Operation *other) {
    bool tail = end && other->getNextNode() == end && end->getOperand(0).getDefiningOp() == other;
    return isa<program::CallOp, program::ApplyOp>(other) && !tail && isMemoryEffectFree(other);
  };
  SmallVector<Operation *> together = {op};
  if (!isCall(op))
    return together;
  for (Operation *next = op->getNextNode();
       next && isCall(next) && together.size() < runtime::kMostForked; next = next->getNextNode()) {
    if (llvm::any_of(next->getOperands(), [&](Value operand) {
          return llvm::is_contained(together, operand.getDefiningOp());
        }))
      break;
    together.push_back(next);
  }
  return together;
}

Status ProcedureBuilder::emitBlock(Block &block, std::optional<uint32_t> result) {
  Operation *end = block.getTerminator();
  OpOperand &given = end->getOpOperand(0);
  unsigned forked = 0; // operators to come of the last fork
  for (Operation &op : block.without_terminator()) {
    if (isa<graph::ConstantOp>(op))
      continue;
    if (forked == 0) {
      SmallVector<Operation *> together = independentCalls(&op, result ? nullptr : end);
      forked_ = together.size() > 1;
      if (Status status = constants(together); !status.ok())
        return status;
      if (forked_)
        begin(&op, plan::Code::Fork, together.size());
      forked = unsigned(together.size());
    }
    --forked;
    bool tail = !result && op.getNextNode() == end && given.get().getDefiningOp() == &op;
    if (tail && emitTailCall(&op))
      return {};
    if (tail && op.getNumRegions())
      return emitBranches(&op, std::nullopt);
    if (Status status = emit(&op); !status.ok())
      return status;
  }
  forked_ = false;
  if (Status status = constants(end); !status.ok())
    return status;
  if (!result) {
    begin(end, plan::Code::Return, 0);
    read(given);
  } else {
    begin(end, plan::Code::Move, 0);
    word(*result);
    read(given);
  }
  return {};
}

Status ProcedureBuilder::emitBranches(Operation *op, std::optional<uint32_t> result) {
  bool match = isa<program::MatchOp>(op);
  begin(op, match ? plan::Code::Switch : plan::Code::Branch, match ? op->getNumRegions() : 0);
  read(op->getOpOperand(0));
  size_t targets = position();
  for (size_t i = 0; i < (match ? op->getNumRegions() : 1); ++i)
    word(0);
  std::vector<size_t> jumps;
  for (auto [index, region] : llvm::enumerate(op->getRegions())) {
    if (match || index == 1)
      procedure_.code[targets + (match ? index : 0)] = position();
    if (Status status = emitBlock(region.front(), result); !status.ok())
      return status;
    if (result && index + 1 < op->getNumRegions()) {
      begin(op, plan::Code::Jump, 0);
      jumps.push_back(position());
      word(0);
    }
  }
  for (size_t jump : jumps)
    procedure_.code[jump] = position();
  return {};
}

Status ProcedureBuilder::emit(Operation *op) {
  auto readAll = [&](unsigned first) {
    for (OpOperand &operand : op->getOpOperands().drop_front(first))
      read(operand);
  };
  if (isa<program::MatchOp, program::IfOp>(op))
    return emitBranches(op, registerOf(op->getResult(0)));
  if (auto invoke = dyn_cast<program::InvokeOp>(op)) {
    begin(op, plan::Code::Invoke, op->getNumOperands());
    word(tables_.segments.at(invoke.getSegment().str()));
    word(op->getNumResults());
    for (Value result : op->getResults())
      word(registerOf(result));
    readAll(0);
    return {};
  }
  if (isa<program::WriteOp>(op)) {
    begin(op, plan::Code::Write, 0);
    readAll(0);
    return {};
  }
  uint32_t result = registerOf(op->getResult(0));
  if (isa<program::ReferenceOp, program::ReadOp>(op)) {
    begin(op, isa<program::ReadOp>(op) ? plan::Code::Read : plan::Code::Reference, 0);
    word(result);
    readAll(0);
    return {};
  }
  if (program::isScalarCode(op))
    return emitScalar(op, result);
  if (auto call = dyn_cast<program::CallOp>(op)) {
    begin(op, plan::Code::Call, op->getNumOperands());
    word(tables_.procedures.at(call.getProcedure().str()));
    word(result);
    readAll(0);
  } else if (auto closure = dyn_cast<program::ClosureOp>(op)) {
    begin(op, plan::Code::Closure, op->getNumOperands());
    word(tables_.procedures.at(closure.getProcedure().str()));
    word(result);
    readAll(0);
  } else if (isa<program::ApplyOp>(op)) {
    begin(op, plan::Code::Apply, op->getNumOperands() - 1);
    word(result);
    readAll(0);
  } else if (auto construct = dyn_cast<program::ConstructOp>(op)) {
    begin(op, plan::Code::Construct, op->getNumOperands());
    word(uint32_t(construct.getTag()));
    word(result);
    readAll(0);
  } else if (auto field = dyn_cast<program::FieldOp>(op)) {
    begin(op, plan::Code::Field, 0);
    word(result);
    readAll(0);
    word(uint32_t(field.getIndex()));
  } else {
    return unsupported(graph::describe(op->getLoc()) + ": a procedure can't hold " +
                       op->getName().getStringRef().str());
  }
  return {};
}

Status ProcedureBuilder::emitScalar(Operation *op, uint32_t result) {
  std::string name = program::scalarOperatorName(op);
  const char *const *names = plan::EnumNamesScalarOperator();
  const char *const *found = names;
  while (*found && name != *found)
    ++found;
  if (!*found)
    return unsupported(graph::describe(op->getLoc()) + ": the machine has no scalar " + name);
  // Of the last operand, since the first of `where` is a boolean.
  Type element = cast<RankedTensorType>(op->getOperands().back().getType()).getElementType();
  plan::ScalarType type = element.isInteger(1)    ? plan::ScalarType::Bool
                          : element.isInteger(64) ? plan::ScalarType::I64
                          : element.isF32()       ? plan::ScalarType::F32
                                                  : plan::ScalarType::F64;
  begin(op, plan::Code::Scalar, op->getNumOperands());
  word(uint32_t(found - names) | uint32_t(type) << 8);
  word(result);
  for (OpOperand &operand : op->getOpOperands())
    read(operand);
  return {};
}

} // namespace tensmith::vm

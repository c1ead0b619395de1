// Operators to instructions, values to storage; see FunctionBuilder.h.
#include "compiler/vm/FunctionBuilder.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/KernelStoring.h"
#include "compiler/vm/InPlace.h"
#include "compiler/vm/Signature.h"
#include "runtime/ModuleFormat.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::vm {
namespace {

/// What a region uses from outside, and the symbols that its types are over.
void collectOutside(Region &region, llvm::SetVector<Value> &captured,
                    llvm::SetVector<StringAttr> &symbols) {
  auto addSymbols = [&](Type type) {
    if (auto ranked = dyn_cast<RankedTensorType>(type))
      for (StringAttr name : graph::symbolNames(ranked))
        symbols.insert(name);
  };
  region.walk([&](Operation *op) {
    for (Value operand : op->getOperands()) {
      // A constant is as good inside; what isolated regions use is not from outside.
      if (!region.isAncestor(operand.getParentRegion()) &&
          !operand.getDefiningOp<graph::ConstantOp>() && !operand.getDefiningOp<graph::NoneOp>())
        captured.insert(operand);
      addSymbols(operand.getType());
    }
    if (auto check = dyn_cast<graph::CheckOp>(op))
      symbols.insert(check.getSizes().getSymbols().begin(), check.getSizes().getSymbols().end());
    llvm::for_each(op->getResultTypes(), addSymbols);
  });
}

} // namespace

Status FunctionBuilder::build(Block &block, ValueRange captured, ArrayRef<StringAttr> given) {
  block_ = &block;
  shapes_.emplace(block.getParentOp()->getContext());
  for (StringAttr name : given) {
    expressions_.symbol(name);
    expressions_.bind(name);
  }
  function_.given_symbols = uint32_t(given.size());
  SmallVector<Value> params(block.getArguments());
  params.append(captured.begin(), captured.end());
  for (Value param : params)
    if (auto type = dyn_cast<RankedTensorType>(param.getType()))
      expressions_.bind(type);
  knownAtEntry_ = expressions_.knownSymbols();
  bounds_.begin();
  for (Value param : params)
    function_.params.push_back(addValue(param, plan::Storage::Parameter));
  for (Value param : params)
    if (auto type = dyn_cast<RankedTensorType>(param.getType()); type && type.getEncoding())
      for (AffineExpr size : shapes_->dims(type))
        facts_.assumeSize(size);
  for (Operation &op : block)
    positions_[&op] = positions_.size();
  for (auto concat : block.getOps<graph::ConcatOp>())
    if (concat.getInPlace())
      findParts(concat);
  for (Operation &op : block.without_terminator())
    if (Status status = addInstruction(&op); !status.ok())
      return status;
  for (Value value : block.getTerminator()->getOperands()) {
    auto index = valueOf(value);
    if (!index.ok())
      return index.status();
    function_.results.push_back(*index);
  }
  function_.instructions.insert(function_.instructions.begin(),
                                std::make_move_iterator(entryChecks_.begin()),
                                std::make_move_iterator(entryChecks_.end()));
  if (auto function = dyn_cast<func::FuncOp>(block.getParentOp());
      function && program::isSegment(function))
    addOverwrites();
  return {};
}

bool FunctionBuilder::addCheck(const graph::Condition &condition, Location location) {
  if (facts_.decide(condition) == true)
    return true;
  SmallVector<AffineExpr> sizes{condition.a, condition.b};
  if (condition.unlessZero)
    sizes.push_back(condition.unlessZero);
  bool known = true, early = true;
  for (AffineExpr size : sizes)
    size.walk([&](AffineExpr part) {
      auto symbol = dyn_cast<AffineSymbolExpr>(part);
      if (!symbol)
        return;
      StringAttr name = shapes_->symbols()[symbol.getPosition()];
      known &= expressions_.known(name);
      early &= knownAtEntry_.contains(name);
    });
  if (!known)
    return false;
  auto instruction = std::make_unique<plan::InstructionT>();
  instruction->opcode = plan::Opcode::Check;
  instruction->target = uint32_t(condition.relation);
  for (AffineExpr size : sizes)
    instruction->sizes.push_back(expressions_.affine(size, shapes_->symbols()));
  instruction->message = tables_.addMessage(condition.message);
  instruction->location = tables_.addLocation(location);
  (early ? entryChecks_ : function_.instructions).push_back(std::move(instruction));
  facts_.assume(condition);
  return true;
}

Status FunctionBuilder::addChecks(graph::KernelOp op) {
  for (Operation &inner : op.getBody().front())
    for (const graph::Condition &condition : graph::conditionsOf(&inner, *shapes_))
      if (!graph::isVoidElse(&inner, condition, *shapes_, facts_) &&
          !addCheck(condition, inner.getLoc()))
        return unsupported(tables_.input.model + ": " + graph::describe(inner.getLoc()) +
                           ": nothing tells one of the sizes that it requires something of; give "
                           "an input that has it as a whole dimension, or a fixed size");
  return {};
}

Status FunctionBuilder::addInstruction(Operation *op) {
  if (isa<graph::ConstantOp, graph::NoneOp, graph::KeepSizesOp>(op))
    return {};
  if (auto check = dyn_cast<graph::CheckOp>(op)) {
    // Where its size is that of a value which is computed no more, nobody reads anything by it.
    if (graph::Condition condition = graph::conditionOf(check, *shapes_);
        !addCheck(condition, check.getLoc()))
      waiting_.emplace_back(condition, check.getLoc());
    return {};
  }
  auto instruction = std::make_unique<plan::InstructionT>();
  instruction->location = tables_.addLocation(op->getLoc());
  Status status;
  if (auto kernel = dyn_cast<graph::KernelOp>(op))
    status = addKernel(kernel, *instruction);
  else if (auto reshape = dyn_cast<graph::ReshapeOp>(op); reshape && isView(reshape))
    addView(reshape, *instruction);
  else if (auto concat = dyn_cast<graph::ConcatOp>(op); concat && concat.getInPlace())
    status = addJoin(concat, *instruction);
  else if (auto enter = dyn_cast<program::EnterOp>(op))
    status = addEnter(enter, *instruction);
  else if (isa<graph::IfOp, graph::LoopOp>(op))
    status = addCall(op, *instruction);
  else
    status = addRoutine(op, *instruction);
  if (!status.ok())
    return status;
  releaseValues(op, *instruction);
  function_.instructions.push_back(std::move(instruction));
  for (Value result : op->getResults())
    if (auto type = dyn_cast<RankedTensorType>(result.getType()); type && type.getEncoding())
      for (AffineExpr size : shapes_->dims(type))
        facts_.assumeSize(size);
  llvm::erase_if(waiting_, [&](auto &check) { return addCheck(check.first, check.second); });
  return {};
}

Result<uint32_t> FunctionBuilder::valueOf(Value value) {
  if (auto it = values_.find(value); it != values_.end())
    return it->second;
  if (auto constant = value.getDefiningOp<graph::ConstantOp>())
    return addConstant(constant);
  if (isa<graph::OptionalType>(value.getType()) && value.getDefiningOp<graph::NoneOp>())
    return addEmptyOptional(value);
  if (value.getDefiningOp<graph::NoneOp>())
    return addNone(value);
  return Status(StatusCode::Internal, "a value is used before it is computed");
}

uint32_t FunctionBuilder::addEmptyOptional(Value value) {
  uint32_t index = addValue(value, plan::Storage::Heap);
  auto routine = std::make_unique<plan::RoutineT>();
  routine->operator_ = "optional_none";
  auto instruction = std::make_unique<plan::InstructionT>();
  instruction->opcode = plan::Opcode::Routine;
  instruction->target = uint32_t(tables_.module.routines.size());
  instruction->results = {index};
  instruction->location = tables_.addLocation(value.getLoc());
  tables_.module.routines.push_back(std::move(routine));
  function_.instructions.push_back(std::move(instruction));
  return index;
}

/// An operand that is absent is left out; what a function gives is a value, though it be none.
uint32_t FunctionBuilder::addNone(Value value) {
  auto routine = std::make_unique<plan::RoutineT>();
  routine->operator_ = "optional_none";
  auto instruction = std::make_unique<plan::InstructionT>();
  instruction->opcode = plan::Opcode::Routine;
  instruction->target = uint32_t(tables_.module.routines.size());
  instruction->results = {addValue(value, plan::Storage::Heap)};
  instruction->location = tables_.addLocation(value.getLoc());
  tables_.module.routines.push_back(std::move(routine));
  function_.instructions.push_back(std::move(instruction));
  return function_.instructions.back()->results[0];
}

Result<uint32_t> FunctionBuilder::addConstant(graph::ConstantOp op) {
  auto tensor = graph::hostTensor(op.getValue());
  if (!tensor.ok())
    return tensor.status();
  uint32_t index = addValue(op.getY(), plan::Storage::Constant);
  if (tensor->type() != DataType::String) {
    function_.values[index]->offset = uint64_t(tables_.addConstant(*tensor));
    return index;
  }
  // Strings are no plain bytes: they are made by a routine, from their attribute.
  plan::ValueT &value = *function_.values[index];
  value.storage = plan::Storage::Heap;
  auto routine = std::make_unique<plan::RoutineT>();
  routine->operator_ = "string_constant";
  auto attribute = std::make_unique<plan::AttributeT>();
  attribute->name = "values";
  attribute->value.Set(plan::TextsT{});
  for (int64_t i = 0; i < tensor->size(); ++i)
    attribute->value.AsTexts()->values.push_back(tensor->getString(i));
  routine->attributes.push_back(std::move(attribute));
  auto instruction = std::make_unique<plan::InstructionT>();
  instruction->opcode = plan::Opcode::Routine;
  instruction->target = uint32_t(tables_.module.routines.size());
  instruction->results = {index};
  instruction->location = tables_.addLocation(op.getLoc());
  tables_.module.routines.push_back(std::move(routine));
  function_.instructions.push_back(std::move(instruction));
  return index;
}

/// The place that a value comes from: of a kernel's result, the operator inside that computes it.
static std::string nameOf(Value value) {
  auto result = dyn_cast<OpResult>(value);
  auto kernel = value.getDefiningOp<graph::KernelOp>();
  if (!kernel)
    return graph::describe(value.getLoc());
  Value inner = kernel.getBody().front().getTerminator()->getOperand(result.getResultNumber());
  return graph::describe(inner.getDefiningOp() ? inner.getLoc() : value.getLoc());
}

uint32_t FunctionBuilder::addValue(Value value, plan::Storage storage) {
  auto description = std::make_unique<plan::ValueT>();
  Type type = value.getType();
  description->kind = kindOf(type);
  description->storage = storage;
  description->type = uint8_t(elementOf(type));
  auto ranked = dyn_cast<RankedTensorType>(type);
  description->ranked = bool(ranked);
  if (ranked)
    description->dims = expressions_.dims(ranked);
  description->name = nameOf(value);
  auto index = uint32_t(function_.values.size());
  function_.values.push_back(std::move(description));
  values_[value] = index;
  return index;
}

Status FunctionBuilder::addOperands(ValueRange operands, plan::InstructionT &instruction) {
  for (Value operand : operands) {
    if (operand.getDefiningOp<graph::NoneOp>()) {
      instruction.operands.push_back(runtime::kAbsent);
      continue;
    }
    auto index = valueOf(operand);
    if (!index.ok())
      return index.status();
    instruction.operands.push_back(*index);
  }
  return {};
}

/// Whether a value is handed out by the function itself (not a view of it, which is copied when it
/// is handed out).
static bool isResult(Value value, Block *block) {
  return llvm::is_contained(block->getTerminator()->getOperands(), value);
}

plan::Storage FunctionBuilder::storageOf(Value result) {
  if (isResult(result, block_))
    return plan::Storage::Result;
  return lifetimeOf_.contains(result) ? plan::Storage::Arena : plan::Storage::Heap;
}

void FunctionBuilder::beginLifetime(Operation *here, Value result, uint32_t bytes) {
  size_t first = positions_[here], last = positions_[result.getDefiningOp()];
  if (Operation *use = lastUse(result))
    last = std::max(last, positions_[use]);
  lifetimeOf_[result] = lifetimes_.size();
  lifetimes_.push_back({bytes, first, last});
}

void FunctionBuilder::reserve(Operation *op) {
  for (Value result : op->getResults()) {
    if (isResult(result, block_) || lifetimeOf_.contains(result))
      continue;
    if (auto bytes = bounds_.bytesAtMost(result))
      beginLifetime(op, result, *bytes);
  }
}

/// Sizes that only values inside the kernel have, and that divide by a size. Its code computes them
/// itself, behind its own sizes: they are told so that the run refuses one that divides by zero.
void FunctionBuilder::addQuotientsWithin(graph::KernelOp op, plan::InstructionT &instruction) {
  auto isBySize = [](AffineExpr part) {
    auto pair = dyn_cast<AffineBinaryOpExpr>(part);
    return pair && pair.getKind() != AffineExprKind::Add && pair.getKind() != AffineExprKind::Mul &&
           !isa<AffineConstantExpr>(pair.getRHS());
  };
  for (Operation &inner : op.getBody().front().without_terminator())
    for (Type type : inner.getResultTypes()) {
      auto ranked = dyn_cast<RankedTensorType>(type);
      for (int64_t dim = 0; ranked && dim < ranked.getRank(); ++dim) {
        AffineExpr size = graph::dimExpression(ranked, dim);
        bool divides = false, isKnown = true;
        ArrayRef<StringAttr> names = graph::symbolNames(ranked);
        if (size)
          size.walk([&](AffineExpr part) {
            divides |= isBySize(part);
            if (auto symbol = dyn_cast<AffineSymbolExpr>(part))
              isKnown &= expressions_.known(names[symbol.getPosition()]);
          });
        if (!divides || !isKnown)
          continue;
        uint32_t number = expressions_.affine(size, names);
        if (!llvm::is_contained(instruction.sizes, number))
          instruction.sizes.push_back(number);
      }
    }
}

Status FunctionBuilder::addKernel(graph::KernelOp op, plan::InstructionT &instruction) {
  if (Status status = addChecks(op); !status.ok())
    return status;
  instruction.opcode = plan::Opcode::Kernel;
  instruction.target = tables_.addKernel(op);
  if (Status status = addOperands(op.getInputs(), instruction); !status.ok())
    return status;
  for (const std::string &text : tables_.input.kernel(op).sizes) {
    auto name = StringAttr::get(op.getContext(), text);
    if (!expressions_.known(name))
      return unsupported(tables_.input.model + ": " + graph::describe(op.getLoc()) +
                         ": nothing tells the size '" + text +
                         "'; give an input that has it as a whole dimension, or a fixed size");
    instruction.sizes.push_back(expressions_.symbol(name));
  }
  const KernelBinding &binding = tables_.input.kernel(op);
  auto known = [&](StringAttr name) { return expressions_.known(name); };
  if (!binding.numbers.empty() && !llvm::all_of(binding.numberSymbols, known))
    return unsupported(tables_.input.model + ": " + graph::describe(op.getLoc()) +
                       ": nothing tells one of its sizes; give an input that has it as a whole "
                       "dimension, or a fixed size");
  for (AffineExpr number : binding.numbers)
    instruction.sizes.push_back(expressions_.affine(number, binding.numberSymbols));
  addQuotientsWithin(op, instruction);
  if (binding.flops && llvm::all_of(binding.workSymbols, known)) {
    instruction.flops = expressions_.affine(binding.flops, binding.workSymbols);
    instruction.bytes = expressions_.affine(binding.bytes, binding.workSymbols);
  }
  // Of a kernel of rows the first result takes the place; what else it gives is no row, or is
  // computed before any element at the same place is stored.
  auto part = parts_.find(op.getResult(0));
  if (part != parts_.end()) {
    Value whole = part->second.whole;
    auto bytes = bounds_.bytesAtMost(whole);
    if (!bytes)
      return {StatusCode::Internal, "what is joined in place has no size"};
    if (!lifetimeOf_.contains(whole))
      beginLifetime(op, whole, *bytes);
    lifetimeOf_[op.getResult(0)] = lifetimeOf_[whole];
  }
  bool mayOverwrite = part == parts_.end() &&
                      (op.getNumResults() == 1 || graph::storingOf(op) == graph::Storing::Rows);
  if (Value overwritten =
          mayOverwrite && !isResult(op.getResult(0), block_) ? operandToOverwrite(op) : Value()) {
    size_t lifetime = lifetimeOf_[rootOf(overwritten)];
    Operation *use = lastUse(op.getResult(0));
    lifetimes_[lifetime].last = std::max(positions_[op], use ? positions_[use] : 0);
    ++lifetimes_[lifetime].values;
    lifetimeOf_[op.getResult(0)] = lifetime;
  }
  reserve(op);
  return addResults(op, instruction, /*binds=*/false);
}

Status FunctionBuilder::addRoutine(Operation *op, plan::InstructionT &instruction) {
  instruction.opcode = plan::Opcode::Routine;
  auto routine = tables_.addRoutine(op);
  if (!routine.ok())
    return routine.status();
  instruction.target = *routine;
  if (Status status = addOperands(op->getOperands(), instruction); !status.ok())
    return status;
  // The evaluators of these write where they are told to; those of the others have memory of their
  // own, which is handed on.
  if (bounds_.learn(op))
    reserve(op);
  return addResults(op, instruction, /*binds=*/true);
}

/// A view gives no symbol its value, strings are no plain bytes, and the sizes of what lies among
/// the weights are numbers: those are routines.
bool FunctionBuilder::isView(graph::ReshapeOp op) {
  auto type = dyn_cast<RankedTensorType>(op.getType());
  Value root = op.getX();
  while (auto view = root.getDefiningOp<graph::ReshapeOp>())
    root = view.getX();
  if (type && !type.hasStaticShape() && root.getDefiningOp<graph::ConstantOp>())
    return false;
  return type && isa<RankedTensorType>(op.getX().getType()) && expressions_.known(type) &&
         graph::dataType(type.getElementType()) != DataType::String;
}

void FunctionBuilder::place(uint32_t index, Value value, size_t lifetime) {
  bool isExact = bounds_.isExact(cast<RankedTensorType>(value.getType()));
  auto part = parts_.find(rootOf(value));
  if (part != parts_.end())
    function_.values[index]->pitch = uint64_t(part->second.pitch);
  placed_.push_back({index, lifetime, part == parts_.end() ? 0 : part->second.offset, !isExact});
}

/// Of a concatenation along the last dimension, or of parts that are one piece each.
void FunctionBuilder::findParts(graph::ConcatOp join) {
  auto type = cast<RankedTensorType>(join.getType());
  auto bytes = [&](ArrayRef<int64_t> shape) {
    return ShapedType::getNumElements(shape) * byteSize(graph::dataType(type.getElementType()));
  };
  size_t axis = join.getAxis();
  bool isOfPlanes = ShapedType::getNumElements(type.getShape().take_front(axis)) == 1;
  int64_t pitch = isOfPlanes ? 0 : bytes(type.getShape().take_back()), offset = 0;
  for (Value part : join.getInputs()) {
    Value root = part;
    while (auto view = root.getDefiningOp<graph::ReshapeOp>())
      root = view.getX();
    assert(!parts_.contains(root) && root.getDefiningOp<graph::KernelOp>());
    parts_[root] = {join.getY(), offset, pitch};
    offset += bytes(cast<RankedTensorType>(part.getType()).getShape().drop_front(axis));
  }
}

Status FunctionBuilder::addJoin(graph::ConcatOp op, plan::InstructionT &instruction) {
  instruction.opcode = plan::Opcode::Join;
  if (Status status = addOperands(op.getInputs(), instruction); !status.ok())
    return status;
  return addResults(op, instruction, /*binds=*/false);
}

void FunctionBuilder::addView(graph::ReshapeOp op, plan::InstructionT &instruction) {
  instruction.opcode = plan::Opcode::View;
  (void)addOperands(op.getX(), instruction);
  views_[op.getY()] = op.getX();
  plan::ValueT &source = *function_.values[instruction.operands[0]];
  plan::Storage storage =
      source.storage == plan::Storage::Result ? plan::Storage::Heap : source.storage;
  uint64_t offset = source.offset;
  uint32_t index = addValue(op.getY(), storage);
  function_.values[index]->offset = offset;
  if (storage == plan::Storage::Arena)
    place(index, op.getY(), lifetimeOf_[rootOf(op.getX())]);
  instruction.results.push_back(index);
}

Status FunctionBuilder::addResults(Operation *op, plan::InstructionT &instruction, bool binds) {
  for (Value result : op->getResults()) {
    uint32_t index = addValue(result, storageOf(result));
    if (function_.values[index]->storage == plan::Storage::Arena)
      place(index, result, lifetimeOf_[result]);
    instruction.results.push_back(index);
  }
  for (Value result : op->getResults())
    if (auto type = dyn_cast<RankedTensorType>(result.getType()); type && binds)
      expressions_.bind(type);
  return {};
}

Status FunctionBuilder::addEnter(program::EnterOp op, plan::InstructionT &instruction) {
  instruction.opcode = plan::Opcode::Procedure;
  instruction.target = tables_.procedures.at(op.getProcedure().str());
  if (Status status = addOperands(op.getInputs(), instruction); !status.ok())
    return status;
  return addResults(op, instruction, /*binds=*/true);
}

Status FunctionBuilder::addCall(Operation *op, plan::InstructionT &instruction) {
  bool loop = isa<graph::LoopOp>(op);
  instruction.opcode = loop ? plan::Opcode::Loop : plan::Opcode::If;
  llvm::SetVector<Value> captured;
  llvm::SetVector<StringAttr> used, given;
  for (Region &region : op->getRegions())
    collectOutside(region, captured, used);
  for (StringAttr name : used)
    if (expressions_.known(name)) {
      given.insert(name);
      instruction.sizes.push_back(expressions_.symbol(name));
    }
  if (Status status = addOperands(op->getOperands(), instruction); !status.ok())
    return status;
  if (Status status = addOperands(captured.getArrayRef(), instruction); !status.ok())
    return status;
  if (auto loopOp = dyn_cast<graph::LoopOp>(op))
    instruction.carried = uint32_t(loopOp.getCarried().size());
  for (Region &region : op->getRegions()) {
    auto index = tables_.addFunction(graph::describe(op->getLoc()), region.front(),
                                     captured.getArrayRef(), given.getArrayRef());
    if (!index.ok())
      return index.status();
    instruction.functions.push_back(*index);
  }
  (void)bounds_.learn(op); // what others have of the sizes; the results are made by the functions
  return addResults(op, instruction, /*binds=*/true);
}

Value FunctionBuilder::rootOf(Value value) {
  while (views_.count(value))
    value = views_[value];
  return value;
}

/// Uses by views count as uses of the root until the views' own last use. Uses inside regions count
/// at the operator that has the region.
Operation *FunctionBuilder::lastUse(Value root) {
  Operation *last = nullptr;
  SmallVector<Value> aliases{root};
  while (!aliases.empty()) {
    Value alias = aliases.pop_back_val();
    for (Operation *user : alias.getUsers()) {
      Operation *here = block_->findAncestorOpInBlock(*user);
      if (here && (!last || last->isBeforeInBlock(here)))
        last = here;
      if (auto view = dyn_cast<graph::ReshapeOp>(user); view && view->getBlock() == block_)
        aliases.push_back(view.getY());
    }
  }
  return last;
}

bool FunctionBuilder::shareBuffer(Value a, Value b) {
  a = rootOf(a), b = rootOf(b);
  auto ofA = lifetimeOf_.find(a), ofB = lifetimeOf_.find(b);
  return a == b ||
         (ofA != lifetimeOf_.end() && ofB != lifetimeOf_.end() && ofA->second == ofB->second);
}

/// An operand whose buffer ends here and of which the kernel reads each element only to compute the
/// result's at the same place.
Value FunctionBuilder::operandToOverwrite(graph::KernelOp op) {
  auto result = cast<RankedTensorType>(op.getResult(0).getType());
  auto bytes = [](Type type) { return byteSize(graph::dataType(getElementTypeOrSelf(type))); };
  for (auto [operand, argument] : llvm::zip_equal(op.getInputs(), op.getBody().getArguments())) {
    auto type = cast<RankedTensorType>(operand.getType());
    Value root = rootOf(operand);
    if (!lifetimeOf_.contains(root) || type.clone(result.getElementType()) != result ||
        bytes(type) != bytes(result))
      continue;
    auto alias = [&](Value other) { return shareBuffer(other, root); };
    if (lastUse(root) != op || lifetimes_[lifetimeOf_[root]].last > positions_[op] ||
        llvm::count_if(op.getInputs(), alias) != 1)
      continue;
    if (isReadInPlace(argument, result) &&
        isStoredBehindReads(argument, cast<OpResult>(op.getResult(0))))
      return operand;
  }
  return {};
}

/// Other steps than kernels, views and joins might keep what they read.
void FunctionBuilder::addOverwrites() {
  for (const auto &instruction : function_.instructions)
    if (instruction->opcode != plan::Opcode::Kernel && instruction->opcode != plan::Opcode::View &&
        instruction->opcode != plan::Opcode::Join)
      return;
  for (auto [result, value] :
       llvm::zip_equal(block_->getTerminator()->getOperands(), function_.results)) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type || !entryKnown(type) || function_.values[value]->storage != plan::Storage::Result)
      continue;
    for (BlockArgument argument : block_->getArguments())
      if (isUpdateInPlace(argument, result))
        function_.overwrites.insert(function_.overwrites.end(), {argument.getArgNumber(), value});
  }
}

/// Whether the value may have memory that is nobody else's: on the heap, or where only the run
/// tells its size and less was set aside.
bool FunctionBuilder::mayOwnMemory(Value value, plan::Storage storage) {
  return storage == plan::Storage::Heap ||
         (storage == plan::Storage::Arena &&
          !bounds_.isExact(cast<RankedTensorType>(value.getType())));
}

void FunctionBuilder::releaseValues(Operation *op, plan::InstructionT &instruction) {
  llvm::SetVector<Value> candidates;
  candidates.insert(op->operand_begin(), op->operand_end());
  candidates.insert(op->result_begin(), op->result_end());
  for (Region &region : op->getRegions()) {
    llvm::SetVector<StringAttr> symbols;
    if (!isa<graph::KernelOp>(op))
      collectOutside(region, candidates, symbols);
  }
  for (Value value : candidates) {
    auto it = values_.find(value);
    if (it == values_.end() || !mayOwnMemory(value, function_.values[it->second]->storage) ||
        value.getDefiningOp<graph::ConstantOp>())
      continue;
    Operation *last = nullptr;
    for (Operation *user : value.getUsers())
      if (Operation *here = block_->findAncestorOpInBlock(*user);
          here && (!last || last->isBeforeInBlock(here)))
        last = here;
    if (last == op || !last)
      instruction.releases.push_back(it->second);
  }
}

/// Whether the size is known when the function begins, so that the value can lie in the arena.
bool FunctionBuilder::entryKnown(RankedTensorType type) { return bounds_.isExact(type); }

} // namespace tensmith::vm

// Straight code and branches; see Reverse.h, and ReverseLoop.cpp for loops.
#include "compiler/autodiff/Procedures.h"
#include "compiler/program/Effects.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tensmith::autodiff {

LogicalResult Reverse::add(Value value, Value cotangent) {
  if (!cotangent)
    return failure();
  if (!activity_.isActive(value))
    return success();
  cotangent = withTypeOf(code_, cotangent, value);
  Value &sum = cotangents_[value];
  if (!sum)
    sum = cotangent;
  else if (isa<program::ObjectType>(value.getType()))
    sum = changes().add(sum, cotangent, value.getType());
  else
    sum = code_.addChanges(sum, cotangent);
  return success(sum != nullptr);
}

/// Whether the operator takes a part of one dimension, whose cotangent is kept as that.
bool Reverse::addSlice(Operation *op, Value cotangent) {
  auto slice = dyn_cast<graph::SliceOp>(op);
  auto from = slice ? dyn_cast<RankedTensorType>(slice.getX().getType()) : RankedTensorType();
  auto to = slice ? dyn_cast<RankedTensorType>(slice.getType()) : RankedTensorType();
  if (!from || !to || llvm::any_of(slice.getSteps(), [](int64_t step) { return step != 1; }))
    return false;
  std::optional<int64_t> sliced;
  for (int64_t dim = 0; dim < from.getRank(); ++dim) {
    bool isWhole = slice.getStarts()[dim] == 0 &&
                   (from.getDimSize(dim) == to.getDimSize(dim) && !from.isDynamicDim(dim));
    bool isSame = from.isDynamicDim(dim) && slice.getStarts()[dim] == 0 &&
                  code_.dims(slice.getX())[dim] == code_.dims(slice.getY())[dim];
    if (isWhole || isSame)
      continue;
    if (sliced || from.isDynamicDim(dim) || to.isDynamicDim(dim))
      return false;
    sliced = dim;
  }
  if (!sliced)
    return false;
  cotangents_.insert({slice.getX(), Value()});
  slices_[slice.getX()].push_back(
      {cotangent, *sliced, slice.getStarts()[*sliced], to.getDimSize(*sliced)});
  return true;
}

/// What the slices of a value have got, those that lie side by side joined, and zeros around them;
/// null where there are none.
Value Reverse::joinSlices(Value value) {
  SmallVector<Slice> slices = slices_.lookup(value);
  slices_.erase(value);
  if (slices.empty())
    return {};
  auto type = cast<RankedTensorType>(value.getType());
  llvm::stable_sort(slices, [](const Slice &a, const Slice &b) {
    return std::pair(a.dim, a.start) < std::pair(b.dim, b.start);
  });
  Value sum;
  for (size_t first = 0; first < slices.size();) {
    int64_t dim = slices[first].dim, start = slices[first].start, end = start;
    SmallVector<Value> parts;
    for (; first < slices.size() && slices[first].dim == dim && slices[first].start == end;
         ++first) {
      parts.push_back(slices[first].cotangent);
      end += slices[first].size;
    }
    SmallVector<int64_t> low(size_t(type.getRank()), 0), high = low;
    low[size_t(dim)] = start;
    high[size_t(dim)] = type.getDimSize(dim) - end;
    Value part = withType(code_, code_.pad(code_.concat(parts, dim), low, high), type);
    sum = sum ? code_.add(sum, part) : part;
  }
  return sum;
}

Value Reverse::take(Value value) {
  auto it = cotangents_.find(value);
  if (it == cotangents_.end())
    return {};
  if (isa<program::ObjectType>(value.getType()))
    return takeChange(value);
  Value sliced = joinSlices(value), result = it->second;
  cotangents_.erase(it);
  result = sliced && result ? code_.add(result, sliced) : sliced ? sliced : result;
  Value change = changes_.lookup(value);
  if (!changes_.erase(value))
    return result;
  Value changed = changes().tensor(change, value);
  return result ? code_.add(result, changed) : changed;
}

Value Reverse::takeOrZeros(Value value) {
  Value given = take(value);
  if (isa<program::ObjectType>(value.getType()))
    return changes().orNone(given, value.getType());
  if (!given)
    given = procedures_ ? changes().zeros(value) : code_.zerosLike(value);
  return withTypeOf(code_, given, value);
}

LogicalResult Reverse::run(Operation *first, Operation *last) {
  SmallVector<Operation *> order;
  for (Operation *op = first; op; op = op == last ? nullptr : op->getNextNode())
    order.push_back(op);
  for (Operation *op : llvm::reverse(order))
    if (failed(pull(op)))
      return failure();
  return success();
}

LogicalResult Reverse::pull(Operation *op) {
  SmallVector<Value> given;
  // What a field has got as rows is not multiplied for being taken out of a value.
  for (Value result : op->getResults())
    given.push_back(isa<program::FieldOp>(op) && changes_.contains(result) ? takeChange(result)
                                                                           : take(result));
  bool isReached = llvm::any_of(given, [](Value value) { return bool(value); });
  if (!isReached && !(procedures_ && program::hasEffects(op)))
    return success();
  code_.graph.location = op->getLoc();
  if (isStandIn(op))
    return add(op->getOperand(1), given[0]);
  if (failed(checkOperandsKnown(activity_, op)))
    return failure();
  if (auto loop = dyn_cast<graph::LoopOp>(op))
    return pullLoop(loop, given);
  if (auto branch = dyn_cast<graph::IfOp>(op))
    return pullBranch(branch, given);
  if (auto call = dyn_cast<program::CallOp>(op); call && procedures_)
    return procedures_->pullCall(call, given[0], *this, activity_);
  if (isa<program::IfOp, program::MatchOp>(op) && procedures_)
    return procedures_->pullChoice(op, given[0], *this, activity_);
  if (isa<program::ReferenceOp, program::ReadOp, program::WriteOp>(op) && procedures_)
    return pullReference(op, given.empty() ? Value() : given[0]);
  if (keepsRows(op))
    return pullAsRows(op, given[0]);
  if (auto construct = dyn_cast<program::ConstructOp>(op); construct && procedures_)
    return pullConstruct(construct, given[0]);
  if (auto field = dyn_cast<program::FieldOp>(op); field && procedures_)
    return pullField(field, given[0]);
  return pullTensorOperator(op, given);
}

LogicalResult Reverse::pullLoop(graph::LoopOp loop, ArrayRef<Value> given) {
  Checkpointing plan = procedures_ && !keepsLoops_ ? procedures_->plan() : Checkpointing::None;
  return reverseLoop(code_, activity_, loop, given, *this, procedures_, plan);
}

LogicalResult Reverse::pullTensorOperator(Operation *op, ArrayRef<Value> given) {
  const graph::GradientRule *rule = graph::findGradientRule(op);
  if (!rule || (!rule->scale && !rule->pull))
    return reportNoGradient(op);
  if (rule->pull && !rule->takesAnyRank && hasUnknownRank(op))
    return reportNoGradient(op, "where its operands' number of dimensions is not known");
  // An operand that is the only one is not broadcast.
  bool mayBroadcast = rule->scale && !llvm::all_equal(op->getOperands());
  if (mayBroadcast && hasUnknownRank(op))
    return reportNoGradient(op, "where its operands' number of dimensions is not known");
  if (isa<graph::SliceOp>(op) && activity_.isActive(op->getOperand(0)) && addSlice(op, given[0]))
    return success();
  graph::Pullback pullback{code_, op, given};
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    Value value = operand.get();
    if (!activity_.isActive(value))
      continue;
    if (!rule->reaches(number))
      return reportNoGradient(op, "with respect to operand " + std::to_string(number));
    Value result =
        rule->scale ? rule->scale(code_, op, given[0], number) : rule->pull(pullback, number);
    if (mayBroadcast)
      result = code_.sumLike(result, value);
    if (!result)
      return reportNoGradient(op, "for what it is given");
    if (failed(add(value, result)))
      return failure();
  }
  return success();
}

/// The branch is taken again, forward and then back.
LogicalResult Reverse::pullBranch(graph::IfOp branch, ArrayRef<Value> given) {
  SmallVector<Block *> blocks;
  std::vector<Reverse> inner;
  OperationState state(branch.getLoc(), graph::IfOp::getOperationName());
  state.addOperands(branch.getCondition());
  llvm::SetVector<Value> reached;
  // What the branch gives is known once both sides are there; until then they have a place.
  OperationState place(branch.getLoc(), graph::IfOp::getOperationName());
  place.addOperands(branch.getCondition());
  place.addRegion();
  place.addRegion();
  Operation *scaffold = code_.builder.create(place);
  for (auto [region, copy] : llvm::zip_equal(branch->getRegions(), scaffold->getRegions())) {
    OpBuilder::InsertionGuard guard(code_.builder);
    Block *block = code_.builder.createBlock(&copy);
    blocks.push_back(block);
    IRMapping mapping;
    for (Operation &op : region.front().without_terminator())
      code_.builder.clone(op, mapping);
    inner.emplace_back(code_, activity_, procedures_);
    Operation *last = block->empty() ? nullptr : &block->back();
    if (last)
      activity_.follow(*block);
    for (auto [value, cotangent] :
         llvm::zip_equal(region.front().getTerminator()->getOperands(), given))
      if (cotangent && failed(inner.back().add(mapping.lookupOrDefault(value), cotangent)))
        return failure();
    if (last && failed(inner.back().run(&block->front(), last)))
      return failure();
    for (Value value : inner.back().reached())
      reached.insert(value);
  }
  code_.graph.location = branch.getLoc();
  for (auto [block, reverse] : llvm::zip_equal(blocks, inner)) {
    OpBuilder::InsertionGuard guard(code_.builder);
    code_.builder.setInsertionPointToEnd(block);
    SmallVector<Value> yielded;
    for (Value value : reached)
      yielded.push_back(reverse.takeOrZeros(value));
    if (llvm::is_contained(yielded, Value()))
      return failure();
    code_.builder.create<graph::YieldOp>(branch.getLoc(), yielded);
    removeUnused(activity_, &block->front(), block->getTerminator()->getPrevNode());
  }
  for (Region &copy : scaffold->getRegions())
    state.addRegion()->takeBody(copy);
  activity_.retire(scaffold);
  if (reached.empty())
    return success();
  state.addTypes(SmallVector<Type>(reached.size(), code_.builder.getNoneType()));
  auto backward = cast<graph::IfOp>(code_.builder.create(state));
  SmallVector<Type> types;
  if (failed(backward.inferResults(code_.graph.shapes, types)))
    return failure();
  for (auto [result, type, value] : llvm::zip_equal(backward.getResults(), types, reached)) {
    result.setType(type);
    if (failed(add(value, result)))
      return failure();
  }
  return success();
}

} // namespace tensmith::autodiff

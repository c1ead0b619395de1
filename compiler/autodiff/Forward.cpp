// Pushing tangents through operators; see Forward.h.
#include "compiler/autodiff/Forward.h"

#include "compiler/autodiff/Reverse.h"

using namespace mlir;

namespace tensmith::autodiff {

Value Forward::tangentOrZeros(Value value) const {
  Value known = tangent(value);
  if (pushed_ && !graph::holdsDifferentiable(value.getType()))
    return pushed_->changes.orNone(known, value.getType());
  if (!known && pushed_)
    known = pushed_->changes.zeros(value);
  return withTypeOf(code_, known ? known : code_.zerosLike(value), value);
}

LogicalResult Forward::run(Block &block, const llvm::DenseSet<Operation *> *needed) {
  SmallVector<Operation *> order;
  for (Operation &op : block.without_terminator())
    if (!needed || needed->contains(&op))
      order.push_back(&op);
  for (Operation *op : order)
    if (activity_.isActive(op) && failed(push(op)))
      return failure();
  return success();
}

LogicalResult Forward::push(Operation *op) {
  OpBuilder::InsertionGuard guard(code_.builder);
  code_.builder.setInsertionPointAfter(op);
  code_.graph.location = op->getLoc();
  if (isStandIn(op)) {
    if (Value change = tangent(op->getOperand(1)))
      give(op->getResult(0), withTypeOf(code_, change, op->getResult(0)));
    return success();
  }
  if (isa<graph::LoopOp, graph::IfOp>(op) ||
      isa_and_nonnull<program::ProgramDialect>(op->getDialect()))
    if (failed(checkOperandsKnown(activity_, op)))
      return failure();
  if (auto loop = dyn_cast<graph::LoopOp>(op))
    return pushLoop(loop);
  if (auto branch = dyn_cast<graph::IfOp>(op))
    return pushBranch(branch);
  if (!pushed_)
    return pushTensorOperator(op);
  if (auto construct = dyn_cast<program::ConstructOp>(op))
    return pushConstruct(construct);
  if (auto field = dyn_cast<program::FieldOp>(op))
    return pushField(field);
  if (auto call = dyn_cast<program::CallOp>(op))
    return pushCall(call);
  if (isa<program::IfOp, program::MatchOp>(op))
    return pushChoice(op);
  if (isa<program::ReferenceOp, program::ReadOp, program::WriteOp>(op))
    return pushReference(op);
  return pushTensorOperator(op);
}

LogicalResult Forward::pushTensorOperator(Operation *op) {
  const graph::GradientRule *rule = graph::findGradientRule(op);
  if (rule && rule->isZero())
    return success();
  bool hasTangent = false;
  for (OpOperand &operand : op->getOpOperands()) {
    if (!tangent(operand.get()))
      continue;
    hasTangent = true;
    if (rule && !rule->reaches(operand.getOperandNumber()))
      return reportNoGradient(op, "with respect to operand " +
                                      std::to_string(operand.getOperandNumber()));
  }
  if (!hasTangent)
    return success();
  if (!rule || (!rule->scale && !rule->pull))
    return reportNoGradient(op);
  if (rule->linear != graph::Linear::No)
    return pushLinear(op, *rule);
  if (rule->pull && !rule->takesAnyRank && hasUnknownRank(op))
    return reportNoGradient(op, "where its operands' number of dimensions is not known");
  if (rule->pull)
    return pushTransposed(op, *rule);
  Value sum = pushScaled(op, *rule);
  if (!sum)
    return reportNoGradient(op, "for what it is given");
  give(op->getResult(0), sum);
  return success();
}

Value Forward::pushScaled(Operation *op, const graph::GradientRule &rule) {
  Value sum, result = op->getResult(0);
  for (OpOperand &operand : op->getOpOperands()) {
    Value change = tangent(operand.get());
    if (!change)
      continue;
    Value part = rule.scale(code_, op, change, operand.getOperandNumber());
    if (!part)
      return part;
    sum = sum ? code_.add(sum, part) : part;
  }
  return code_.broadcastLike(sum, result);
}

LogicalResult Forward::pushLinear(Operation *op, const graph::GradientRule &rule) {
  auto applied = [&](ArrayRef<Value> operands) -> Value {
    if (llvm::is_contained(operands, Value()))
      return {};
    Operation *copy = code_.builder.clone(*op);
    copy->setOperands(operands);
    return copy->getResult(0);
  };
  SmallVector<Value> own(op->getOperands());
  Value sum;
  if (rule.linear == graph::Linear::Jointly) {
    for (OpOperand &operand : op->getOpOperands())
      if (rule.reaches(operand.getOperandNumber()) &&
          graph::holdsDifferentiable(operand.get().getType()))
        own[operand.getOperandNumber()] = tangentOrZeros(operand.get());
    sum = applied(own);
  } else {
    for (OpOperand &operand : op->getOpOperands()) {
      Value change = tangent(operand.get());
      if (!change)
        continue;
      SmallVector<Value> changed = own;
      changed[operand.getOperandNumber()] = withTypeOf(code_, change, operand.get());
      Value part = applied(changed);
      if (!part)
        return failure();
      sum = sum ? code_.add(sum, part) : part;
    }
  }
  if (!sum)
    return failure();
  give(op->getResult(0), sum);
  return success();
}

/// `pull` is built for cotangents that are placeholders, and its reverse with respect to them is
/// the rule; what was built for it alone goes again.
LogicalResult Forward::pushTransposed(Operation *op, const graph::GradientRule &rule) {
  Block &block = *op->getBlock();
  SmallVector<Value> placeholders, cotangents;
  for (Value result : op->getResults()) {
    Value placeholder;
    if (activity_.isActive(result) && !result.use_empty())
      placeholder =
          code_.builder
              .create<UnrealizedConversionCastOp>(op->getLoc(), result.getType(), ValueRange())
              .getResult(0);
    cotangents.push_back(placeholder);
    if (placeholder)
      placeholders.push_back(placeholder);
  }
  if (placeholders.empty())
    return success();
  Operation *first = placeholders.front().getDefiningOp();
  graph::Pullback pullback{code_, op, cotangents};
  SmallVector<std::pair<Operation *, Value>> seeds; // what holds a pulled value, and its weight
  for (OpOperand &operand : op->getOpOperands()) {
    Value change = tangent(operand.get());
    if (!change)
      continue;
    Value pulled = rule.pull(pullback, operand.getOperandNumber());
    if (!pulled)
      return reportNoGradient(op, "for what it is given");
    Operation *holder =
        code_.builder.create<UnrealizedConversionCastOp>(op->getLoc(), pulled.getType(), pulled);
    seeds.emplace_back(holder, change);
  }
  Operation *after = &*code_.builder.getInsertionPoint();
  Activity activity(placeholders);
  for (Operation *inner = first; inner != after; inner = inner->getNextNode())
    if (!isa<UnrealizedConversionCastOp>(inner))
      activity.followOperator(inner);
  expandOperators(code_, block, activity, first);
  Operation *last = after->getPrevNode(),
            *begin = placeholders.back().getDefiningOp()->getNextNode();
  Reverse reverse(code_, activity);
  for (auto [holder, change] : seeds) {
    Value pulled = holder->getOperand(0);
    if (failed(reverse.add(pulled, change)))
      return failure();
  }
  if (failed(reverse.run(begin, last)))
    return failure();
  for (auto [result, placeholder] : llvm::zip_equal(op->getResults(), cotangents))
    if (Value sum = placeholder ? reverse.take(placeholder) : Value())
      give(result, sum);
  for (auto [result, placeholder] : llvm::zip_equal(op->getResults(), cotangents))
    if (placeholder) // what the rule asks of it is its shape
      placeholder.replaceAllUsesWith(result);
  Operation *end = last->getNextNode(); // what follows is the rule
  for (auto &[holder, change] : seeds)
    holder->erase();
  removeUnused(activity, first, end->getPrevNode());
  return success();
}

LogicalResult Forward::pushBranch(graph::IfOp branch) {
  SmallVector<unsigned> changing;
  for (auto [i, result] : llvm::enumerate(branch.getResults()))
    if (activity_.isActive(result))
      changing.push_back(unsigned(i));
  for (Region &region : branch->getRegions()) {
    if (failed(run(region.front())))
      return failure();
    Operation *yield = region.front().getTerminator();
    code_.builder.setInsertionPoint(yield);
    for (unsigned number : changing) {
      Value change = tangentOrZeros(yield->getOperand(number));
      if (!change)
        return failure();
      yield->insertOperands(yield->getNumOperands(), change);
    }
  }
  code_.builder.setInsertionPoint(branch);
  OperationState state(branch.getLoc(), graph::IfOp::getOperationName());
  state.addOperands(branch.getCondition());
  SmallVector<Type> types(branch->getResultTypes());
  types.append(changing.size(), code_.builder.getNoneType());
  state.addTypes(types);
  for (Region &region : branch->getRegions())
    state.addRegion()->takeBody(region);
  auto extended = cast<graph::IfOp>(code_.builder.create(state));
  SmallVector<Type> inferred;
  if (failed(extended.inferResults(code_.graph.shapes, inferred)))
    return failure();
  size_t own = branch->getNumResults();
  for (size_t i = own; i < inferred.size(); ++i)
    extended.getResult(unsigned(i)).setType(inferred[i]);
  for (size_t i = 0; i < own; ++i) {
    if (activity_.isActive(branch.getResult(unsigned(i))))
      activity_.add(extended.getResult(unsigned(i)));
    branch.getResult(unsigned(i)).replaceAllUsesWith(extended.getResult(unsigned(i)));
  }
  for (auto [position, number] : llvm::enumerate(changing))
    give(extended.getResult(number), extended.getResult(unsigned(own + position)));
  activity_.retire(branch);
  return success();
}

LogicalResult Forward::pushLoop(graph::LoopOp loop) {
  Block &body = loop.getBody().front();
  if (Value goesOn = body.getTerminator()->getOperand(0); activity_.isUnknown(goesOn))
    return reportUnknown(activity_, goesOn, loop);
  size_t carried = loop.getCarried().size(), results = loop.getNumResults();
  SmallVector<bool> wasActive;
  for (Value result : loop.getResults())
    wasActive.push_back(activity_.isActive(result));
  SmallVector<unsigned> carriedChanges, scannedChanges;
  LoopExtension extension;
  {
    OpBuilder::InsertionGuard guard(code_.builder);
    code_.builder.setInsertionPoint(loop);
    for (unsigned i = 0; i < carried; ++i) {
      Value argument = body.getArgument(2 + i);
      if (!activity_.isActive(argument))
        continue;
      Value start = withType(code_, tangentOrZeros(loop.getCarried()[i]), argument.getType());
      if (!start)
        return failure();
      carriedChanges.push_back(i);
      extension.initial.push_back(start);
    }
  }
  for (unsigned number : carriedChanges)
    give(body.getArgument(2 + number),
         body.addArgument(body.getArgument(2 + number).getType(), loop.getLoc()));
  if (failed(run(body)))
    return failure();
  Operation *yield = body.getTerminator();
  code_.builder.setInsertionPoint(yield);
  for (unsigned number : carriedChanges)
    extension.carried.push_back(withType(code_, tangentOrZeros(yield->getOperand(1 + number)),
                                         body.getArgument(2 + number).getType()));
  for (unsigned i = unsigned(carried); i < results; ++i)
    if (wasActive[i]) {
      scannedChanges.push_back(i);
      extension.scanned.push_back(tangentOrZeros(yield->getOperand(1 + i)));
    }
  if (llvm::is_contained(extension.carried, Value()) ||
      llvm::is_contained(extension.scanned, Value()))
    return failure();
  auto extended = extendLoop(code_, activity_, loop, extension);
  if (failed(extended))
    return failure();
  auto place = [&](unsigned i) { return i < carried ? i : unsigned(i + extension.initial.size()); };
  for (auto [position, number] : llvm::enumerate(carriedChanges))
    give(extended->getResult(number), extended->getResult(unsigned(carried + position)));
  for (auto [position, number] : llvm::enumerate(scannedChanges))
    give(extended->getResult(place(number)),
         extended->getResult(unsigned(results + extension.initial.size() + position)));
  return success();
}

} // namespace tensmith::autodiff

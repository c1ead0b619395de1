// Following values from operand to result; see Activity.h.
#include "compiler/autodiff/Activity.h"

#include "compiler/program/Effects.h"
#include "compiler/program/Program.h"

using namespace mlir;

namespace tensmith::autodiff {

Activity::~Activity() {
  for (Operation *op : retired_)
    op->erase();
}

void Activity::retire(Operation *op) {
  op->dropAllReferences();
  op->remove();
  retired_.push_back(op);
}

static bool holdsChanges(Type type) {
  return isa<program::ObjectType>(type) || graph::holdsDifferentiable(type);
}

bool Activity::isUnknown(Value value) const {
  return isActive(value) && !holdsChanges(value.getType());
}

bool Activity::hasUnknownOperands(Operation *op) const {
  return llvm::any_of(op->getOperands(), [&](Value value) { return isUnknown(value); });
}

Operation *Activity::hiddenIntegers(Operation *op) const {
  if (hiddenIntegers_)
    return *hiddenIntegers_;
  hiddenIntegers_ = nullptr;
  auto makesUnknown = [&](Operation *inner) {
    const graph::GradientRule *rule = graph::findGradientRule(inner);
    bool isUnknown = rule && rule->isNone() && llvm::any_of(inner->getOperandTypes(), holdsChanges);
    if (!isUnknown || llvm::all_of(inner->getResultTypes(), holdsChanges))
      return WalkResult::advance();
    hiddenIntegers_ = inner;
    return WalkResult::interrupt();
  };
  if (auto module = op->getParentOfType<ModuleOp>())
    module->walk(makesUnknown);
  return *hiddenIntegers_;
}

/// Whether a result of the type changes with the active operands.
bool Activity::mayChange(Operation *op, const graph::GradientRule *rule, Type type) {
  if (rule && (rule->zero == graph::Zero::Step || rule->zero == graph::Zero::Unread))
    return false;
  if (holdsChanges(type) || hasUnknownOperands(op))
    return true;
  if (isa_and_nonnull<program::ProgramDialect>(op->getDialect()))
    return hiddenIntegers(op) != nullptr;
  if (!rule)
    return isExpanded_ || !isa<graph::Decomposable>(op);
  return rule->isNone();
}

bool Activity::isActive(Operation *op) const {
  if (keptForValue_.contains(op))
    return false;
  if (llvm::any_of(op->getOperands(), [&](Value value) { return isActive(value); }) ||
      program::hasEffects(op))
    return true;
  return op->getNumRegions() > 0 &&
         llvm::any_of(op->getResults(), [&](Value value) { return isActive(value); });
}

void Activity::follow(Block &block, Operation *first, Operation *last) {
  for (Operation *op = first ? first : &block.front(); op != last; op = op->getNextNode())
    followOperator(op);
}

void Activity::followOperator(Operation *op) {
  if (auto loop = dyn_cast<graph::LoopOp>(op))
    return follow(loop);
  if (isa<graph::IfOp, program::IfOp, program::MatchOp>(op))
    return followRegions(op);
  if (!isActive(op) || op->hasAttr(kUnchanging))
    return;
  const graph::GradientRule *rule = graph::findGradientRule(op);
  for (Value result : op->getResults())
    if (mayChange(op, rule, result.getType()))
      mark(result);
}

void Activity::followRegions(Operation *op) {
  for (Region &region : op->getRegions()) {
    follow(region.front());
    for (auto [result, value] :
         llvm::zip(op->getResults(), region.front().getTerminator()->getOperands()))
      if (isActive(value))
        mark(result);
  }
}

void Activity::follow(graph::LoopOp loop) {
  Block &body = loop.getBody().front();
  auto yielded = cast<graph::YieldOp>(body.getTerminator()).getValues();
  size_t carried = loop.getCarried().size();
  for (auto [argument, value] : llvm::zip(body.getArguments().drop_front(2), loop.getCarried()))
    if (isActive(value))
      mark(argument);
  for (bool changed = true; changed;) {
    changed = false;
    follow(body);
    for (size_t i = 0; i < carried; ++i)
      if (isActive(yielded[1 + i]))
        changed |= mark(body.getArgument(unsigned(2 + i)));
  }
  for (auto [i, result] : llvm::enumerate(loop.getResults()))
    if (isActive(yielded[1 + i]) || (i < carried && isActive(body.getArgument(unsigned(2 + i)))))
      mark(result);
}

} // namespace tensmith::autodiff

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

bool Activity::mark(Value value) {
  bool mayDepend =
      graph::isDifferentiable(value.getType()) || isa<program::ObjectType>(value.getType());
  return mayDepend && active_.insert(value).second;
}

bool Activity::isActive(Operation *op) const {
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
  const graph::GradientRule *rule = graph::findGradientRule(op->getName());
  if ((rule && rule->isZero) || !isActive(op))
    return;
  for (Value result : op->getResults())
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

// Forward mode of programs: calls, branches, and data; see Forward.h.
#include "compiler/autodiff/Forward.h"

#include "compiler/program/Effects.h"

#include "mlir/IR/SymbolTable.h"

using namespace mlir;

namespace tensmith::autodiff {

Type Forward::tangentType(Type type) {
  return graph::isDifferentiable(type) ? type : Type(pushed_->changes.typeOf(type));
}

/// The tangent as a change, whatever the value is.
Value Forward::changeOf(Value value) {
  Type type = value.getType();
  Value change = tangent(value);
  if (change && isa<TensorType>(type)) {
    change = withTypeOf(code_, change, value);
    return change ? pushed_->changes.some(change, type) : change;
  }
  return pushed_->changes.orNone(change, type);
}

LogicalResult Forward::pushConstruct(program::ConstructOp construct) {
  if (failed(pushed_->changes.structureOf(construct.getType(), construct)))
    return failure();
  SmallVector<Value> fields;
  for (Value value : construct.getFields()) {
    fields.push_back(changeOf(value));
    if (!fields.back())
      return failure();
  }
  give(construct, pushed_->changes.construct(construct.getType(), construct.getTag(), fields));
  return success();
}

LogicalResult Forward::pushField(program::FieldOp field) {
  Value whole = field.getValue(), change = tangent(whole);
  if (!change || !activity_.isActive(field.getResult()))
    return success();
  auto structure = pushed_->changes.structureOf(whole.getType(), field);
  if (failed(structure))
    return failure();
  auto parts = pushed_->changes.fields(change, whole.getType(), field.getTag());
  if (field.getIndex() >= parts.size())
    return reportNoGradient(field, "of a value that its type does not have");
  Value part = parts[field.getIndex()];
  if (part && isa<TensorType>(field.getType()))
    part = pushed_->changes.tensor(part, field);
  if (part)
    give(field, part);
  return success();
}

/// The type of a result with its tangent, by what they are, so that one may be given on as another.
program::ObjectType Forward::pairType(Type result) {
  Type tangent = tangentType(result);
  auto change = pushed_->changes.typeOf(result);
  auto type =
      program::ObjectType::get(change.getContext(), ("Pushed[" + change.getText() + "]").str());
  if (!pushed_->changes.structures().find(type))
    pushed_->changes.structures().add(type, {{result, tangent}});
  return type;
}

/// A result with its tangent; null where an error was reported.
Value Forward::pair(Value result) {
  Value change = tangentOrZeros(result);
  Type type = pairType(result.getType());
  auto first = result.getDefiningOp<program::FieldOp>();
  auto second = change ? change.getDefiningOp<program::FieldOp>() : program::FieldOp();
  if (first && second && first.getValue() == second.getValue() &&
      first.getValue().getType() == type && first.getIndex() == 0 && second.getIndex() == 1)
    return first.getValue();
  if (!change)
    return {};
  return code_.builder.create<program::ConstructOp>(code_.graph.location, type,
                                                    ValueRange{result, change}, 0);
}

FailureOr<std::string> Forward::functionOf(const ActiveCall &call) {
  if (auto it = pushed_->functions.find(call.key); it != pushed_->functions.end())
    return it->second;
  func::FuncOp function = call.callee;
  auto push = cast<func::FuncOp>(function->clone());
  code_.graph.shapes.forget(push);
  push.setName((function.getName() + ".push").str());
  SymbolTable(pushed_->module).insert(push);
  std::string name = push.getName().str();
  pushed_->functions[call.key] = name; // before its body, whose calls of itself are of this
  OpBuilder::InsertionGuard guard(code_.builder);
  Block &block = push.getBody().front();
  SmallVector<Value> wanted = call.wanted(block);
  Activity activity(wanted);
  followAndExpand(code_, block, activity);
  Forward inner(code_, activity, pushed_);
  for (Value value : wanted)
    inner.give(value, block.addArgument(tangentType(value.getType()), push.getLoc()));
  if (failed(inner.run(block)))
    return failure();
  Operation *exit = block.getTerminator();
  code_.builder.setInsertionPoint(exit);
  code_.graph.location = push.getLoc();
  Value both = inner.pair(exit->getOperand(0));
  if (!both)
    return failure();
  exit->setOperand(0, both);
  push.setFunctionType(
      code_.builder.getFunctionType(block.getArgumentTypes(), exit->getOperandTypes()));
  return name;
}

/// What gives the result with its tangent takes the operator's place.
void Forward::takeApart(Operation *op, Value both) {
  code_.builder.setInsertionPointAfterValue(both);
  Value old = op->getResult(0);
  Value result = pushed_->changes.field(both, 0, old.getType());
  // Of data always, so that both may be given on as they are (pair).
  if (graph::isDifferentiable(old.getType()) || isa<program::ObjectType>(old.getType())) {
    activity_.add(result);
    give(result, pushed_->changes.field(both, 1, tangentType(old.getType())));
  }
  old.replaceAllUsesWith(result);
  activity_.retire(op);
}

LogicalResult Forward::pushCall(program::CallOp call) {
  if (!activity_.isActive(call.getResult()) && !call.getEffectful())
    return success();
  auto known = activeCall(pushed_->module, call, activity_);
  auto function = failed(known) ? FailureOr<std::string>() : functionOf(*known);
  if (failed(function))
    return failure();
  code_.graph.location = call.getLoc();
  SmallVector<Value> inputs(call.getInputs());
  for (auto [input, isActive] : llvm::zip_equal(call.getInputs(), known->active))
    if (isActive)
      inputs.push_back(tangentOrZeros(input));
  if (llvm::is_contained(inputs, Value()))
    return failure();
  Type both = pairType(call.getType());
  takeApart(call, code_.builder.create<program::CallOp>(call.getLoc(), both, inputs, *function,
                                                        call.getEffectful()));
  return success();
}

LogicalResult Forward::pushChoice(Operation *choice) {
  Value old = choice->getResult(0);
  if (!activity_.isActive(old) && !program::hasEffects(choice))
    return success();
  for (Region &region : choice->getRegions()) {
    if (failed(run(region.front())))
      return failure();
    Operation *yield = region.front().getTerminator();
    code_.builder.setInsertionPoint(yield);
    code_.graph.location = choice->getLoc();
    Value both = pair(yield->getOperand(0));
    if (!both)
      return failure();
    yield->setOperand(0, both);
  }
  code_.builder.setInsertionPoint(choice);
  OperationState state(choice->getLoc(), choice->getName());
  state.addOperands(choice->getOperands());
  state.addTypes(Type(pairType(old.getType())));
  for (Region &region : choice->getRegions())
    state.addRegion()->takeBody(region);
  takeApart(choice, code_.builder.create(state)->getResult(0));
  return success();
}

} // namespace tensmith::autodiff

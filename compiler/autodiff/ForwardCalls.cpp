// Forward mode of programs: calls, branches, and data; see Forward.h.
#include "compiler/autodiff/Forward.h"

#include "compiler/program/Effects.h"

#include "mlir/IR/SymbolTable.h"

using namespace mlir;

namespace tensmith::autodiff {

Type Forward::tangentType(Value value) {
  Type type = value.getType();
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

FailureOr<Pushed::Function> Forward::functionOf(func::FuncOp function, ArrayRef<bool> active) {
  std::string key = function.getName().str() + "/";
  for (bool isActive : active)
    key += isActive ? '1' : '0';
  if (auto it = pushed_->functions.find(key); it != pushed_->functions.end())
    return it->second;
  auto push = cast<func::FuncOp>(function->clone());
  push.setName((function.getName() + ".push").str());
  SymbolTable(pushed_->module).insert(push);
  std::string name = push.getName().str();
  Pushed::Function made{name, pushed_->changes.newType(name, {})};
  pushed_->functions[key] = made; // before its body, whose calls of itself are of this
  OpBuilder::InsertionGuard guard(code_.builder);
  Block &block = push.getBody().front();
  SmallVector<Value> wanted;
  for (auto [argument, isActive] : llvm::zip_equal(block.getArguments(), active))
    if (isActive)
      wanted.push_back(argument);
  Activity activity(wanted);
  activity.follow(block);
  expandOperators(code_, block, activity);
  Forward inner(code_, activity, pushed_);
  for (Value value : wanted)
    inner.give(value, block.addArgument(tangentType(value), push.getLoc()));
  if (failed(inner.run(block)))
    return failure();
  Operation *exit = block.getTerminator();
  code_.builder.setInsertionPoint(exit);
  code_.graph.location = push.getLoc();
  Value result = exit->getOperand(0), change = inner.tangentOrZeros(result);
  if (!change)
    return failure();
  exit->setOperand(0, code_.builder.create<program::ConstructOp>(push.getLoc(), made.both,
                                                                 ValueRange{result, change}, 0));
  push.setFunctionType(
      code_.builder.getFunctionType(block.getArgumentTypes(), exit->getOperandTypes()));
  pushed_->changes.structures().add(made.both, {{result.getType(), change.getType()}});
  return made;
}

/// What gives the result with its tangent takes the operator's place.
void Forward::takeApart(Operation *op, Value both) {
  code_.builder.setInsertionPointAfterValue(both);
  Value old = op->getResult(0);
  Value result = pushed_->changes.field(both, 0, old.getType());
  if (Changes::isPossible(old.getType())) {
    activity_.add(result);
    give(result, pushed_->changes.field(both, 1, tangentType(old)));
  }
  old.replaceAllUsesWith(result);
  activity_.retire(op);
}

LogicalResult Forward::pushCall(program::CallOp call) {
  if (!activity_.isActive(call.getResult()) && !call.getEffectful())
    return success();
  auto callee = pushed_->module.lookupSymbol<func::FuncOp>(call.getProcedure());
  if (!callee)
    return reportNoGradient(call, "where nothing is known of the function");
  SmallVector<bool> active;
  for (Value input : call.getInputs())
    active.push_back(activity_.isActive(input));
  auto function = functionOf(callee, active);
  if (failed(function))
    return failure();
  code_.graph.location = call.getLoc();
  SmallVector<Value> inputs(call.getInputs());
  for (auto [input, isActive] : llvm::zip_equal(call.getInputs(), active))
    if (isActive)
      inputs.push_back(tangentOrZeros(input));
  if (llvm::is_contained(inputs, Value()))
    return failure();
  takeApart(call, code_.builder.create<program::CallOp>(call.getLoc(), function->both, inputs,
                                                        function->name, call.getEffectful()));
  return success();
}

LogicalResult Forward::pushChoice(Operation *choice) {
  Value old = choice->getResult(0);
  if (!activity_.isActive(old) && !program::hasEffects(choice))
    return success();
  auto both = pushed_->changes.newType("pushed", {{old.getType(), tangentType(old)}});
  for (Region &region : choice->getRegions()) {
    if (failed(run(region.front())))
      return failure();
    Operation *yield = region.front().getTerminator();
    code_.builder.setInsertionPoint(yield);
    code_.graph.location = choice->getLoc();
    Value result = yield->getOperand(0), change = tangentOrZeros(result);
    if (!change)
      return failure();
    yield->setOperand(0, code_.builder.create<program::ConstructOp>(choice->getLoc(), both,
                                                                    ValueRange{result, change}, 0));
  }
  code_.builder.setInsertionPoint(choice);
  OperationState state(choice->getLoc(), choice->getName());
  state.addOperands(choice->getOperands());
  state.addTypes(Type(both));
  for (Region &region : choice->getRegions())
    state.addRegion()->takeBody(region);
  takeApart(choice, code_.builder.create(state)->getResult(0));
  return success();
}

} // namespace tensmith::autodiff

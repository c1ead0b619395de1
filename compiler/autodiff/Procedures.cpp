// Recording and going back; see Procedures.h.
#include "compiler/autodiff/Procedures.h"

#include "mlir/IR/SymbolTable.h"

using namespace mlir;

namespace tensmith::autodiff {

Type Procedures::object() { return program::ObjectType::get(module_.getContext(), "tape"); }

Value Procedures::tuple(ArrayRef<Value> fields) {
  return code_.builder.create<program::ConstructOp>(code_.graph.location, object(), fields, 0);
}

Value Procedures::field(Value tuple, unsigned index, Type type) {
  return code_.builder.create<program::FieldOp>(code_.graph.location, type, tuple, index);
}

/// Builds the way back behind the forward operators, whose values it uses, and moves it.
LogicalResult Procedures::reverseBlock(Reverse &inner, Block &forward, Block &backward,
                                       Value cotangent) {
  OpBuilder::InsertionGuard guard(code_.builder);
  Operation *exit = forward.getTerminator();
  code_.builder.setInsertionPoint(exit);
  Operation *marker =
      code_.builder.create<graph::NoneOp>(exit->getLoc(), code_.builder.getNoneType());
  if (failed(inner.add(exit->getOperand(0), cotangent)))
    return failure();
  if (marker != &forward.front() && failed(inner.run(&forward.front(), marker->getPrevNode())))
    return failure();
  backward.getOperations().splice(backward.end(), forward.getOperations(),
                                  std::next(marker->getIterator()), exit->getIterator());
  marker->erase();
  return success();
}

/// A tuple of the region's values that the way back uses, before the region's end.
Value Procedures::save(Region &forward, Block &backward) {
  llvm::SetVector<Value> used;
  backward.walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      if (operand.getParentRegion() == &forward)
        used.insert(operand);
  });
  OpBuilder::InsertionGuard guard(code_.builder);
  SmallVector<Value> fields;
  for (Value value : used) {
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<graph::ConstantOp, graph::NoneOp, graph::IotaOp>(op)) {
      fields.push_back(value);
      continue;
    }
    code_.builder.setInsertionPointToStart(&backward);
    Value again = code_.builder.clone(*op)->getResult(0);
    value.replaceUsesWithIf(again, [&](OpOperand &use) {
      return backward.getParent()->isAncestor(use.getOwner()->getParentRegion());
    });
  }
  code_.builder.setInsertionPoint(forward.front().getTerminator());
  return tuple(fields);
}

/// The saved values are the tape's fields on the way back.
void Procedures::restore(Block &backward, Value tape, Value saved) {
  OpBuilder::InsertionGuard guard(code_.builder);
  code_.builder.setInsertionPointToStart(&backward);
  auto fields = saved.getDefiningOp<program::ConstructOp>().getFields();
  for (auto [index, value] : llvm::enumerate(fields)) {
    Value again = field(tape, unsigned(index), value.getType());
    value.replaceUsesWithIf(again, [&](OpOperand &use) {
      return backward.getParent()->isAncestor(use.getOwner()->getParentRegion());
    });
  }
}

LogicalResult Procedures::build(func::FuncOp record, func::FuncOp pull, ArrayRef<bool> active) {
  OpBuilder::InsertionGuard guard(code_.builder);
  Block &forward = record.getBody().front();
  Location location = record.getLoc();
  Type type = forward.getTerminator()->getOperand(0).getType();
  SmallVector<Value> wanted;
  for (auto [argument, isActive] : llvm::zip_equal(forward.getArguments(), active))
    if (isActive)
      wanted.push_back(argument);
  Activity activity(wanted);
  activity.follow(forward);
  expandOperators(code_, forward, activity);

  Block *backward = new Block();
  pull.getBody().push_back(backward);
  Value tape = backward->addArgument(object(), location);
  Value cotangent = backward->addArgument(type, location);
  Reverse inner(code_, activity, this);
  if (failed(reverseBlock(inner, forward, *backward, cotangent)))
    return failure();
  code_.graph.location = location;
  code_.builder.setInsertionPointToEnd(backward);
  SmallVector<Value> results;
  for (Value value : wanted)
    results.push_back(inner.takeOrZeros(value));
  if (llvm::is_contained(results, Value()))
    return failure();
  code_.builder.create<func::ReturnOp>(location, tuple(results));
  Value saved = save(record.getBody(), *backward);
  restore(*backward, tape, saved);
  Operation *exit = forward.getTerminator();
  code_.builder.setInsertionPoint(exit);
  exit->setOperand(0, tuple({exit->getOperand(0), saved}));
  record.setFunctionType(
      code_.builder.getFunctionType(forward.getArgumentTypes(), exit->getOperandTypes()));
  removeUnused(activity, &backward->front(), backward->getTerminator()->getPrevNode());
  return success();
}

FailureOr<Procedures::Pair> Procedures::gradientOf(func::FuncOp function, ArrayRef<bool> active) {
  std::string key = function.getName().str() + "/";
  for (bool isActive : active)
    key += isActive ? '1' : '0';
  if (auto it = pairs_.find(key); it != pairs_.end())
    return it->second;
  SymbolTable symbols(module_);
  auto record = cast<func::FuncOp>(function->clone());
  record.setName((function.getName() + ".record").str());
  symbols.insert(record);
  Type type = record.getResultTypes()[0];
  auto pull = func::FuncOp::create(function.getLoc(), (function.getName() + ".pull").str(),
                                   code_.builder.getFunctionType({object(), type}, object()));
  pull->setAttr(program::kProcedure, code_.builder.getUnitAttr());
  symbols.insert(pull);
  Pair pair{record.getName().str(), pull.getName().str()};
  pairs_[key] = pair; // before its body, whose calls of itself are of this
  if (failed(build(record, pull, active)))
    return failure();
  return pair;
}

LogicalResult Procedures::pullCall(program::CallOp call, Value cotangent, Reverse &reverse,
                                   Activity &activity) {
  auto callee = module_.lookupSymbol<func::FuncOp>(call.getProcedure());
  if (!callee || call.getEffectful())
    return reportNoGradient(call, "where it has effects");
  SmallVector<bool> active;
  for (Value input : call.getInputs()) {
    active.push_back(activity.isActive(input));
    if (active.back() && !graph::isDifferentiable(input.getType()))
      return reportNoGradient(call, "with respect to what is no tensor");
  }
  auto pair = gradientOf(callee, active);
  if (failed(pair))
    return failure();
  code_.graph.location = call.getLoc();
  Value tape;
  {
    OpBuilder::InsertionGuard guard(code_.builder);
    code_.builder.setInsertionPoint(call);
    Value recorded = code_.builder.create<program::CallOp>(call.getLoc(), object(),
                                                           call.getInputs(), pair->record);
    Value result = field(recorded, 0, call.getType());
    tape = field(recorded, 1, object());
    activity.add(result);
    call.getResult().replaceAllUsesWith(result);
  }
  Value given = withType(code_, cotangent, call.getType());
  Value results = code_.builder.create<program::CallOp>(call.getLoc(), object(),
                                                        ValueRange{tape, given}, pair->pull);
  unsigned index = 0;
  for (auto [input, isActive] : llvm::zip_equal(call.getInputs(), active))
    if (isActive && failed(reverse.add(input, field(results, index++, input.getType()))))
      return failure();
  activity.retire(call);
  return success();
}

LogicalResult Procedures::pullChoice(Operation *choice, Value cotangent, Reverse &reverse,
                                     Activity &activity) {
  Location location = choice->getLoc();
  OperationState state(location, choice->getName());
  state.addOperands(choice->getOperands());
  state.addTypes(object());
  for (unsigned i = 0; i < choice->getNumRegions(); ++i)
    state.addRegion()->push_back(new Block());
  Operation *backward = code_.builder.create(state);
  std::vector<Reverse> inner;
  llvm::SetVector<Value> reached;
  for (auto [region, back] : llvm::zip_equal(choice->getRegions(), backward->getRegions())) {
    inner.emplace_back(code_, activity, this);
    if (failed(reverseBlock(inner.back(), region.front(), back.front(), cotangent)))
      return failure();
    for (Value value : inner.back().reached())
      reached.insert(value);
  }
  code_.graph.location = location;
  OpBuilder::InsertionGuard guard(code_.builder);
  SmallVector<Value> saved;
  for (auto [region, back, own] :
       llvm::zip_equal(choice->getRegions(), backward->getRegions(), inner)) {
    code_.builder.setInsertionPointToEnd(&back.front());
    SmallVector<Value> results;
    for (Value value : reached)
      results.push_back(own.takeOrZeros(value));
    if (llvm::is_contained(results, Value()))
      return failure();
    code_.builder.create<program::YieldOp>(location, tuple(results));
    saved.push_back(save(region, back.front()));
    code_.builder.setInsertionPoint(region.front().getTerminator());
    Operation *yield = region.front().getTerminator();
    yield->setOperand(0, tuple({yield->getOperand(0), saved.back()}));
  }
  // The branch itself gives its result and the tape of the side that it took.
  code_.builder.setInsertionPoint(choice);
  OperationState recording(location, choice->getName());
  recording.addOperands(choice->getOperands());
  recording.addTypes(object());
  for (Region &region : choice->getRegions())
    recording.addRegion()->takeBody(region);
  Value recorded = code_.builder.create(recording)->getResult(0);
  Value result = field(recorded, 0, choice->getResult(0).getType());
  Value tape = field(recorded, 1, object());
  activity.add(result);
  choice->getResult(0).replaceAllUsesWith(result);
  activity.retire(choice);
  for (auto [back, own] : llvm::zip_equal(backward->getRegions(), saved))
    restore(back.front(), tape, own);
  code_.builder.setInsertionPointAfter(backward);
  for (auto [index, value] : llvm::enumerate(reached))
    if (failed(reverse.add(value, field(backward->getResult(0), unsigned(index), value.getType()))))
      return failure();
  return success();
}

} // namespace tensmith::autodiff

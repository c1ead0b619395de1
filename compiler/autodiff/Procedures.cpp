// Recording and going back; see Procedures.h.
#include "compiler/autodiff/Procedures.h"

#include "compiler/program/Effects.h"
#include "compiler/program/PartialEvaluation.h"

#include "mlir/IR/SymbolTable.h"

using namespace mlir;

namespace tensmith::autodiff {

Value Procedures::construct(program::ObjectType type, ArrayRef<Value> fields, uint64_t tag) {
  return code_.builder.create<program::ConstructOp>(code_.graph.location, type, fields, tag);
}

/// Builds the way back behind the forward operators, whose values it uses, and moves it.
LogicalResult Procedures::reverseBlock(Reverse &inner, Block &forward, Block &backward,
                                       Value cotangent) {
  OpBuilder::InsertionGuard guard(code_.builder);
  Operation *exit = forward.getTerminator();
  code_.builder.setInsertionPoint(exit);
  Operation *marker =
      code_.builder.create<graph::NoneOp>(exit->getLoc(), code_.builder.getNoneType());
  if (cotangent && failed(isa<program::ObjectType>(cotangent.getType())
                              ? inner.addChange(exit->getOperand(0), cotangent)
                              : inner.add(exit->getOperand(0), cotangent)))
    return failure();
  if (marker != &forward.front() && failed(inner.run(&forward.front(), marker->getPrevNode())))
    return failure();
  backward.getOperations().splice(backward.end(), forward.getOperations(),
                                  std::next(marker->getIterator()), exit->getIterator());
  marker->erase();
  return success();
}

/// A value of no elements that has the sizes of another: one dimension more, of size 0.
Value Procedures::sizesOf(Value value) {
  auto dims = code_.dims(value);
  dims.push_back(code_.size(1));
  return code_.sliceDim(code_.reshape(value, dims), int64_t(dims.size()) - 1, 0, 1, code_.size(0));
}

/// Of a value of which the way back uses the shape alone, sizes are kept in place of elements; and
/// in a type, so that they still tell those that other types have names for. They are taken where
/// the value is made: behind the calls that follow all values of a recursion would be there at
/// once.
void Procedures::keepSizes(Region &forward, Block &backward) {
  auto isInside = [&](Operation *op) {
    return backward.getParent()->isAncestor(op->getParentRegion());
  };
  llvm::MapVector<Value, SmallVector<graph::ShapeOp>> shapes;
  backward.walk([&](graph::ShapeOp shape) { shapes[shape->getOperand(0)].push_back(shape); });
  for (auto &[value, all] : shapes) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    bool isKept = llvm::any_of(value.getUsers(), [&](Operation *user) {
      return isInside(user) && !isa<graph::ShapeOp>(user);
    });
    if (value.getParentRegion() != &forward || isKept || !type || !hasExpressions(type))
      continue;
    OpBuilder::InsertionGuard guard(code_.builder);
    code_.builder.setInsertionPointAfterValue(value);
    Value sizes = sizesOf(value);
    for (graph::ShapeOp shape : all) {
      auto clamped = [&](int64_t dim) { // counted from the last dimension where negative
        return std::clamp<int64_t>(dim < 0 ? dim + type.getRank() : dim, 0, type.getRank());
      };
      shape.setStart(clamped(int64_t(shape.getStart())));
      shape.setEnd(clamped(shape.getEnd() ? int64_t(*shape.getEnd()) : type.getRank()));
      shape.getXMutable().assign(sizes);
    }
  }
}

/// The region's values that the way back uses.
SmallVector<Value> Procedures::valuesToSave(Region &forward, Block &backward) {
  keepSizes(forward, backward);
  llvm::SetVector<Value> used;
  backward.walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      if (operand.getParentRegion() == &forward)
        used.insert(operand);
  });
  OpBuilder::InsertionGuard guard(code_.builder);
  SmallVector<Value> saved;
  for (Value value : used) {
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<graph::ConstantOp, graph::NoneOp, graph::IotaOp>(op)) {
      saved.push_back(value);
      continue;
    }
    code_.builder.setInsertionPointToStart(&backward);
    Value again = code_.builder.clone(*op)->getResult(0);
    value.replaceUsesWithIf(again, [&](OpOperand &use) {
      return backward.getParent()->isAncestor(use.getOwner()->getParentRegion());
    });
  }
  return saved;
}

/// The saved values are the tape's fields on the way back.
void Procedures::restore(Block &backward, Value tape, ArrayRef<Value> saved, uint64_t tag) {
  OpBuilder::InsertionGuard guard(code_.builder);
  code_.builder.setInsertionPointToStart(&backward);
  for (auto [index, one] : llvm::enumerate(saved)) {
    Value value = one, again = changes_.field(tape, index, value.getType(), tag);
    value.replaceUsesWithIf(again, [&](OpOperand &use) {
      return backward.getParent()->isAncestor(use.getOwner()->getParentRegion());
    });
  }
}

LogicalResult Procedures::build(func::FuncOp record, func::FuncOp pull, const ActiveCall &call,
                                const Pair &pair) {
  OpBuilder::InsertionGuard guard(code_.builder);
  Block &forward = record.getBody().front();
  Location location = record.getLoc();
  Type type = forward.getTerminator()->getOperand(0).getType();
  SmallVector<Value> wanted = call.wanted(forward);
  Activity activity(wanted);
  followAndExpand(code_, forward, activity);

  Block *backward = new Block();
  pull.getBody().push_back(backward);
  Value tape = backward->addArgument(pair.tape, location);
  Value cotangent = backward->addArgument(pull.getArgumentTypes()[1], location);
  Reverse inner(code_, activity, this, /*keepsRows=*/true);
  if (failed(reverseBlock(inner, forward, *backward, cotangent)))
    return failure();
  code_.graph.location = location;
  code_.builder.setInsertionPointToEnd(backward);
  SmallVector<Value> results;
  for (auto [value, gathers] : llvm::zip_equal(wanted, pair.gathers))
    results.push_back(gathers ? changes_.orNone(inner.takeChange(value), value.getType())
                              : inner.takeOrZeros(value));
  if (llvm::is_contained(results, Value()))
    return failure();
  code_.builder.create<func::ReturnOp>(location, construct(pair.pulled, results));
  SmallVector<Value> saved = valuesToSave(record.getBody(), *backward);
  Operation *exit = forward.getTerminator();
  code_.builder.setInsertionPoint(exit);
  Value recorded = construct(pair.tape, saved);
  restore(*backward, tape, saved, 0);
  exit->setOperand(0, construct(pair.recorded, {exit->getOperand(0), recorded}));
  record.setFunctionType(
      code_.builder.getFunctionType(forward.getArgumentTypes(), exit->getOperandTypes()));
  // What the types are made of is known now, for derivatives of this one.
  auto types = [](ValueRange values) { return SmallVector<Type>(values.getTypes()); };
  changes_.structures().add(pair.tape, {types(saved)});
  changes_.structures().add(pair.recorded, {{type, pair.tape}});
  changes_.structures().add(pair.pulled, {types(results)});
  removeUnused(activity, &backward->front(), backward->getTerminator()->getPrevNode());
  return success();
}

FailureOr<Procedures::Pair> Procedures::gradientOf(const ActiveCall &call) {
  if (auto it = pairs_.find(call.key); it != pairs_.end())
    return it->second;
  func::FuncOp function = call.callee;
  SymbolTable symbols(module_);
  auto record = cast<func::FuncOp>(function->clone());
  code_.graph.shapes.forget(record);
  record.setName((function.getName() + ".record").str());
  symbols.insert(record);
  std::string name = record.getName().str();
  Pair pair{name,
            "",
            changes_.newType(name, {}),
            changes_.newType(name + ".tape", {}),
            changes_.newType(name + ".pull", {}),
            {}};
  for (Value argument : call.wanted(record.getBody().front()))
    pair.gathers.push_back(isa<program::ObjectType>(argument.getType()) || isHandedOn(argument));
  Type type = record.getResultTypes()[0];
  if (isa<program::ObjectType>(type) || program::hasEffects(function))
    type = changes_.typeOf(type);
  auto pull = func::FuncOp::create(function.getLoc(), (function.getName() + ".pull").str(),
                                   code_.builder.getFunctionType({pair.tape, type}, pair.pulled));
  pull->setAttr(program::kProcedure, code_.builder.getUnitAttr());
  symbols.insert(pull);
  pair.pull = pull.getName().str();
  pairs_[call.key] = pair; // before its body, whose calls of itself are of this
  if (failed(build(record, pull, call, pair)))
    return failure();
  return pair;
}

LogicalResult Procedures::pullCall(program::CallOp call, Value cotangent, Reverse &reverse,
                                   Activity &activity) {
  if (call->hasAttr(kMadeAgain))
    return pullAgain(call, cotangent, reverse, activity);
  if (program::CallOp other = checkpoints_.segmented(call, activity)) {
    activity.add(other.getResult());
    call.getResult().replaceAllUsesWith(other.getResult());
    activity.retire(call);
    call = other;
  }
  auto known = activeCall(module_, call, activity);
  auto pair = failed(known) ? FailureOr<Pair>() : gradientOf(*known);
  if (failed(pair))
    return failure();
  code_.graph.location = call.getLoc();
  Value tape, result;
  {
    OpBuilder::InsertionGuard guard(code_.builder);
    code_.builder.setInsertionPoint(call);
    Value recorded = code_.builder.create<program::CallOp>(
        call.getLoc(), pair->recorded, call.getInputs(), pair->record, call.getEffectful());
    result = changes_.field(recorded, 0, call.getType());
    tape = changes_.field(recorded, 1, pair->tape);
    activity.add(result);
    call.getResult().replaceAllUsesWith(result);
  }
  // What acts on references goes back even where its result has got nothing.
  Value given = withTypeOf(code_, cotangent, result);
  if (call.getEffectful() && !isa<program::ObjectType>(call.getType()))
    given = given ? changes_.some(given, call.getType()) : given;
  Value results = code_.builder.create<program::CallOp>(
      call.getLoc(), pair->pulled, ValueRange{tape, changes_.orNone(given, call.getType())},
      pair->pull, call.getEffectful());
  if (failed(giveInputs(call, results, *known, *pair, reverse)))
    return failure();
  activity.retire(call);
  return success();
}

/// Hands what a call's way back gives to its inputs.
LogicalResult Procedures::giveInputs(program::CallOp call, Value results, const ActiveCall &known,
                                     const Pair &pair, Reverse &reverse) {
  unsigned index = 0;
  for (auto [input, isActive] : llvm::zip_equal(call.getInputs(), known.active)) {
    if (!isActive)
      continue;
    bool isChange = pair.gathers[index];
    Type type = isChange ? changes_.typeOf(input.getType()) : input.getType();
    Value part = changes_.field(results, index++, type);
    if (failed(isChange ? reverse.addChange(input, part) : reverse.add(input, part)))
      return failure();
  }
  return success();
}

/// The call stays as it is, so that no tape is kept of it, and is made again on the way back, with
/// one. Both are in one procedure that takes the cotangent, and so done when that is there: by
/// themselves the tapes of all such calls could be made at once.
LogicalResult Procedures::pullAgain(program::CallOp call, Value cotangent, Reverse &reverse,
                                    Activity &activity) {
  call->removeAttr(kMadeAgain);
  auto known = activeCall(module_, call, activity);
  auto pair = failed(known) ? FailureOr<Pair>() : gradientOf(*known);
  if (failed(pair))
    return failure();
  code_.graph.location = call.getLoc();
  Value given = changes_.orNone(withTypeOf(code_, cotangent, call), call.getType());
  SmallVector<Value> inputs(call.getInputs());
  inputs.push_back(given);
  func::FuncOp replay = replayOf(*known, *pair, given.getType());
  Value results = code_.builder.create<program::CallOp>(call.getLoc(), pair->pulled, inputs,
                                                        replay.getName(), false);
  return giveInputs(call, results, *known, *pair, reverse);
}

func::FuncOp Procedures::replayOf(const ActiveCall &call, const Pair &pair, Type cotangent) {
  func::FuncOp &replay = replays_[call.key];
  if (replay)
    return replay;
  OpBuilder::InsertionGuard guard(code_.builder);
  func::FuncOp callee = call.callee;
  Location location = callee.getLoc();
  SmallVector<Type> types(callee.getArgumentTypes());
  types.push_back(cotangent);
  replay = func::FuncOp::create(location, (callee.getName() + ".replay").str(),
                                code_.builder.getFunctionType(types, Type(pair.pulled)));
  replay->setAttr(program::kProcedure, code_.builder.getUnitAttr());
  replay->setAttr(program::kWhole, code_.builder.getUnitAttr());
  SymbolTable(module_).insert(replay);
  code_.builder.setInsertionPointToStart(replay.addEntryBlock());
  ValueRange own = replay.getArguments();
  Value recorded = code_.builder.create<program::CallOp>(location, pair.recorded, own.drop_back(),
                                                         pair.record, false);
  Value tape = changes_.field(recorded, 1, pair.tape);
  Value results = code_.builder.create<program::CallOp>(
      location, pair.pulled, ValueRange{tape, own.back()}, pair.pull, false);
  code_.builder.create<func::ReturnOp>(location, results);
  return replay;
}

LogicalResult Procedures::pullChoice(Operation *choice, Value cotangent, Reverse &reverse,
                                     Activity &activity) {
  Location location = choice->getLoc();
  auto function = choice->getParentOfType<func::FuncOp>();
  program::ObjectType tapeType = changes_.newType(function.getName().str() + ".choice", {});
  // The way back is a match on the tape, which is there once both sides are.
  Value place = code_.builder.create<UnrealizedConversionCastOp>(location, tapeType, ValueRange())
                    .getResult(0);
  unsigned count = choice->getNumRegions();
  auto backward =
      code_.builder.create<program::MatchOp>(location, code_.builder.getNoneType(), place, count);
  std::vector<Reverse> inner;
  llvm::SetVector<Value> reached;
  for (auto [region, back] : llvm::zip_equal(choice->getRegions(), backward->getRegions())) {
    back.push_back(new Block());
    inner.emplace_back(code_, activity, this, /*keepsRows=*/true);
    if (failed(reverseBlock(inner.back(), region.front(), back.front(), cotangent)))
      return failure();
    for (Value value : inner.back().reached())
      if (value.getParentRegion() != &region)
        reached.insert(value);
  }
  code_.graph.location = location;
  OpBuilder::InsertionGuard guard(code_.builder);
  SmallVector<bool> isChange;
  for (Value value : reached)
    isChange.push_back(isa<program::ObjectType>(value.getType()) ||
                       !llvm::all_of(inner, [&](Reverse &own) { return own.isDense(value); }));
  Type type = choice->getResult(0).getType();
  auto both = changes_.newType(function.getName().str() + ".recorded", {{type, tapeType}});
  program::ObjectType pulled;
  program::Constructors tapes;
  std::vector<SmallVector<Value>> saved;
  for (auto [tag, region] : llvm::enumerate(choice->getRegions())) {
    Block &back = backward->getRegion(unsigned(tag)).front();
    code_.builder.setInsertionPointToEnd(&back);
    SmallVector<Value> results;
    for (auto [value, change] : llvm::zip_equal(reached, isChange))
      results.push_back(change ? changes_.orNone(inner[tag].takeChange(value), value.getType())
                               : inner[tag].takeOrZeros(value));
    if (llvm::is_contained(results, Value()))
      return failure();
    if (!pulled)
      pulled = changes_.newType(function.getName().str() + ".pulled",
                                {SmallVector<Type>(ValueRange(results).getTypes())});
    code_.builder.create<program::YieldOp>(location, construct(pulled, results));
    saved.push_back(valuesToSave(region, back));
    tapes.emplace_back(ValueRange(saved.back()).getTypes());
    Operation *yield = region.front().getTerminator();
    code_.builder.setInsertionPoint(yield);
    Value tape = construct(tapeType, saved.back(), tag);
    yield->setOperand(0, construct(both, {yield->getOperand(0), tape}));
  }
  changes_.structures().add(tapeType, std::move(tapes));
  backward.getResult().setType(pulled);
  // The branch itself gives its result and the tape of the side that it took.
  code_.builder.setInsertionPoint(choice);
  OperationState recording(location, choice->getName());
  recording.addOperands(choice->getOperands());
  recording.addTypes(Type(both));
  for (Region &region : choice->getRegions())
    recording.addRegion()->takeBody(region);
  Value recorded = code_.builder.create(recording)->getResult(0);
  Value result = changes_.field(recorded, 0, type), tape = changes_.field(recorded, 1, tapeType);
  activity.add(result);
  choice->getResult(0).replaceAllUsesWith(result);
  activity.retire(choice);
  for (auto [tag, own] : llvm::enumerate(saved))
    restore(backward->getRegion(unsigned(tag)).front(), tape, own, tag);
  backward.getValueMutable().assign(tape);
  activity.retire(place.getDefiningOp());
  code_.builder.setInsertionPointAfter(backward);
  for (auto [index, value] : llvm::enumerate(reached)) {
    Type held = isChange[index] ? changes_.typeOf(value.getType()) : value.getType();
    Value part = changes_.field(backward, index, held);
    if (failed(isChange[index] ? reverse.addChange(value, part) : reverse.add(value, part)))
      return failure();
  }
  return success();
}

} // namespace tensmith::autodiff

// Recursion in parts; see Checkpoints.h.
#include "compiler/autodiff/Checkpoints.h"

#include "compiler/program/Effects.h"

#include "mlir/IR/SymbolTable.h"

using namespace mlir;

namespace tensmith::autodiff {
namespace {

constexpr int64_t kFirstSegment = 4; // iterations of the shortest segment
constexpr int64_t kLeaf = 64;        // iterations that the recursive plan keeps a tape of
constexpr int kParts = 4;            // of a level; three states against the fewest ways forward
constexpr uint64_t kDone = 0, kNext = 1;

/// What the block gives, where it is computed for that alone.
Operation *tailOf(Block &block) {
  Value given = block.getTerminator()->getOperand(0);
  Operation *op = given.getDefiningOp();
  return op && op->getBlock() == &block && given.hasOneUse() ? op : nullptr;
}

bool isCallOf(Operation *op, func::FuncOp function) {
  auto call = dyn_cast_or_null<program::CallOp>(op);
  return call && call.getProcedure() == function.getName();
}

/// Visits the function's calls of itself in tail position.
void visitTailCalls(Block &block, func::FuncOp function,
                    llvm::function_ref<void(program::CallOp)> visit) {
  Operation *tail = tailOf(block);
  if (isCallOf(tail, function))
    visit(cast<program::CallOp>(tail));
  else if (isa_and_nonnull<program::IfOp, program::MatchOp>(tail))
    for (Region &region : tail->getRegions())
      visitTailCalls(region.front(), function, visit);
}

} // namespace

bool isHandedOn(Value argument) {
  return llvm::any_of(argument.getUses(), [&](OpOperand &use) {
    return isa<program::CallOp>(use.getOwner()) ||
           (isa<graph::MatMulOp>(use.getOwner()) && use.getOperandNumber() == 1 &&
            Changes::mayBeRows(argument.getType()));
  });
}

/// A recursion that acts on references can't be run again. One whose arguments change their sizes
/// on the way has no type for its state.
bool Checkpoints::isLoop(func::FuncOp function) {
  if (plan_ == Checkpointing::None || made_.contains(function.getName()) ||
      program::hasEffects(function))
    return false;
  bool any = false, alike = true;
  visitTailCalls(function.getBody().front(), function, [&](program::CallOp call) {
    any = true;
    alike &= TypeRange(call.getInputs()) == TypeRange(function.getArgumentTypes()) &&
             call.getType() == function.getResultTypes()[0];
  });
  return any && alike;
}

/// Those that are active in some iteration of a recursion that begins with the call.
SmallVector<bool> Checkpoints::activeArguments(func::FuncOp function, program::CallOp call,
                                               const Activity &activity) {
  SmallVector<bool> active;
  for (Value input : call.getInputs())
    active.push_back(activity.isActive(input));
  Block &body = function.getBody().front();
  for (bool changed = true; changed;) {
    changed = false;
    SmallVector<Value> wanted;
    for (auto [argument, isActive] : llvm::zip_equal(body.getArguments(), active))
      if (isActive)
        wanted.push_back(argument);
    Activity own(wanted);
    own.endExpansion(); // of what is not expanded, anything may come
    own.follow(body);
    visitTailCalls(body, function, [&](program::CallOp tail) {
      for (auto [index, input] : llvm::enumerate(tail.getInputs()))
        if (!active[index] && own.isActive(input))
          active[index] = changed = true;
    });
  }
  return active;
}

program::CallOp Checkpoints::segmented(program::CallOp call, const Activity &activity) {
  auto callee = module_.lookupSymbol<func::FuncOp>(call.getProcedure());
  if (!callee || call.getEffectful() || !isLoop(callee))
    return {};
  active_ = activeArguments(callee, call, activity);
  func::FuncOp segments = segmentsOf(callee);
  OpBuilder::InsertionGuard guard(code_.builder);
  code_.builder.setInsertionPoint(call);
  code_.graph.location = call.getLoc();
  SmallVector<Value> inputs(call.getInputs());
  inputs.push_back(number(plan_ == Checkpointing::Segments ? kFirstSegment : 0));
  return code_.builder.create<program::CallOp>(call.getLoc(), call.getType(), inputs,
                                               segments.getName(), false);
}

func::FuncOp Checkpoints::segmentsOf(func::FuncOp function) {
  std::string key = function.getName().str() + "/";
  for (bool isActive : active_)
    key += isActive ? '1' : '0';
  func::FuncOp &segments = segmented_[key];
  if (segments)
    return segments;
  OpBuilder::InsertionGuard guard(code_.builder);
  code_.graph.location = function.getLoc();
  module_->setAttr(kCheckpointed, code_.builder.getUnitAttr());
  SmallVector<Type> arguments(function.getArgumentTypes());
  next_ = changes_.newType((function.getName() + ".next").str(),
                           {{function.getResultTypes()[0]}, arguments});
  func::FuncOp part = makeRun(function);
  if (plan_ == Checkpointing::Recursive)
    part = makeLevel(function, part);
  return segments = makeSegments(function, part);
}

func::FuncOp Checkpoints::begin(func::FuncOp function, StringRef suffix, Type result) {
  SmallVector<Type> types(function.getArgumentTypes());
  types.push_back(RankedTensorType::get({}, code_.builder.getI64Type()));
  auto made = func::FuncOp::create(function.getLoc(), (function.getName() + suffix).str(),
                                   code_.builder.getFunctionType(types, result));
  made->setAttr(program::kProcedure, code_.builder.getUnitAttr());
  SymbolTable(module_).insert(made);
  made_.insert(made.getName());
  code_.builder.setInsertionPointToStart(made.addEntryBlock());
  return made;
}

func::FuncOp Checkpoints::makeRun(func::FuncOp function) {
  auto run = cast<func::FuncOp>(function->clone());
  code_.graph.shapes.forget(run);
  run.setName((function.getName() + ".run").str());
  SymbolTable(module_).insert(run);
  made_.insert(run.getName());
  Block &body = run.getBody().front();
  body.addArgument(RankedTensorType::get({}, code_.builder.getI64Type()), run.getLoc());
  run.setFunctionType(code_.builder.getFunctionType(body.getArgumentTypes(), Type(next_)));
  giveNext(body, function, run);
  return run;
}

/// The block gives Done or Next where it gave a result.
void Checkpoints::giveNext(Block &block, func::FuncOp function, func::FuncOp run) {
  Operation *tail = tailOf(block), *end = block.getTerminator();
  if (isa_and_nonnull<program::IfOp, program::MatchOp>(tail)) {
    for (Region &region : tail->getRegions())
      giveNext(region.front(), function, run);
    tail->getResult(0).setType(next_);
    return;
  }
  code_.builder.setInsertionPoint(end);
  code_.graph.location = end->getLoc();
  auto construct = [&](ValueRange fields, uint64_t tag) {
    return code_.builder.create<program::ConstructOp>(code_.graph.location, next_, fields, tag);
  };
  if (!isCallOf(tail, function)) {
    end->setOperand(0, construct(end->getOperand(0), kDone));
    return;
  }
  SmallVector<Value> inputs(tail->getOperands());
  Value fuel = run.getArgument(unsigned(inputs.size()));
  // As from a call, which gives tensors but for what is handed on.
  SmallVector<int64_t> dense;
  for (auto [index, argument] : llvm::enumerate(function.getArguments()))
    if (isa<TensorType>(argument.getType()) && !isHandedOn(argument))
      dense.push_back(int64_t(index));
  auto next = [&] {
    program::ConstructOp made = construct(inputs, kNext);
    made->setAttr(kDenseFields, code_.builder.getDenseI64ArrayAttr(dense));
    return made.getResult();
  };
  Value result = choose(isAtMost(fuel, 1), next_, next,
                        [&] { return call(run, inputs, code_.sub(fuel, number(1)), false); });
  end->setOperand(0, result);
  tail->erase();
}

func::FuncOp Checkpoints::makeLevel(func::FuncOp function, func::FuncOp run) {
  func::FuncOp level = begin(function, ".level", next_);
  ValueRange own = level.getArguments();
  Value counter = own.back();
  Value result = choose(
      isAtMost(counter, 0), next_, [&] { return call(run, own.drop_back(), number(kLeaf), false); },
      [&] {
        Value below = code_.sub(counter, number(1));
        return levelParts(function, level, own.drop_back(), below, kParts);
      });
  code_.builder.create<func::ReturnOp>(function.getLoc(), result);
  return level;
}

/// So many parts of a level, one after the other, the last of which is not made again.
Value Checkpoints::levelParts(func::FuncOp function, func::FuncOp level, ValueRange arguments,
                              Value counter, int parts) {
  if (parts == 1)
    return call(level, arguments, counter, false);
  Value part = call(level, arguments, counter, true);
  return matchNext(
      part, next_, [&] { return part; },
      [&] { return levelParts(function, level, argumentsIn(part, function), counter, parts - 1); });
}

func::FuncOp Checkpoints::makeSegments(func::FuncOp function, func::FuncOp part) {
  Type result = function.getResultTypes()[0];
  func::FuncOp segments = begin(function, ".segments", result);
  ValueRange own = segments.getArguments();
  Value value = call(part, own.drop_back(), own.back(), true);
  Value given = matchNext(
      value, result, [&] { return changes_.field(value, 0, result, kDone); },
      [&] {
        Value counter = code_.add(own.back(), number(1));
        return call(segments, argumentsIn(value, function), counter, false);
      });
  code_.builder.create<func::ReturnOp>(function.getLoc(), given);
  return segments;
}

Value Checkpoints::choose(Value condition, Type type, Build yes, Build no) {
  Location location = code_.graph.location;
  auto choice = code_.builder.create<program::IfOp>(location, type, condition);
  OpBuilder::InsertionGuard guard(code_.builder);
  for (Region &region : choice->getRegions()) {
    code_.builder.createBlock(&region);
    Value given = region.getRegionNumber() == 0 ? yes() : no();
    code_.builder.create<program::YieldOp>(location, given);
  }
  return choice.getResult();
}

Value Checkpoints::matchNext(Value value, Type type, Build done, Build next) {
  Location location = code_.graph.location;
  auto match = code_.builder.create<program::MatchOp>(location, type, value, 2u);
  OpBuilder::InsertionGuard guard(code_.builder);
  for (Region &region : match->getRegions()) {
    code_.builder.createBlock(&region);
    Value given = region.getRegionNumber() == kDone ? done() : next();
    code_.builder.create<program::YieldOp>(location, given);
  }
  return match.getResult();
}

SmallVector<Value> Checkpoints::argumentsIn(Value value, func::FuncOp function) {
  SmallVector<Value> arguments;
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes())) {
    arguments.push_back(changes_.field(value, index, type, kNext));
    if (!active_[index])
      arguments.back().getDefiningOp()->setAttr(kUnchanging, code_.builder.getUnitAttr());
  }
  return arguments;
}

Value Checkpoints::call(func::FuncOp callee, ValueRange arguments, Value counter,
                        bool isMadeAgain) {
  SmallVector<Value> inputs(arguments);
  inputs.push_back(counter);
  auto made = code_.builder.create<program::CallOp>(
      code_.graph.location, callee.getResultTypes()[0], inputs, callee.getName(), false);
  if (isMadeAgain)
    made->setAttr(kMadeAgain, code_.builder.getUnitAttr());
  return made.getResult();
}

Value Checkpoints::number(int64_t value) {
  return code_.graph.scalar(code_.builder.getI64Type(), double(value));
}

Value Checkpoints::isAtMost(Value value, int64_t bound) {
  return code_.op("graph.less_or_equal", {value, number(bound)});
}

} // namespace tensmith::autodiff

// Calls: unfolded, left to a version of the function, or taken back; see PartialEvaluation.h.
#include "compiler/program/Program.h"
#include "compiler/program/Unfolding.h"

using namespace mlir;

namespace tensmith::program {
namespace {

constexpr int kMostTakenBack = 3;  // of a function's recursions, by the bounds
constexpr size_t kMostParts = 512; // of an argument that are looked at

/// Whether one of the arguments is a part of what stood in its place before.
bool descends(ValueRange arguments, ArrayRef<Value> before) {
  for (auto [argument, old] : llvm::zip_equal(arguments, before)) {
    if (argument == old)
      continue;
    SmallVector<Value> waiting = {old};
    for (size_t next = 0; next < waiting.size() && waiting.size() < kMostParts; ++next)
      if (auto construct = waiting[next].getDefiningOp<ConstructOp>()) {
        if (llvm::is_contained(construct.getFields(), argument))
          return true;
        llvm::append_range(waiting, construct.getFields());
      }
  }
  return false;
}

} // namespace

bool Unfolding::stepCall(Operation &op, Frame &frame) {
  SmallVector<Value> arguments;
  for (Value operand : op.getOperands())
    arguments.push_back(frame.values.lookup(operand));
  StringRef symbol;
  if (auto call = dyn_cast<CallOp>(op)) {
    symbol = call.getProcedure();
  } else {
    auto closure = arguments[0].getDefiningOp<ClosureOp>();
    if (!closure)
      return leaveApply(op, frame);
    symbol = closure.getProcedure();
    arguments.erase(arguments.begin());
    arguments.insert(arguments.begin(), closure.getCaptured().begin(), closure.getCaptured().end());
  }
  func::FuncOp callee = sources_.find(symbol);
  bool pure = !sources_.isEffectful(symbol);
  Residual::CallKey call = {callee.getOperation()};
  for (Value argument : arguments)
    call.push_back(argument.getAsOpaquePointer());
  if (Value result = pure ? residual_.findCall(call) : Value())
    if (adopt(frame, op.getResult(0), result))
      return true;
  std::vector<Knowledge> known = knowledgeOf(arguments, callee.getArgumentTypes());
  std::string key = symbol.str() + keyOf(known);
  Choice choice = choose(callee, arguments, frame, key);
  if (choice == Choice::Unwind)
    return false;
  Value result;
  if (choice == Choice::Unfold)
    result = unfold(op, callee, arguments, frame, key);
  if (!result && !unwinding_)
    result = leaveCall(op, callee, arguments, frame, std::move(known));
  if (!result)
    return false;
  if (pure)
    residual_.noteCall(std::move(call), result);
  return true;
}

Unfolding::Choice Unfolding::choose(func::FuncOp callee, ValueRange arguments, Frame &frame,
                                    StringRef key) {
  if (callee->hasAttr(kWhole) || refused_.contains(key))
    return Choice::Leave;
  bool known = llvm::any_of(arguments, [&](Value argument) {
    return isKnown(argument) || residual_.contentOf(argument);
  });
  Frame *inner = nullptr, *outer = nullptr;
  for (Frame *around = &frame; around; around = around->caller)
    if (around->source == callee) {
      inner = inner ? inner : around;
      outer = around == root_ ? outer : around;
    }
  StringRef name = callee.getName();
  if (inner)
    return known ? chooseAgain(arguments, *inner, outer ? *outer : *inner) : Choice::Leave;
  if (isSpent() || depth_ >= bounds_.deepest || bounded_.lookup(name) >= kMostTakenBack)
    return Choice::Leave;
  return known || arguments.empty() || sources_.isEffectful(name) || sources_.isShort(name)
             ? Choice::Unfold
             : Choice::Leave;
}

/// A call in a recursion, whose last and first calls those are.
Unfolding::Choice Unfolding::chooseAgain(ValueRange arguments, Frame &inner, Frame &outer) {
  bool decided = branches_ == inner.branches || descends(arguments, inner.arguments);
  bool bounded = report_.steps - outer.steps > bounds_.recursionSteps ||
                 residual_.size() - outer.mark.size > bounds_.recursionSize ||
                 depth_ >= bounds_.deepest || isSpent();
  if (decided && !bounded)
    return Choice::Unfold;
  Frame &target = bounded ? outer : inner;
  if (&target == root_)
    return Choice::Leave;
  if (bounded)
    ++bounded_[target.source.getName()];
  unwinding_ = &target;
  return Choice::Unwind;
}

Value Unfolding::unfold(Operation &site, func::FuncOp callee, ValueRange arguments, Frame &frame,
                        StringRef key) {
  Frame inner;
  inner.source = callee;
  inner.arguments.assign(arguments.begin(), arguments.end());
  inner.caller = &frame;
  inner.branches = branches_;
  inner.steps = report_.steps;
  inner.tags = tags_.size();
  inner.mark = residual_.mark();
  for (auto [parameter, argument] : llvm::zip_equal(callee.getArguments(), arguments))
    if (!adopt(inner, parameter, argument))
      return {};
  ++depth_;
  Value result = run(callee.getBody().front(), inner);
  --depth_;
  if (unwinding_ && unwinding_ != &inner)
    return {};
  if (result && adopt(frame, site.getResult(0), result)) {
    ++report_.unfolded;
    return result;
  }
  unwinding_ = nullptr;
  branches_ = inner.branches;
  tags_.resize(inner.tags);
  residual_.rollBack(inner.mark);
  refused_.insert(key);
  ++report_.takenBack;
  return {};
}

Value Unfolding::leaveCall(Operation &site, func::FuncOp callee, ValueRange arguments, Frame &frame,
                           std::vector<Knowledge> known) {
  if (isSpent())
    known = knowledgeOf(callee.getArguments(), callee.getArgumentTypes());
  if (!generalise(callee, known))
    return {};
  Version &version = versions_.of(callee, std::move(known), version_);
  SmallVector<Value> leaves = leavesOf(arguments, version.known);
  for (Value leaf : leaves)
    residual_.escape(leaf);
  bool effectful = sources_.isEffectful(callee.getName());
  OpBuilder builder(site.getContext());
  auto call =
      builder.create<CallOp>(site.getLoc(), site.getResult(0).getType(), leaves, version.symbol);
  call.setEffectful(effectful);
  Value result = write(site, call, frame)->getResult(0);
  if (effectful)
    residual_.forgetEscaped();
  return result;
}

/// Which function it is, only the run knows.
bool Unfolding::leaveApply(Operation &op, Frame &frame) {
  Operation *copy = copied(op, frame);
  for (Value operand : copy->getOperands())
    residual_.escape(operand);
  write(op, copy, frame);
  if (cast<ApplyOp>(op).getEffectful())
    residual_.forgetEscaped();
  return true;
}

// ---- versions that lead to one another ----

/// False where the version that is being made is to be a more general one instead.
bool Unfolding::generalise(func::FuncOp callee, std::vector<Knowledge> &known) {
  for (Version *around = version_; around; around = around->maker) {
    if (around->source != callee)
      continue;
    std::string own = keyOf(around->known);
    if (own == keyOf(known))
      return true;
    bool grows = isEmbedded(around->known, known);
    bool shrinks = around == version_ && isEmbedded(known, around->known);
    if (!grows && !shrinks)
      continue;
    std::vector<Knowledge> common = generalised(around->known, known);
    for (auto [index, one] : llvm::enumerate(common))
      if (one.isDynamic())
        one.type = callee.getArgumentTypes()[index];
    if (around == version_ && keyOf(common) != own) {
      common_ = std::move(common);
      unwinding_ = root_;
      return false;
    }
    known = std::move(common);
  }
  return true;
}

/// The version's body becomes a call of the more general one.
void Unfolding::forward(Version &version) {
  unwinding_ = nullptr;
  branches_ = depth_ = 0;
  tags_.clear();
  residual_.rollBack(root_->mark);
  Version &general = versions_.of(version.source, common_, version.maker);
  OpBuilder &builder = residual_.builder();
  func::FuncOp source = version.source;
  auto call = builder.create<CallOp>(
      source.getLoc(), source.getBody().front().getTerminator()->getOperand(0).getType(),
      leavesOf(root_->arguments, general.known), general.symbol);
  call.setEffectful(sources_.isEffectful(source.getName()));
  builder.create<func::ReturnOp>(source.getLoc(), call.getResult());
  version.forwards = true;
}

} // namespace tensmith::program

// What operators require of sizes that only a run tells becomes checks, before anything is
// rewritten.
//
// Rewrites fold, merge and remove operators, and kernels look at no size. So the first pass writes
// down what the operators of the model require (their shape functions say it), as `graph.check`s
// that stay whatever becomes of the operators. What sizes prove leaves none, nor does what is
// implied by a check before it.
//
// before: y = matmul(a: [n, k], b: [m, p])                       after: check k = m; y = ...
// What is checked at the function's entry is known from there on: where it says that a symbol is
// equal to another or to a number, that takes its place in all types, so that rewrites and kernels
// find it proved.
//
// before: y = add(x: [n], c: [5])                                after: check n = 5;
//                                                                       y = add(reshape(x): [5], c)
//
// At the end, for those who look for faults of rewrites, it is proved that kernels require nothing
// else (ProveSizes).
#include "compiler/graph/BroadcastSizes.h"
#include "compiler/graph/Checks.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/graph/Polynomial.h"
#include "compiler/graph/SizeCases.h"
#include "compiler/rewrite/NameSizes.h"
#include "compiler/rewrite/Rewrites.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

using graph::Condition;

/// Sizes of values that exist are not negative.
template <typename Facts> void assumeSizes(Type type, graph::ShapeContext &shapes, Facts &facts) {
  if (auto ranked = dyn_cast<RankedTensorType>(type); ranked && ranked.getEncoding())
    for (AffineExpr size : shapes.dims(ranked))
      facts.assumeSize(size);
}

class CheckSizes {
public:
  explicit CheckSizes(func::FuncOp function) : function_(function), shapes_(function.getContext()) {
    for (Value argument : function.getArguments())
      assumeSizes(argument.getType(), shapes_, facts_);
    atEntry_ = shapes_.symbols().size();
  }

  void run() {
    run(function_.getBody().front(), facts_);
    // A size that has become a number may be one that a requirement waited for, as the length of
    // an index tuple.
    constexpr int kMostRounds = 8;
    while (round_ < kMostRounds && facts_.knowsEquals() && std::exchange(isChanged_, false)) {
      ++round_;
      unify();
      run(function_.getBody().front(), facts_);
    }
  }

private:
  void run(Block &block, graph::SizeFacts facts) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (auto check = dyn_cast<graph::CheckOp>(op))
        facts.assume(graph::conditionOf(check, shapes_));
      for (const Condition &condition : graph::conditionsOf(&op, shapes_))
        add(&op, condition, facts);
      for (Region &region : op.getRegions())
        if (!isa<graph::KernelOp>(op) && !region.empty())
          run(region.front(), facts);
      for (Value result : op.getResults())
        assumeSizes(result.getType(), shapes_, facts);
    }
  }

  /// A size that can't be 1 must be equal, of which more follows.
  static Condition narrowed(Condition condition, const graph::SizeFacts &facts) {
    using Relation = Condition::Relation;
    auto isNotOne = [&](AffineExpr size) {
      return facts.decide(Relation::Equal, size, getAffineConstantExpr(1, size.getContext())) ==
             false;
    };
    if (condition.relation == Relation::Broadcast && isNotOne(condition.b))
      condition.relation = Relation::EqualOrOne;
    if (condition.relation == Relation::EqualOrOne && isNotOne(condition.a))
      condition.relation = Relation::Equal;
    return condition;
  }

  void add(Operation *op, const Condition &required, graph::SizeFacts &facts) {
    auto decided = facts.decide(required);
    // What can't hold beside the others has its check since the first round.
    if (decided == true || (decided == false && round_ > 0))
      return;
    Condition condition = narrowed(required, facts);
    OpBuilder builder(op);
    graph::makeCheck(builder, op->getLoc(), shapes_, condition);
    isChanged_ = true;
    facts.assume(condition);
    if (op->getBlock() == &function_.getBody().front() && graph::isOver(condition, atEntry_))
      facts_.assume(condition);
  }

  Type unified(Type type) {
    return shapes_.withSizes(type, [&](AffineExpr size) { return ordered(facts_.normal(size)); });
  }

  /// The size of a broadcast, whose parts may have got other names, as operators infer it of them.
  AffineExpr ordered(AffineExpr size) {
    auto parts = shapes_.broadcastParts(size);
    for (auto [place, part] : llvm::enumerate(parts))
      for (AffineExpr before : ArrayRef(parts).take_front(place))
        if (facts_.decide(Condition::Relation::Broadcast, before, part) != true)
          return size;
    size_t symbols = shapes_.symbols().size();
    std::optional<AffineExpr> all = parts.front();
    for (AffineExpr part : ArrayRef(parts).drop_front())
      if (all)
        all = shapes_.broadcast(*all, part);
    // What is too long for an expression would be a new symbol.
    return all && shapes_.symbols().size() == symbols ? *all : size;
  }

  /// Whether there is a view already, whose type the walk has changed.
  static bool hasView(BlockArgument argument) {
    return argument.hasOneUse() && isa<graph::ReshapeOp>(*argument.user_begin());
  }

  /// The caller's tensors keep their types, of which views are made.
  void unify() {
    Block &entry = function_.getBody().front();
    function_.walk([&](Operation *op) {
      for (Value result : op->getResults())
        result.setType(unified(result.getType()));
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (BlockArgument argument : block.getArguments())
            if (&block != &entry)
              argument.setType(unified(argument.getType()));
    });
    OpBuilder builder(&entry, entry.begin());
    for (BlockArgument argument : entry.getArguments()) {
      Type type = unified(argument.getType());
      if (type == argument.getType() || argument.use_empty() || hasView(argument))
        continue;
      auto view = builder.create<graph::ReshapeOp>(argument.getLoc(), type, argument);
      argument.replaceAllUsesExcept(view.getY(), view);
    }
    function_.setFunctionType(FunctionType::get(function_.getContext(), entry.getArgumentTypes(),
                                                entry.getTerminator()->getOperandTypes()));
  }

  func::FuncOp function_;
  graph::ShapeContext shapes_;
  size_t atEntry_;         // symbols that are known then
  graph::SizeFacts facts_; // at entry
  int round_ = 0;
  bool isChanged_ = false; // whether there is a check of which the types don't know yet
};

/// That what the operators of kernels require follows from sizes and from checks before them, with
/// whatever rewrites have made of them.
class ProveSizes {
public:
  explicit ProveSizes(func::FuncOp function)
      : function_(function), shapes_(function.getContext()) {}

  LogicalResult run() {
    graph::SizeCases facts;
    for (Value argument : function_.getArguments())
      assumeSizes(argument.getType(), shapes_, facts);
    assumeEntry(facts);
    return prove(function_.getBody().front(), facts, /*isKernel=*/false);
  }

private:
  /// What is checked of the function's own sizes is checked before anything else is run, and is in
  /// the types: what is equal first.
  void assumeEntry(graph::SizeCases &facts) {
    size_t symbols = shapes_.symbols().size();
    for (bool equal : {true, false})
      for (auto check : function_.getBody().front().getOps<graph::CheckOp>())
        if (Condition condition = graph::conditionOf(check, shapes_);
            graph::isOver(condition, symbols) &&
            (condition.relation == Condition::Relation::Equal) == equal)
          facts.assume(condition);
  }

  LogicalResult prove(Block &block, graph::SizeCases facts, bool isKernel) {
    for (Operation &op : block) {
      if (auto check = dyn_cast<graph::CheckOp>(op))
        facts.assume(graph::conditionOf(check, shapes_));
      if (isKernel && failed(prove(&op, facts)))
        return failure();
      for (Region &region : op.getRegions())
        if (!region.empty() &&
            failed(prove(region.front(), facts, isKernel || isa<graph::KernelOp>(op))))
          return failure();
      for (Value result : op.getResults())
        assumeSizes(result.getType(), shapes_, facts);
    }
    return success();
  }

  LogicalResult prove(Operation *op, const graph::SizeCases &facts) {
    for (const Condition &condition : graph::conditionsOf(op, shapes_))
      if (!facts.proves(condition) && !graph::isVoidElse(op, condition, shapes_, facts.facts()))
        return op->emitError() << "its kernel relies on sizes of which nothing is checked: "
                               << condition.message << " of " << graph::textOf(condition.a)
                               << " and " << graph::textOf(condition.b);
    return success();
  }

  func::FuncOp function_;
  graph::ShapeContext shapes_;
};

} // namespace

LogicalResult proveSizes(func::FuncOp function, const Options &) {
  return ProveSizes(function).run();
}

LogicalResult checkSizes(func::FuncOp function, const Options &) {
  nameSizes(function, {});
  CheckSizes(function).run();
  return success();
}

} // namespace tensmith::rewrite

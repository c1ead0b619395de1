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
#include "compiler/graph/Checks.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/rewrite/Rewrites.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

using graph::Condition;

class CheckSizes {
public:
  explicit CheckSizes(func::FuncOp function) : function_(function), shapes_(function.getContext()) {
    for (Value argument : function.getArguments())
      remember(argument.getType(), facts_);
    atEntry_ = shapes_.symbols().size();
  }

  void run() {
    run(function_.getBody().front(), facts_);
    if (facts_.knowsEquals())
      unify();
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
        remember(result.getType(), facts);
    }
  }

  /// Sizes of values that exist are not negative.
  void remember(Type type, graph::SizeFacts &facts) {
    if (auto ranked = dyn_cast<RankedTensorType>(type); ranked && ranked.getEncoding())
      for (AffineExpr size : shapes_.dims(ranked))
        facts.assumeSize(size);
  }

  void add(Operation *op, const Condition &condition, graph::SizeFacts &facts) {
    if (facts.decide(condition) == true)
      return;
    OpBuilder builder(op);
    graph::makeCheck(builder, op->getLoc(), shapes_, condition);
    facts.assume(condition);
    if (op->getBlock() == &function_.getBody().front() && isOfEntry(condition))
      facts_.assume(condition);
  }

  /// Whether all its symbols are known when the function begins.
  bool isOfEntry(const Condition &condition) {
    bool known = true;
    for (AffineExpr size : {condition.a, condition.b, condition.unlessZero})
      if (size)
        size.walk([&](AffineExpr part) {
          auto symbol = dyn_cast<AffineSymbolExpr>(part);
          known &= !symbol || symbol.getPosition() < atEntry_;
        });
    return known;
  }

  Type unified(Type type) {
    auto ranked = dyn_cast<RankedTensorType>(type);
    if (!ranked || !ranked.getEncoding())
      return type;
    auto dims = shapes_.dims(ranked);
    for (AffineExpr &dim : dims)
      dim = facts_.normal(dim);
    return shapes_.tensorType(ranked.getElementType(), dims);
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
      if (type == argument.getType() || argument.use_empty())
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
};

/// Gives each size of which nothing is known a name.
void nameSizes(func::FuncOp function) {
  graph::ShapeContext shapes(function.getContext());
  function.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (auto ranked = dyn_cast<RankedTensorType>(type); ranked && ranked.getEncoding())
        (void)shapes.dims(ranked);
  });
  for (Value argument : function.getArguments())
    if (auto ranked = dyn_cast<RankedTensorType>(argument.getType());
        ranked && ranked.getEncoding())
      (void)shapes.dims(ranked);
  auto name = [&](Value value) {
    auto ranked = dyn_cast<RankedTensorType>(value.getType());
    if (!ranked || ranked.hasStaticShape())
      return;
    bool isNamed = true;
    for (int64_t dim = 0; dim < ranked.getRank(); ++dim)
      isNamed &= bool(graph::dimExpression(ranked, unsigned(dim)));
    if (!isNamed)
      value.setType(shapes.tensorType(ranked.getElementType(), shapes.dims(ranked)));
  };
  for (BlockArgument argument : function.getArguments())
    name(argument);
  for (Operation &op : function.getBody().front())
    for (Value result : op.getResults())
      name(result);
  Block &block = function.getBody().front();
  function.setFunctionType(FunctionType::get(function.getContext(), block.getArgumentTypes(),
                                             block.getTerminator()->getOperandTypes()));
}

} // namespace

LogicalResult checkSizes(func::FuncOp function, const Options &) {
  nameSizes(function);
  CheckSizes(function).run();
  return success();
}

} // namespace tensmith::rewrite

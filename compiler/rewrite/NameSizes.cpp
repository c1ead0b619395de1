// Sizes get names, and names what follows for them from operands of which more has become known.
//
// before: y = resize(x, s) : [resize.0], s = fold(...)     after: y = resize(x, s) : [5], s = [5]
//
// Without that a size would stay a name that no operator tells, once the operator that told it has
// been replaced by others which are made for the known size.
#include "compiler/rewrite/NameSizes.h"

#include "compiler/graph/BroadcastSizes.h"
#include "compiler/graph/Checks.h"
#include "compiler/graph/GraphBuilder.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

using graph::Condition;

/// Gives each size of which nothing is known a name, and what is computed from it types that say
/// so.
///
/// before: y = add(x: [?], c: [?]) : [broadcast.0]
/// after:  y = add(x: [unknown.0], c: [unknown.1]) : [what is broadcast of unknown.0 and unknown.1]
/// A result whose size was no more than a name of its own gets the expression that its operator
/// infers from the names; it takes the place of that name from there on.
class NameSizes {
public:
  explicit NameSizes(func::FuncOp function) : function_(function), shapes_(function.getContext()) {
    // Names that are taken.
    auto see = [&](Type type) {
      if (auto ranked = dyn_cast<RankedTensorType>(type); ranked && ranked.getEncoding())
        (void)shapes_.dims(ranked);
    };
    llvm::for_each(function.getArgumentTypes(), see);
    function.walk([&](Operation *op) { llvm::for_each(op->getResultTypes(), see); });
  }

  void run(ArrayRef<Value> learnt) {
    changed_.insert(learnt.begin(), learnt.end());
    Block &block = function_.getBody().front();
    llvm::for_each(block.getArguments(), [&](Value argument) { name(argument); });
    visit(block);
    function_.setFunctionType(FunctionType::get(function_.getContext(), block.getArgumentTypes(),
                                                block.getTerminator()->getOperandTypes()));
  }

private:
  void visit(Block &block) {
    for (BlockArgument argument : block.getArguments())
      define(argument.getType());
    for (Operation &op : block) {
      if (!renamed_.empty())
        rename(&op);
      if (llvm::any_of(op.getOperands(), [&](Value x) { return changed_.contains(x); }))
        infer(&op);
      if (op.getNumRegions())
        visitRegions(&op);
      for (Value result : op.getResults()) {
        if (&block == &function_.getBody().front())
          name(result);
        define(result.getType());
      }
    }
  }

  /// Branches and bodies, whose values define sizes for themselves alone; what has no name there,
  /// as what a loop carries, gets none.
  void visitRegions(Operation *op) {
    size_t renamed = renamed_.size();
    for (Region &region : op->getRegions())
      for (Block &block : region) {
        size_t before = order_.size();
        visit(block);
        for (; order_.size() > before; order_.pop_back())
          defined_.erase(order_.back());
      }
    if (renamed_.size() != renamed) // its results may have such sizes, too
      rename(op);
  }

  void name(Value value) {
    if (graph::nameSizes(value, shapes_))
      changed_.insert(value);
  }

  void give(Value value, Type type) {
    if (type == value.getType())
      return;
    value.setType(type);
    changed_.insert(value);
  }

  void define(Type type) {
    auto ranked = dyn_cast<RankedTensorType>(type);
    if (!ranked || ranked.hasStaticShape())
      return;
    for (AffineExpr size : shapes_.dims(ranked))
      if (auto symbol = dyn_cast<AffineSymbolExpr>(size))
        if (defined_.insert(symbol).second)
          order_.push_back(symbol);
  }

  bool isDefined(AffineExpr size) {
    bool defined = true;
    size.walk([&](AffineExpr part) {
      defined &= !isa<AffineSymbolExpr>(part) || defined_.contains(part);
    });
    return defined;
  }

  /// Of the types in an operator, its regions' too.
  void rename(Operation *op) {
    auto renameValue = [&](Value value) {
      give(value, shapes_.withSizes(value.getType(), [&](AffineExpr size) {
        return graph::replaceSizes(size, renamed_);
      }));
    };
    op->walk([&](Operation *inner) {
      if (auto check = dyn_cast<graph::CheckOp>(inner))
        rename(check);
      llvm::for_each(inner->getResults(), renameValue);
      for (Region &region : inner->getRegions())
        for (BlockArgument argument : region.getArguments())
          renameValue(argument);
    });
  }

  void rename(graph::CheckOp check) {
    Condition condition = graph::conditionOf(check, shapes_);
    for (AffineExpr *size : {&condition.a, &condition.b, &condition.unlessZero})
      if (*size)
        *size = graph::replaceSizes(*size, renamed_);
    OpBuilder builder(check);
    graph::CheckOp now = graph::makeCheck(builder, check.getLoc(), shapes_, condition);
    check.setSizesAttr(now.getSizesAttr());
    now.erase();
  }

  void infer(Operation *op) {
    auto shapeFunction = dyn_cast<graph::ShapeFunction>(op);
    SmallVector<Type> types;
    // What the operands' names make wrong is refused where its sizes are checked.
    ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic &) { return success(); });
    if (!shapeFunction || failed(shapeFunction.inferResults(shapes_, types)))
      return;
    for (auto [result, type] : llvm::zip_equal(op->getResults(), types)) {
      auto own = dyn_cast<RankedTensorType>(result.getType()),
           found = dyn_cast<RankedTensorType>(type);
      if (!own || !found || own.getRank() != found.getRank() || own.hasStaticShape())
        continue;
      auto dims = shapes_.dims(own);
      for (auto [size, better] : llvm::zip_equal(dims, shapes_.dims(found)))
        if (isa<AffineSymbolExpr>(size) && !defined_.contains(size) && isDefined(better)) {
          renamed_[size] = better;
          size = better;
        }
      give(result, shapes_.tensorType(own.getElementType(), dims));
    }
  }

  func::FuncOp function_;
  graph::ShapeContext shapes_;
  llvm::DenseSet<AffineExpr> defined_;             // symbols that a value before has as its size
  SmallVector<AffineExpr> order_;                  // the same, in the order of their values
  llvm::DenseMap<AffineExpr, AffineExpr> renamed_; // symbols that were one operator's own
  llvm::DenseSet<Value> changed_;                  // values with another type than at first
};

} // namespace

void nameSizes(func::FuncOp function, ArrayRef<Value> learnt) { NameSizes(function).run(learnt); }

} // namespace tensmith::rewrite

// From the end on, so that what only dead operators used is dead as well; see DeadCode.h.
#include "compiler/graph/DeadCode.h"

#include "mlir/IR/Iterators.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

/// Calls `take` with the names of the symbols in the type; `wholes`: only those that are a
/// dimension as a whole, which a value of the type tells.
void symbolsOf(Type type, bool wholes, llvm::function_ref<void(StringAttr)> take) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  auto dims = ranked ? dyn_cast_or_null<DimsAttr>(ranked.getEncoding()) : DimsAttr();
  if (!dims)
    return;
  auto symbols = dims.getSymbols();
  for (AffineExpr size : dims.getMap().getResults()) {
    if (wholes && !isa<AffineSymbolExpr>(size))
      continue;
    size.walk([&](AffineExpr part) {
      if (auto symbol = dyn_cast<AffineSymbolExpr>(part))
        take(symbols[symbol.getPosition()]);
    });
  }
}

class DeadCode {
public:
  explicit DeadCode(func::FuncOp function) : function_(function) {
    for (Type type : function.getArgumentTypes())
      symbolsOf(type, /*wholes=*/true, [&](StringAttr name) { given_.insert(name); });
  }

  void erase() {
    function_->walk<WalkOrder::PostOrder, mlir::ReverseIterator>([&](Operation *op) {
      if (!isOpTriviallyDead(op))
        return;
      auto needed = llvm::find_if(op->getResults(), [&](Value x) { return isNeeded(op, x); });
      if (needed == op->getResults().end())
        return op->erase();
      OpBuilder(op->getBlock(), std::next(op->getIterator()))
          .create<KeepSizesOp>(op->getLoc(), *needed);
    });
  }

private:
  /// Whether it is the first to have a size that is left in a type of what stays.
  bool isNeeded(Operation *op, Value result) {
    llvm::DenseSet<StringAttr> before = given_;
    for (Type type : op->getOperandTypes())
      symbolsOf(type, /*wholes=*/true, [&](StringAttr name) { before.insert(name); });
    bool isNeeded = false;
    symbolsOf(result.getType(), /*wholes=*/true,
              [&](StringAttr name) { isNeeded |= !before.contains(name) && isLeft(name, op); });
    return isNeeded;
  }

  bool isLeft(StringAttr name, Operation *except) {
    bool isLeft = false;
    auto look = [&](Type type) {
      symbolsOf(type, /*wholes=*/false, [&](StringAttr other) { isLeft |= other == name; });
    };
    function_->walk([&](Operation *op) {
      if (op == except)
        return;
      llvm::for_each(op->getResultTypes(), look);
      if (auto check = dyn_cast<CheckOp>(op))
        isLeft |= llvm::is_contained(check.getSizes().getSymbols(), name);
      for (Region &region : op->getRegions())
        for (Block &block : region)
          llvm::for_each(block.getArgumentTypes(), look);
    });
    return isLeft;
  }

  func::FuncOp function_;
  llvm::DenseSet<StringAttr> given_; // by the arguments
};

} // namespace

void eraseUnused(Operation *op) {
  if (!op || !isOpTriviallyDead(op))
    return;
  SmallVector<Value> operands(op->getOperands());
  op->erase();
  for (Value operand : operands)
    eraseUnused(operand.getDefiningOp());
}

void eraseDead(func::FuncOp function) { DeadCode(function).erase(); }

} // namespace tensmith::graph

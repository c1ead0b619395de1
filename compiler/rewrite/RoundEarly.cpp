// What only chooses or joins elements gives the same of rounded ones, and there are fewer bytes to
// move.
//
//   cast(max_pool(x), bf16)   ->  max_pool(cast(x, bf16))
//   cast(concat(x, y), bf16)  ->  concat(cast(x, bf16), cast(y, bf16))
//
// where all that reads the results, or the operands, reads them rounded: else these would be stored
// twice. Rounding keeps the order of numbers, so that the largest of a window stays so: but for the
// sign of a zero, the results are the same bit for bit.
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/rewrite/Rewrites.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// Operators of a function that move or choose f32, and may do it with numbers of type `rounded`.
class Movers {
public:
  Movers(func::FuncOp function, Type rounded) : rounded_(rounded) {
    function.walk([&](Operation *op) {
      if (isa<graph::MaxPoolOp, graph::ConcatOp>(op) &&
          getElementTypeOrSelf(op->getResult(0).getType()).isF32())
        ops_.insert(op);
    });
    // Those that some other reader or operand keeps take others with them.
    while (ops_.remove_if([&](Operation *op) { return !canRound(op); }))
      ;
  }

  void round() {
    for (Operation *op : llvm::reverse(ops_)) // readers first: they leave a rounding each
      round(op);
  }

private:
  bool isRounding(Operation *op) const {
    return isa<graph::CastOp>(op) && getElementTypeOrSelf(op->getResult(0).getType()) == rounded_;
  }
  bool isReadRounded(Value value) const {
    return value.getDefiningOp() && !isa<graph::ConstantOp>(value.getDefiningOp()) &&
           llvm::all_of(value.getUsers(),
                        [&](Operation *user) { return isRounding(user) || ops_.contains(user); });
  }
  bool canRound(Operation *op) const {
    return isReadRounded(op->getResult(0)) &&
           llvm::all_of(op->getOperands(), [&](Value operand) { return isReadRounded(operand); });
  }

  void round(Operation *op) {
    OpBuilder builder(op);
    graph::ShapeContext shapes(op->getContext());
    graph::GraphBuilder graph(builder, shapes, op->getLoc());
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(graph.cast(operand, rounded_));
    Operation *rounded = builder.clone(*op);
    rounded->setOperands(operands);
    Value wide = op->getResult(0), narrow = rounded->getResult(0);
    narrow.setType(cast<RankedTensorType>(wide.getType()).clone(rounded_));
    for (Operation *user : llvm::make_early_inc_range(wide.getUsers())) {
      user->getResult(0).replaceAllUsesWith(narrow);
      user->erase();
    }
    op->erase();
  }

  Type rounded_;
  llvm::SetVector<Operation *> ops_;
};

} // namespace

LogicalResult roundEarly(func::FuncOp function, const Options &) {
  for (Type rounded : {Type(BFloat16Type::get(function.getContext())),
                       Type(Float16Type::get(function.getContext()))})
    Movers(function, rounded).round();
  return success();
}

} // namespace tensmith::rewrite

// What only chooses or joins elements gives the same of rounded ones, and there are fewer bytes to
// move.
//
//   cast(max_pool(x), bf16)   ->  max_pool(cast(x, bf16))
//   cast(concat(x, y), bf16)  ->  concat(cast(x, bf16), cast(y, bf16))
//   codes(concat(x, y))       ->  concat(codes(x), codes(y))
//
// where all that reads the results, or the operands, reads them so: else these would be stored
// twice. Codes are what is made of each element alone, in fewer bits. Rounding keeps the order of
// numbers, so that the largest of a window stays so: but for the sign of a zero, the results are
// the same bit for bit.
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

int64_t bitsOf(Value value) {
  return getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth();
}

/// The element-wise operators, each the only reader of what is before it, that make the narrowest
/// numbers of a value and of constants of one element.
SmallVector<Operation *> operatorsToCodes(Value value) {
  SmallVector<Operation *> chain;
  size_t best = 0;
  for (int64_t narrowest = bitsOf(value); value.hasOneUse();) {
    Operation *op = *value.getUsers().begin();
    auto isNumber = [](Value operand) {
      auto constant = operand.getDefiningOp<graph::ConstantOp>();
      auto type = constant ? dyn_cast<RankedTensorType>(constant.getType()) : RankedTensorType();
      return type && type.getNumElements() == 1;
    };
    auto isAlike = [&](Value result) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      return type && type == cast<RankedTensorType>(value.getType()).clone(type.getElementType());
    };
    if (!isa<graph::Elementwise>(op) || !isAlike(op->getResult(0)) ||
        !llvm::all_of(op->getOperands(),
                      [&](Value operand) { return operand == value || isNumber(operand); }))
      break;
    chain.push_back(op);
    value = op->getResult(0);
    if (bitsOf(value) >= narrowest)
      continue;
    narrowest = bitsOf(value);
    best = chain.size();
  }
  chain.resize(best);
  return chain;
}

/// Makes codes of what is joined, where they are made of it.
void joinCodes(graph::ConcatOp concat) {
  auto isMadeForIt = [](Value operand) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    return type && type.getElementType().isIntOrFloat() && operand.hasOneUse() &&
           isa_and_nonnull<graph::Elementwise, graph::ConvOp, graph::MatMulOp>(
               operand.getDefiningOp());
  };
  if (!llvm::all_of(concat->getOperands(), isMadeForIt))
    return;
  SmallVector<Operation *> chain = operatorsToCodes(concat.getResult());
  if (chain.empty())
    return;
  OpBuilder builder(chain.back());
  auto copy = [&](Operation *op, auto replaced, RankedTensorType shape) {
    Operation *copied = builder.clone(*op);
    replaced(copied);
    Value result = copied->getResult(0);
    result.setType(shape.clone(getElementTypeOrSelf(result.getType())));
    return result;
  };
  SmallVector<Value> codes;
  for (Value operand : concat->getOperands()) {
    Value before = concat.getResult(), code = operand;
    for (Operation *op : chain) {
      code = copy(
          op, [&](Operation *copied) { copied->replaceUsesOfWith(before, code); },
          cast<RankedTensorType>(operand.getType()));
      before = op->getResult(0);
    }
    codes.push_back(code);
  }
  Value last = chain.back()->getResult(0);
  Operation *joined = builder.clone(*concat);
  joined->setOperands(codes);
  joined->getResult(0).setType(last.getType());
  last.replaceAllUsesWith(joined->getResult(0));
  for (Operation *op : llvm::reverse(chain))
    op->erase();
  concat->erase();
}

} // namespace

LogicalResult roundEarly(func::FuncOp function, const Options &) {
  SmallVector<graph::ConcatOp> joins;
  function.walk([&](graph::ConcatOp concat) { joins.push_back(concat); });
  llvm::for_each(joins, joinCodes);
  for (Type rounded : {Type(BFloat16Type::get(function.getContext())),
                       Type(Float16Type::get(function.getContext()))})
    Movers(function, rounded).round();
  return success();
}

} // namespace tensmith::rewrite

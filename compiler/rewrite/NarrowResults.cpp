// Results that products read rounded to bf16 lie in memory rounded, for whoever else reads them.
//
//   y = matmul(cast(cast(x, bf16), f32), v);  z = add(x, w)
//     ->  r = cast(cast(x, bf16), f32);  y = matmul(r, v);  z = add(r, w)            shortcuts
//   add(matmul(x, v), matmul(y, w))
//     ->  add(matmul(x, v), cast(cast(matmul(y, w), bf16), f32))     what waits to be added
//
// A block's sum is the next one's operand, and by its shortcut a term of the next sum: as bf16
// alone it is written and read in a third of the bytes that both forms take, and no reader rounds
// it anew. Of two products whose results meet in an element-wise operator, one has to lie in memory
// until the other's kernel applies the operator. Either rounding is one more of an element that
// products, with as few bits, have erred by already.
//
// Only element-wise readers take what is rounded for others: a layer normalisation or a sum over
// rows is to see what it would without.
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/rewrite/Rewrites.h"

#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

bool isF32(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getElementType().isF32();
}

bool isRounding(Operation *op) {
  return isa<graph::CastOp>(op) && isF32(op->getOperand(0)) &&
         getElementTypeOrSelf(op->getResult(0).getType()).isBF16();
}

/// Whether all that reads the value are roundings and element-wise operators, and there are both.
bool isSharedShortcut(Value value) {
  auto users = value.getUsers();
  return llvm::any_of(users, isRounding) && !llvm::all_of(users, isRounding) &&
         llvm::all_of(users, [](Operation *user) { return isa<graph::Elementwise>(user); });
}

/// The product of rounded rows that the value is made of by element-wise operators of its own
/// shape, of each of which the next is the only reader.
Operation *productBefore(Value value) {
  constexpr int kFewOperators = 16;
  Type shape = value.getType();
  for (int count = 0; count < kFewOperators && value.hasOneUse(); ++count) {
    Operation *op = value.getDefiningOp();
    if (isa_and_nonnull<graph::ConvOp, graph::MatMulOp>(op))
      return getElementTypeOrSelf(kernel::storedLeft(op).getType()).isBF16() ? op : nullptr;
    if (!isa_and_nonnull<graph::Elementwise>(op) || isRounding(op))
      return nullptr;
    auto next = llvm::find_if(op->getOperands(), [&](Value operand) {
      return operand.getType() == shape && !operand.getDefiningOp<graph::ConstantOp>();
    });
    if (next == op->operand_end())
      return nullptr;
    value = *next;
  }
  return nullptr;
}

/// Operands of an element-wise operator that one product's kernel makes for another's.
SmallVector<OpOperand *> operandsInMemory(Operation *op) {
  SmallVector<OpOperand *> waiting;
  if (!isa<graph::Elementwise>(op) || op->getNumOperands() < 2)
    return waiting;
  llvm::SmallPtrSet<Operation *, 2> products;
  for (OpOperand &operand : op->getOpOperands())
    if (isF32(operand.get()) && operand.get().getType() == op->getResult(0).getType())
      if (Operation *product = productBefore(operand.get());
          product && products.insert(product).second && products.size() > 1)
        waiting.push_back(&operand);
  return waiting;
}

/// The value rounded and widened again, behind what makes it.
Value throughMemory(Value value) {
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfterValue(value);
  graph::ShapeContext shapes(value.getContext());
  graph::GraphBuilder graph(builder, shapes, value.getLoc());
  return graph.cast(graph.cast(value, builder.getBF16Type()), builder.getF32Type());
}

void narrowShortcut(Value value) {
  SmallVector<OpOperand *> uses(llvm::make_pointer_range(value.getUses()));
  Value wide = throughMemory(value), narrow = wide.getDefiningOp()->getOperand(0);
  for (OpOperand *use : uses) {
    Operation *user = use->getOwner();
    if (!isRounding(user)) {
      use->set(wide);
      continue;
    }
    user->getResult(0).replaceAllUsesWith(narrow);
    user->erase();
  }
}

} // namespace

LogicalResult narrowResults(func::FuncOp function, const Options &options) {
  if (options.precision != Precision::Bfloat)
    return success();
  SmallVector<Value> shortcuts;
  SmallVector<OpOperand *> waiting;
  function.walk([&](Operation *op) {
    waiting.append(operandsInMemory(op));
    if (op->getNumResults() == 1 && !isa<graph::ConstantOp>(op) && isF32(op->getResult(0)) &&
        isSharedShortcut(op->getResult(0)))
      shortcuts.push_back(op->getResult(0));
  });
  for (OpOperand *operand : waiting)
    operand->set(throughMemory(operand->get()));
  llvm::for_each(shortcuts, narrowShortcut);
  return success();
}

} // namespace tensmith::rewrite

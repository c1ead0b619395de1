// Elements of whole tensors; see FlatElements.h.
#include "compiler/kernel/FlatElements.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

bool isWhole(Value value, int64_t elements) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.hasStaticShape() && type.getElementType().isF32() &&
         type.getNumElements() == elements;
}

} // namespace

int64_t elementsOf(Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); }

bool FlatElements::areKnown(Value value, int64_t elements, Value given) {
  llvm::SetVector<Value> seen;
  seen.insert(value);
  for (size_t next = 0; next < seen.size(); ++next) {
    Operation *op = seen[next].getDefiningOp();
    if (seen[next] == given)
      continue;
    if (!isWhole(seen[next], elements)) { // a constant, or one element in memory
      if (!isWhole(seen[next], 1) || (op && !isa<graph::ConstantOp>(op)))
        return false;
    } else if (op) {
      if (!isa<graph::Elementwise, graph::ReshapeOp>(op) || op->getNumResults() != 1)
        return false;
      seen.insert(op->operand_begin(), op->operand_end());
    }
  }
  return true;
}

Value FlatElements::at(Value value, Value place, int64_t lanes, Value mask) {
  if (Value found = known_.lookup(value))
    return found;
  Operation *op = value.getDefiningOp();
  Value result;
  if (!isWhole(value, elements_)) {
    result = scalar(value, lanes);
  } else if (!op) {
    result = emitter_.load(emitter_.buffer(value), getElementTypeOrSelf(value.getType()), place,
                           lanes, mask);
  } else if (isa<graph::ReshapeOp>(op)) {
    result = at(op->getOperand(0), place, lanes, mask);
  } else {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(at(operand, place, lanes, mask));
    result = cast<graph::Elementwise>(op).emitScalar(emitter_.builder(), op->getLoc(), operands);
  }
  return known_[value] = result;
}

Value FlatElements::scalar(Value value, int64_t lanes) {
  int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
  Position first{SmallVector<Value>(rank, emitter_.math.constant(0))};
  return emitter_.splat(emitter_.element(value, first), lanes);
}

} // namespace tensmith::kernel

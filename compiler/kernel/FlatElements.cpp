// Elements of whole tensors; see FlatElements.h.
#include "compiler/kernel/FlatElements.h"

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
  Operation *op = value.getDefiningOp();
  if (value == given)
    return true;
  if (!isWhole(value, elements)) // a constant, or one element in memory
    return isWhole(value, 1) && (!op || isa<graph::ConstantOp>(op));
  return !op || (isa<graph::Elementwise, graph::ReshapeOp>(op) && op->getNumResults() == 1 &&
                 llvm::all_of(op->getOperands(),
                              [&](Value operand) { return areKnown(operand, elements, given); }));
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

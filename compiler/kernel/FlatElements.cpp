// Elements of whole tensors; see FlatElements.h.
#include "compiler/kernel/FlatElements.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

RankedTensorType floatsOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getElementType().isF32() ? type : RankedTensorType();
}

bool isScalar(Value value) {
  auto type = floatsOf(value);
  return type && type.hasStaticShape() && type.getNumElements() == 1;
}

/// Open sizes: whether they are as many whatever the sizes are.
bool isWhole(Value value, Value like) {
  auto type = floatsOf(value), wanted = floatsOf(like);
  if (!type || !wanted)
    return false;
  if (type.hasStaticShape() || wanted.hasStaticShape())
    return type.hasStaticShape() && wanted.hasStaticShape() &&
           type.getNumElements() == wanted.getNumElements();
  if (type == wanted)
    return true;
  graph::ShapeContext shapes(type.getContext());
  return shapes.equal(shapes.product(shapes.dims(type)), shapes.product(shapes.dims(wanted)));
}

} // namespace

bool FlatElements::areKnown(Value value, Value like, Value given) {
  llvm::SetVector<Value> seen;
  seen.insert(value);
  for (size_t next = 0; next < seen.size(); ++next) {
    Operation *op = seen[next].getDefiningOp();
    if (seen[next] == given) {
      if (!isWhole(given, like)) // it is broadcast
        return false;
      continue;
    }
    if (!isWhole(seen[next], like)) { // a constant, or one element in memory
      if (!isScalar(seen[next]) || (op && !isa<graph::ConstantOp>(op)))
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
  if (!isWhole(value, like_)) {
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

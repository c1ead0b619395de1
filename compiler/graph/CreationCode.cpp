// Ranges and indices as arithmetic on the position (Indexed::emitElement).
#include "compiler/graph/IndexCode.h"

using namespace mlir;

namespace tensmith::graph {

namespace {
/// An index as a number of the tensor's element type; null where kernels don't compute with it.
Value numberFromIndex(ElementContext &context, Value index, Type element) {
  Type type = kernelElementType(element);
  auto integer = dyn_cast_or_null<IntegerType>(type);
  bool isNumber =
      integer ? element.getIntOrFloatBitWidth() >= 8 && isa<IntegerType>(element) : bool(type);
  if (!isNumber)
    return {};
  OpBuilder &builder = context.builder;
  Value wide =
      builder.createOrFold<arith::IndexCastOp>(context.location, builder.getI64Type(), index);
  if (integer)
    return ScalarCode(builder, context.location).resize(wide, integer.getWidth(), false);
  return builder.createOrFold<arith::SIToFPOp>(context.location, type, wide);
}
} // namespace

Value RangeOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!hasKernelTypes(*this))
    return {};
  Value number = numberFromIndex(context, indices[0], rankedType(getY()).getElementType());
  if (!number)
    return {};
  ScalarCode code(context.builder, context.location);
  IndexCode index(context);
  auto read = [&](unsigned operand, Value tensor) { // scalars, or vectors of one element
    SmallVector<Value> zeros(rankedType(tensor).getRank(), index.constant(0));
    return context.operand(operand, zeros);
  };
  return code.add(read(0, getStart()), code.mul(number, read(2, getDelta())));
}

Value IotaOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!hasKernelTypes(*this))
    return {};
  return numberFromIndex(context, indices[getAxis()], rankedType(getY()).getElementType());
}

} // namespace tensmith::graph

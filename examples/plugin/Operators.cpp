// Shape functions, and the code of an element.
#include "compiler/graph/IndexCode.h"
#include "compiler/graph/Inference.h"
#include "compiler/graph/ScalarCode.h"

#include "Example.h"

using namespace mlir;
using namespace tensmith::graph;

#include "ExampleDialect.cpp.inc"
#define GET_OP_CLASSES
#include "ExampleOps.cpp.inc"

namespace example {

void ExampleDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "ExampleOps.cpp.inc"
      >();
}

// ---- soft_threshold ----

LogicalResult SoftThresholdOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (failed(infer.requireSameElement(0, 1, "(S1)")))
    return failure();
  if (!isa<FloatType>(infer.element(0)))
    return infer.error() << "(S1) is of " << infer.element(0) << ", not of floats";
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  auto dims = infer.broadcast(infer.dims(0), infer.dims(1));
  return failed(dims) ? failure() : infer.give(infer.element(0), *dims);
}

/// Scalars and vectors alike.
Value SoftThresholdOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  ScalarCode code(builder, location);
  Value x = operands[0], threshold = operands[1], zero = code.real(x, 0);
  Value above = code.maximum(code.sub(x, threshold), zero);
  Value below = code.maximum(code.sub(code.sub(zero, x), threshold), zero);
  return code.sub(above, below);
}

// ---- difference ----

LogicalResult DifferenceOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (!isa<FloatType>(infer.element(0)))
    return infer.error() << "(D1) is of " << infer.element(0) << ", not of floats";
  int64_t shift = int64_t(getShift());
  if (shift < 0)
    return infer.error() << "(D2) has the shift " << shift << ", which is negative";
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  Dims dims = infer.dims(0);
  auto axis = infer.axis(int64_t(getAxis()), int64_t(dims.size()));
  if (failed(axis) ||
      failed(infer.requireAtMost(infer.constant(shift), dims[*axis],
                                 "(D2) the shift {a} is more than the size of the dimension, {b}")))
    return failure();
  dims[*axis] = shapes.simplify(dims[*axis] - shift);
  return infer.give(infer.element(0), dims);
}

Value DifferenceOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  IndexCode index(context);
  SmallVector<Value> ahead(indices);
  Value &along = ahead[size_t(axisOf(*this, int64_t(ahead.size())))];
  along = index.add(along, int64_t(getShift()));
  ScalarCode code(context.builder, context.location);
  return code.sub(context.operand(0, ahead), context.operand(0, indices));
}

/// It reads two elements for each: what is before it is better computed once.
bool DifferenceOp::isMovement() { return false; }

} // namespace example

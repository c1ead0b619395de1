// What records say costs by; see Graph.h and Graph_Cost.
#include "compiler/graph/Graph.h"

#include <limits>

using namespace mlir;

namespace tensmith::graph {

AffineExpr elements(ShapeContext &shapes, Value value, size_t from) {
  return shapes.product(ArrayRef(shapes.dims(value.getType())).drop_front(from));
}

AffineExpr rows(ShapeContext &shapes, Value value) {
  auto dims = shapes.dims(value.getType());
  return shapes.product(ArrayRef(dims).drop_back(dims.empty() ? 0 : 1));
}

int64_t product(ArrayRef<int64_t> sizes) {
  int64_t all = 1;
  for (int64_t size : sizes)
    if (__builtin_mul_overflow(all, size, &all))
      return std::numeric_limits<int64_t>::max();
  return all;
}

AffineExpr operationsOfKind(Operation *op, ShapeContext &shapes) {
  if (op->getNumResults() && isa<Elementwise>(op))
    return elements(shapes, op->getResult(0));
  auto indexed = dyn_cast<Indexed>(op);
  return indexed && !indexed.isMovement() ? elements(shapes, op->getOperand(0))
                                          : shapes.constant(0);
}

} // namespace tensmith::graph

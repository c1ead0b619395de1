// Reductions, running sums, and reductions over processes: shape functions.
#include "compiler/graph/Inference.h"
#include "compiler/graph/ProcessReduction.h"

using namespace mlir;
using namespace tensmith::graph;

#define GET_OP_CLASSES
#include "compiler/graph/ReductionOps.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/graph/ProcessReductionOps.cpp.inc"

namespace tensmith::graph {

void GraphDialect::addReduction() {
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/ReductionOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/ProcessReductionOps.cpp.inc"
      >();
}

namespace {

LogicalResult inferReduced(Inference infer, ArrayRef<int64_t> axes, bool keepdims, Type element) {
  if (infer.unranked())
    return infer.giveUnranked(element);
  Dims dims = infer.dims(0), kept;
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] < 0 || axes[i] >= int64_t(dims.size()) || (i > 0 && axes[i] <= axes[i - 1]))
      return infer.error()
             << "(R1) axes are not distinct, ascending dimensions of an operand of rank "
             << dims.size();
  for (auto [dim, size] : llvm::enumerate(dims)) {
    if (!llvm::is_contained(axes, int64_t(dim)))
      kept.push_back(size);
    else if (keepdims)
      kept.push_back(infer.constant(1));
  }
  return infer.give(element, kept);
}

template <typename Op>
LogicalResult inferReduce(Op op, ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, op, results);
  return inferReduced(infer, op.getAxes(), op.getKeepdims(), infer.element(0));
}
template <typename Op>
LogicalResult inferArg(Op op, ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, op, results);
  int64_t axis = int64_t(op.getAxis());
  if (!infer.unranked() && axis >= 0 && axis < infer.rank(0) &&
      failed(infer.requireAtMost(infer.constant(1), infer.dims(0)[axis],
                                 "(R3) there is no largest or smallest of {b} elements")))
    return failure();
  return inferReduced(infer, {axis}, op.getKeepdims(), IntegerType::get(op->getContext(), 64));
}
template <typename Op>
LogicalResult inferRunning(Op op, ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, op, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.axis(op.getAxis(), infer.rank(0))))
    return failure();
  return infer.giveSame(0);
}
LogicalResult inferAllReduce(Operation *op, ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, op, results);
  if (!infer.element(0).isF32() && !infer.element(0).isF64())
    return infer.error() << "(R2) x is of " << infer.element(0) << ", which is neither f32 nor f64";
  return infer.unranked() ? infer.giveUnranked(infer.element(0)) : infer.giveSame(0);
}

} // namespace

#define INFER(OP, RULE)                                                                            \
  LogicalResult OP::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {           \
    return RULE(*this, shapes, results);                                                           \
  }
INFER(ReduceSumOp, inferReduce)
INFER(ReduceProdOp, inferReduce)
INFER(ReduceMaxOp, inferReduce)
INFER(ReduceMinOp, inferReduce)
INFER(ArgMaxOp, inferArg)
INFER(ArgMinOp, inferArg)
INFER(CumSumOp, inferRunning)
INFER(CumProdOp, inferRunning)
INFER(AllReduceMeanOp, inferAllReduce)
#undef INFER

/// The number of elements of a shape: the product of a whole vector.
std::optional<Contents> ReduceProdOp::contents(ShapeContext &shapes, unsigned) {
  auto operand = shapes.contents(getX());
  auto type = dyn_cast<RankedTensorType>(getX().getType());
  if (!operand || !type || int64_t(getAxes().size()) != type.getRank())
    return std::nullopt;
  AffineExpr product = shapes.product(*operand);
  return ShapeContext::isExact(product) ? std::optional(Contents{product}) : std::nullopt;
}

} // namespace tensmith::graph

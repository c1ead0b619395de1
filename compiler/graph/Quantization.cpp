// Quantisation: shape functions, and the checks of scales and zero points.
#include "compiler/graph/Bits.h"
#include "compiler/graph/Blocks.h"
#include "compiler/graph/FakeQuantization.h"
#include "compiler/graph/Inference.h"

using namespace mlir;
using namespace tensmith::graph;

#define GET_OP_CLASSES
#include "compiler/graph/QuantizationOps.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/graph/FakeQuantizationOps.cpp.inc"

namespace tensmith::graph {

void GraphDialect::addQuantization() {
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/QuantizationOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/FakeQuantizationOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/BlockOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/BitOps.cpp.inc"
      >();
}

/// That scale and zero point are one number, or one for each entry of the axis or each block of it.
static LogicalResult checkParameters(Inference &infer, int64_t axis, int64_t block) {
  if (infer.unranked() || infer.rank(0) == 0)
    return success();
  Dims x = infer.dims(0), scale = infer.dims(1);
  axis = axis < 0 ? axis + int64_t(x.size()) : axis;
  if (infer.present(2) && infer.rank(2) == infer.rank(1))
    for (auto [size, wanted] : llvm::zip_equal(infer.dims(2), scale))
      if (failed(infer.requireEqual(size, wanted, "(Q2)", "sizes of the zero point and the scale")))
        return failure();
  if (scale.empty() || (scale.size() == 1 && infer.known(scale[0]) == 1) || axis < 0 ||
      axis >= int64_t(x.size()))
    return success();
  if (block == 0 && scale.size() == 1)
    return infer.requireOneOr(scale[0], x[axis], "(Q1)",
                              "the number of scales and the size of the axis");
  if (block <= 0 || scale.size() != x.size())
    return infer.error() << "(Q1) has scales of rank " << scale.size() << " in blocks of " << block
                         << " for an operand of rank " << x.size();
  x[axis] = infer.shapes.simplify(x[axis].ceilDiv(block));
  for (auto [size, wanted] : llvm::zip_equal(scale, x))
    if (failed(x.size() == 1
                   ? infer.requireOneOr(size, wanted, "(Q1)", "the numbers of scales and blocks")
                   : infer.requireEqual(size, wanted, "(Q1)", "the numbers of scales and blocks")))
      return failure();
  return success();
}

LogicalResult QuantizeOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (failed(checkParameters(infer, getAxis(), getBlockSize())))
    return failure();
  return infer.unranked() ? infer.giveUnranked(getTo()) : infer.give(getTo(), infer.dims(0));
}
LogicalResult DequantizeOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (failed(checkParameters(infer, getAxis(), getBlockSize())))
    return failure();
  return infer.unranked() ? infer.giveUnranked(getTo()) : infer.give(getTo(), infer.dims(0));
}
LogicalResult FakeQuantizeOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (failed(checkParameters(infer, getAxis(), getBlockSize())))
    return failure();
  return infer.unranked() ? infer.giveUnranked(infer.element(0))
                          : infer.give(infer.element(0), infer.dims(0));
}

} // namespace tensmith::graph

// What products of codes ask of their operands; see CodedOperands.h.
#include "compiler/rewrite/CodedOperands.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/GraphCode.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

using graph::GraphCode;

bool isVector(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() == 1 && !type.isDynamicDim(0);
}

bool isZeroPointOf(Value zero, Value codes) {
  return GraphCode::isAbsent(zero) ||
         (GraphCode::isRanked(zero) && GraphCode::element(zero) == GraphCode::element(codes) &&
          (isScalar(zero) || isVector(zero)));
}

} // namespace

bool isScalar(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.hasStaticShape() && type.getNumElements() == 1;
}

bool isZero(Value value) {
  if (GraphCode::isAbsent(value))
    return true;
  auto tensor = graph::constantTensor(value);
  if (!tensor || !isa<IntegerType>(GraphCode::element(value)))
    return false;
  for (int64_t i = 0; i < tensor->size(); ++i)
    if (tensor->getInt(i) != 0)
      return false;
  return true;
}

graph::DequantizeOp dequantizationOf(Value value) {
  auto op = value.getDefiningOp<graph::DequantizeOp>();
  auto type = dyn_cast<RankedTensorType>(value.getType());
  bool fits = op && type && type.getElementType().isF32() && op.getBlockSize() == 0 &&
              isa<RankedTensorType>(op.getX().getType()) &&
              getElementTypeOrSelf(op.getX().getType()).isInteger(8) &&
              getElementTypeOrSelf(op.getScale().getType()).isF32() &&
              isZeroPointOf(op.getZeroPoint(), op.getX());
  if (!fits)
    return {};
  int64_t axis = int64_t(op.getAxis());
  bool inRange = axis >= -type.getRank() && axis < type.getRank();
  // One scale has one zero point.
  bool single = isScalar(op.getScale()) &&
                (GraphCode::isAbsent(op.getZeroPoint()) || isScalar(op.getZeroPoint()));
  return single || (isVector(op.getScale()) && !isScalar(op.getScale()) && inRange)
             ? op
             : graph::DequantizeOp();
}

std::optional<int64_t> scaleAxis(Value value) {
  if (auto transpose = value.getDefiningOp<graph::TransposeOp>()) {
    auto axis = scaleAxis(transpose.getX());
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    return axis && *axis >= 0
               ? std::optional<int64_t>(llvm::find(permutation, *axis) - permutation.begin())
               : axis;
  }
  graph::DequantizeOp op = dequantizationOf(value);
  if (!op)
    return std::nullopt;
  int64_t axis = int64_t(op.getAxis());
  int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
  return isScalar(op.getScale()) ? -1 : axis < 0 ? axis + rank : axis;
}

} // namespace tensmith::rewrite

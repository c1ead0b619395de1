// Convolutions and matrix products by element; see WindowElement.h.
#include "compiler/kernel/WindowElement.h"

#include "compiler/graph/Graph.h"
#include "compiler/kernel/IndexMath.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

Value zeroOf(OpBuilder &builder, Location location, Type type) {
  return builder.create<arith::ConstantOp>(location, builder.getZeroAttr(type));
}

bool isUnsignedOperand(Operation *op, unsigned number) {
  return graph::isUnsigned(getElementTypeOrSelf(op->getOperand(number).getType()));
}

Value sumOfProducts(graph::ElementContext &context, Operation *op, ValueRange extents, Value zero,
                    graph::ElementContext::Term factors) {
  bool unsignedA = isUnsignedOperand(op, 0), unsignedB = isUnsignedOperand(op, 1);
  return context.reduce(graph::ElementContext::Join::Sum, extents, zero, factors,
                        [&](Value sum, ValueRange of) {
                          return emitMultiplyAdd(context.builder, context.location, of[0],
                                                 unsignedA, of[1], unsignedB, sum);
                        });
}

Value matmulElement(graph::ElementContext &context, graph::MatMulOp op, ValueRange indices) {
  IndexMath math(context.builder, context.location);
  auto aType = cast<RankedTensorType>(op.getA().getType()),
       bType = cast<RankedTensorType>(op.getB().getType());
  int64_t aRank = aType.getRank(), bRank = bType.getRank();
  bool aVector = aRank == 1, bVector = bRank == 1;
  size_t batchRank = indices.size() - !aVector - !bVector;
  auto batchOf = [&](RankedTensorType type) {
    SmallVector<Value> at;
    int64_t own = std::max<int64_t>(type.getRank() - 2, 0);
    for (int64_t dim = 0; dim < own; ++dim)
      at.push_back(type.getDimSize(dim) == 1 ? math.constant(0) : indices[batchRank - own + dim]);
    return at;
  };
  Value depth = context.operandSize(0, aRank - 1);
  Type type = graph::kernelElementType(getElementTypeOrSelf(op.getType()));
  Value zero = zeroOf(context.builder, context.location, type);
  auto factors = [&](ValueRange k) -> SmallVector<Value> {
    SmallVector<Value> at = batchOf(aType), bt = batchOf(bType);
    if (!aVector)
      at.push_back(indices[batchRank]);
    at.push_back(k[0]);
    bt.push_back(k[0]);
    if (!bVector)
      bt.push_back(indices.back());
    return {context.operand(0, at), context.operand(1, bt)};
  };
  return sumOfProducts(context, op, {depth}, zero, factors);
}

/// Loops over the window, then over the group's channels; a tap outside of the input contributes
/// nothing.
Value convElement(graph::ElementContext &context, graph::ConvOp op, ValueRange indices) {
  IndexMath math(context.builder, context.location);
  auto &builder = context.builder;
  auto location = context.location;
  auto wType = cast<RankedTensorType>(op.getW().getType());
  size_t spatial = wType.getRank() - 2;
  bool last = graph::isChannelsLast(op);
  size_t firstSpatial = last ? 1 : 2, channel = last ? spatial + 1 : 1;
  Value groups = math.constant(op.getGroup());
  Value perGroup = math.div(context.operandSize(1, 0), groups);
  Value depth = context.operandSize(1, 1);
  Value m = indices[channel];
  Value firstChannel =
      op.getGroup() == 1 ? math.constant(0) : math.mul(math.div(m, perGroup), depth);

  SmallVector<Value> extents;
  for (size_t dim = 0; dim < spatial; ++dim)
    extents.push_back(context.operandSize(1, dim + 2));
  extents.push_back(depth);
  Type type = graph::kernelElementType(getElementTypeOrSelf(op.getType()));
  Value zero = zeroOf(builder, location, type);
  Type xKernel = graph::kernelElementType(getElementTypeOrSelf(op.getX().getType()));

  auto factors = [&](ValueRange tap) -> SmallVector<Value> {
    SmallVector<Value> xAt(spatial + 2), wAt{m, tap.back()};
    SmallVector<unsigned> guarded;
    xAt[0] = indices[0];
    xAt[channel] = math.add(firstChannel, tap.back());
    for (size_t dim = 0; dim < spatial; ++dim) {
      Value start = math.mul(indices[firstSpatial + dim], op.getStrides()[dim]);
      Value at = math.add(start, math.mul(tap[dim], op.getDilations()[dim]));
      xAt[firstSpatial + dim] = math.sub(at, math.constant(op.getPads()[dim]));
      if (op.getPads()[dim] != 0 || op.getPads()[dim + spatial] != 0)
        guarded.push_back(unsigned(firstSpatial + dim));
      wAt.push_back(tap[dim]);
    }
    return {context.read(0, xAt, guarded, zeroOf(builder, location, xKernel)),
            context.operand(1, wAt)};
  };
  Value sum = sumOfProducts(context, op, extents, zero, factors);
  if (isa<NoneType>(op.getBias().getType()))
    return sum;
  Value bias = context.operand(2, {m});
  if (isa<FloatType>(type))
    return builder.create<arith::AddFOp>(location, sum, bias);
  return builder.create<arith::AddIOp>(location, sum, bias);
}

} // namespace

Value emitMultiplyAdd(OpBuilder &builder, Location location, Value a, bool unsignedA, Value b,
                      bool unsignedB, Value sum) {
  Type type = sum.getType();
  auto widen = [&](Value value, bool isUnsigned) -> Value {
    if (value.getType() == type)
      return value;
    if (isa<FloatType>(getElementTypeOrSelf(type)))
      return builder.create<arith::ExtFOp>(location, type, value);
    if (isUnsigned)
      return builder.create<arith::ExtUIOp>(location, type, value);
    return builder.create<arith::ExtSIOp>(location, type, value);
  };
  a = widen(a, unsignedA);
  b = widen(b, unsignedB);
  if (isa<FloatType>(getElementTypeOrSelf(type)))
    return builder.create<math::FmaOp>(location, a, b, sum);
  return builder.create<arith::AddIOp>(location, builder.create<arith::MulIOp>(location, a, b),
                                       sum);
}

bool hasWindowElement(Operation *op) { return isa<graph::MatMulOp, graph::ConvOp>(op); }

Value emitElement(graph::ElementContext &context, OpResult value, ValueRange indices) {
  auto indexed = dyn_cast<graph::Indexed>(value.getOwner());
  return indexed ? indexed.emitElement(context, value.getResultNumber(), indices)
                 : emitWindowElement(context, value.getOwner(), indices);
}

Value emitWindowElement(graph::ElementContext &context, Operation *op, ValueRange indices) {
  if (auto matmul = dyn_cast<graph::MatMulOp>(op))
    return matmulElement(context, matmul, indices);
  if (auto conv = dyn_cast<graph::ConvOp>(op))
    return convElement(context, conv, indices);
  return {};
}

} // namespace tensmith::kernel

// Quantisation as arithmetic (Decomposable::decompose), for integer codes.
//
// In f32, or in f64 where the scale is: codes of up to 16 bits are exact there. Wider codes, and
// those of floats, whose rounding is the type's own, have no decomposition.
#include "compiler/graph/FakeQuantization.h"

using namespace mlir;

namespace tensmith::graph {

namespace {
/// An integer type that f32 holds exactly.
IntegerType codeType(Type element) {
  auto integer = dyn_cast<IntegerType>(element);
  return integer && integer.getWidth() > 1 && integer.getWidth() <= 16 ? integer : IntegerType();
}

} // namespace

Value alignParameter(const GraphCode &code, Value parameter, Value x, int64_t axis,
                     int64_t blockSize) {
  if (!parameter || !GraphCode::isRanked(parameter))
    return {};
  GraphCode::Dims dims = code.dims(parameter), target = code.dims(x);
  if (blockSize == 0) {
    auto only = dims.size() == 1 ? dyn_cast<AffineConstantExpr>(dims[0]) : AffineConstantExpr();
    if (dims.empty() || (only && only.getValue() == 1))
      return code.reshape(parameter, {});
    if (dims.size() != 1 || axis < 0 || axis >= int64_t(target.size()))
      return {};
    return code.alongDimension(parameter, axis, target.size());
  }
  if (dims.size() != target.size() || axis < 0 || axis >= int64_t(dims.size()))
    return {};
  GraphCode::Dims apart = dims, repeated, merged = dims;
  apart.insert(apart.begin() + axis + 1, code.size(1));
  repeated = apart;
  repeated[axis + 1] = code.size(blockSize);
  merged[axis] = code.graph.shapes.simplify(dims[axis] * blockSize);
  Value blocks = code.reshape(code.broadcast(code.reshape(parameter, apart), repeated), merged);
  if (code.graph.shapes.equal(merged[axis], target[axis]))
    return blocks;
  return code.slice(blocks, SmallVector<int64_t>(target.size(), 0), target);
}

namespace {
/// What is computed in, as the scale says.
Type numberType(Value scale, Builder &builder) {
  return GraphCode::element(scale).isF64() ? Type(builder.getF64Type()) : builder.getF32Type();
}

/// The axis as an index into the dimensions; a scalar has none.
int64_t axisOf(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }
} // namespace

LogicalResult QuantizeOp::decompose(GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  IntegerType type = codeType(getTo());
  if (!type || !GraphCode::isRanked(getX()) || !GraphCode::isRanked(getScale()))
    return failure();
  GraphCode code(graph);
  Type number = numberType(getScale(), graph.builder);
  if (GraphCode::element(getX()).isF64() && !number.isF64())
    return failure();
  int64_t axis = axisOf(getAxis(), GraphCode::rank(getX()));
  auto parameter = [&](Value value) {
    return alignParameter(code, code.cast(value, number), getX(), axis, getBlockSize());
  };
  Value y = code.div(code.cast(getX(), number), parameter(getScale()));
  y = code.unary("graph.round", y);
  unsigned bits = type.getWidth();
  double low = type.isUnsigned() ? 0 : -double(1 << (bits - 1));
  double high = type.isUnsigned() ? double((1 << bits) - 1) : double((1 << (bits - 1)) - 1);
  bool hasZero = !GraphCode::isAbsent(getZeroPoint());
  // The zero point is added to integers: so NaN, which they have not, is coded as zero is.
  Value zero = hasZero ? parameter(getZeroPoint()) : Value();
  if (!y || (hasZero && !zero))
    return failure();
  auto bound = [&](double limitingCode) {
    Value limit = code.scalar(y, limitingCode);
    return hasZero ? code.sub(limit, zero) : limit;
  };
  y = code.op("graph.max", {y, bound(low)});
  y = code.op("graph.min", {y, bound(high)});
  if (hasZero) {
    Type wide = bits <= 8 ? graph.builder.getI16Type() : graph.builder.getI32Type();
    Value offset =
        alignParameter(code, code.cast(getZeroPoint(), wide), getX(), axis, getBlockSize());
    y = code.add(code.cast(y, wide), offset);
  }
  return finish(code.cast(y, getTo()), results);
}

/// The two operators, which are decomposed in their turn.
LogicalResult FakeQuantizeOp::decompose(GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  GraphCode code(graph);
  Builder &builder = graph.builder;
  auto type = [&](Type element) { return builder.getNamedAttr("to", TypeAttr::get(element)); };
  auto axis = builder.getNamedAttr("axis", getAxisAttr());
  auto block = builder.getNamedAttr("block_size", getBlockSizeAttr());
  Value codes =
      code.op("graph.quantize", {getX(), getScale(), getZeroPoint()}, {axis, block, type(getTo())});
  return finish(code.op("graph.dequantize", {codes, getScale(), getZeroPoint()},
                        {axis, block, type(GraphCode::element(getX()))}),
                results);
}

LogicalResult DequantizeOp::decompose(GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  Type element = GraphCode::element(getX());
  bool isWide = element.isSignlessInteger(32); // a bias: its zero point is zero, or absent
  if ((!codeType(element) && !isWide) || !GraphCode::isRanked(getX()) ||
      !GraphCode::isRanked(getScale()))
    return failure();
  GraphCode code(graph);
  Type number = numberType(getScale(), graph.builder);
  int64_t axis = axisOf(getAxis(), GraphCode::rank(getX()));
  // Small codes as 16-bit numbers, which is how integer products take them (IntegerProducts.cpp).
  Type wide = isWide                                ? element
              : element.getIntOrFloatBitWidth() > 8 ? number
                                                    : Type(graph.builder.getI16Type());
  Value x = code.cast(getX(), wide);
  if (!GraphCode::isAbsent(getZeroPoint()))
    x = code.sub(
        x, alignParameter(code, code.cast(getZeroPoint(), wide), getX(), axis, getBlockSize()));
  Value scale = alignParameter(code, code.cast(getScale(), number), getX(), axis, getBlockSize());
  Value y = code.mul(code.cast(x, number), scale);
  return finish(code.cast(y, getTo()), results);
}

} // namespace tensmith::graph

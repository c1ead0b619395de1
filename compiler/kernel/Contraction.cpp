// Recognising contractions and laying out their weights; see Contraction.h.
#include "compiler/kernel/Contraction.h"

#include "compiler/graph/GraphBuilder.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

SmallVector<int64_t> window(graph::ConvOp conv) {
  auto type = cast<RankedTensorType>(conv.getW().getType());
  return SmallVector<int64_t>(type.getShape().drop_front(2));
}

int64_t product(ArrayRef<int64_t> values) {
  int64_t result = 1;
  for (int64_t value : values)
    result *= value;
  return result;
}

Value reshapeTo(graph::GraphBuilder &builder, Value x, ArrayRef<int64_t> shape) {
  SmallVector<AffineExpr> dims;
  for (int64_t size : shape)
    dims.push_back(builder.shapes.constant(size));
  return builder.reshape(x, dims);
}

struct ConvSizes {
  int64_t groups, outputs, inputs, taps; // outputs and inputs of one group
  explicit ConvSizes(graph::ConvOp conv) {
    auto type = cast<RankedTensorType>(conv.getW().getType());
    groups = conv.getGroup();
    outputs = type.getDimSize(0) / groups;
    inputs = type.getDimSize(1);
    taps = product(window(conv));
  }
};

/// The operand of `value`'s defining operation, if that is an Op (with the permutation, if one is
/// given).
template <typename Op> Value through(Value value) {
  auto op = value ? value.getDefiningOp<Op>() : Op();
  return op ? op.getX() : Value();
}
Value throughTranspose(Value value, ArrayRef<int64_t> permutation) {
  auto op = value ? value.getDefiningOp<graph::TransposeOp>() : graph::TransposeOp();
  return op && op.getPermutation() == permutation ? op.getX() : Value();
}

bool hasShape(Value value, ArrayRef<int64_t> shape) {
  return value && cast<RankedTensorType>(value.getType()).getShape() == shape;
}

Value unpackedFrom(Value matrix) {
  Value panels = through<graph::UnpackOp>(matrix);
  return panels && isa<BlockArgument>(panels) ? panels : Value();
}

Value matchConvPanels(graph::ConvOp conv) {
  ConvSizes sizes(conv);
  Value split = throughTranspose(through<graph::ReshapeOp>(conv.getW()), {0, 3, 2, 1});
  if (!hasShape(split, {sizes.groups, sizes.taps, sizes.inputs, sizes.outputs}))
    return {};
  return unpackedFrom(through<graph::ReshapeOp>(split));
}

bool canAccumulate(Type accumulator, Value left, Value panels) {
  auto wide = [&](Value value) {
    Type type = graph::kernelElementType(getElementTypeOrSelf(value.getType()));
    return type && !type.isInteger(1) && isa<FloatType>(type) == isa<FloatType>(accumulator) &&
           type.getIntOrFloatBitWidth() <= accumulator.getIntOrFloatBitWidth();
  };
  return accumulator && !accumulator.isInteger(1) && accumulator.getIntOrFloatBitWidth() >= 32 &&
         wide(left) && wide(panels);
}

} // namespace

Value weightsAsMatrix(graph::GraphBuilder &builder, graph::ConvOp conv, Value weights) {
  ConvSizes s(conv);
  Value split = reshapeTo(builder, weights, {s.groups, s.outputs, s.inputs, s.taps});
  Value turned = builder.transpose(split, {0, 3, 2, 1});
  return reshapeTo(builder, turned, {s.groups, s.taps * s.inputs, s.outputs});
}

Value matrixAsWeights(graph::GraphBuilder &builder, graph::ConvOp conv, Value matrix) {
  ConvSizes s(conv);
  Value split = reshapeTo(builder, matrix, {s.groups, s.taps, s.inputs, s.outputs});
  Value turned = builder.transpose(split, {0, 3, 2, 1});
  return reshapeTo(builder, turned, cast<RankedTensorType>(conv.getW().getType()).getShape());
}

bool readsWholeRows(graph::ConvOp conv) {
  return conv.getChannelsLast() && conv.getGroup() == 1 && conv.getDilations().back() == 1 &&
         llvm::all_of(conv.getPads(), [](int64_t pad) { return pad == 0; });
}

bool isDepthwise(graph::ConvOp conv) {
  auto type = dyn_cast<RankedTensorType>(conv.getW().getType());
  return type && type.hasStaticShape() && conv.getGroup() > 1 && type.getDimSize(1) == 1 &&
         type.getDimSize(0) == int64_t(conv.getGroup());
}

Value depthwiseWeightsAsTaps(graph::GraphBuilder &builder, Value weights) {
  auto type = cast<RankedTensorType>(weights.getType());
  int64_t channels = type.getDimSize(0), taps = product(type.getShape().drop_front(2));
  return builder.transpose(reshapeTo(builder, weights, {channels, taps}), {1, 0});
}

Value tapsAsDepthwiseWeights(graph::GraphBuilder &builder, graph::ConvOp conv, Value taps) {
  Value turned = builder.transpose(taps, {1, 0});
  return reshapeTo(builder, turned, cast<RankedTensorType>(conv.getW().getType()).getShape());
}

Value matchDepthwiseTaps(graph::ConvOp conv) {
  Value taps = throughTranspose(through<graph::ReshapeOp>(conv.getW()), {1, 0});
  return taps && isa<BlockArgument>(taps) ? taps : Value();
}

std::optional<Contraction> matchContraction(Operation *root) {
  Contraction match{root, {}, {}, 0, {}, {}};
  if (auto conv = dyn_cast<graph::ConvOp>(root)) {
    if (!conv.getChannelsLast())
      return std::nullopt;
    match.left = conv.getX();
    match.panels = matchConvPanels(conv);
    if (!isa<NoneType>(conv.getBias().getType()))
      match.bias = conv.getBias();
  } else if (auto matmul = dyn_cast<graph::MatMulOp>(root)) {
    match.left = matmul.getA();
    match.panels = unpackedFrom(matmul.getB());
  }
  if (!match.panels)
    return std::nullopt;
  match.width = cast<RankedTensorType>(match.panels.getType()).getShape().back();
  match.accumulator = graph::kernelElementType(match.result().getElementType());
  if (!canAccumulate(match.accumulator, match.left, match.panels))
    return std::nullopt;
  return match;
}

} // namespace tensmith::kernel

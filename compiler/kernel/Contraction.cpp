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

/// The permutation of `rank` dimensions that changes the last two.
SmallVector<int64_t> swapLast(int64_t rank) {
  auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(permutation[rank - 2], permutation[rank - 1]);
  return permutation;
}

/// Where a matrix comes from: a block argument of panels, and how many of its rows lie side by side
/// there.
struct Packed {
  Value panels;
  int64_t step = 1;
};

Packed unpackedFrom(Value matrix) {
  Packed packed;
  if (!matrix)
    return packed;
  if (auto cut = matrix.getDefiningOp<graph::SliceOp>()) { // of rows that fill up the last step
    bool first = llvm::all_of(cut.getStarts(), [](int64_t start) { return start == 0; }) &&
                 llvm::all_of(cut.getSteps(), [](int64_t step) { return step == 1; });
    if (!first)
      return packed;
    matrix = cut.getX();
  }
  int64_t rank = cast<RankedTensorType>(matrix.getType()).getRank();
  if (Value apart = throughTranspose(through<graph::ReshapeOp>(matrix), swapLast(rank + 1))) {
    packed.step = cast<RankedTensorType>(apart.getType()).getShape().back();
    matrix = through<graph::ReshapeOp>(apart);
  }
  Value panels = through<graph::UnpackOp>(matrix);
  if (panels && isa<BlockArgument>(panels))
    packed.panels = panels;
  return packed;
}

Packed matchConvPanels(graph::ConvOp conv) {
  ConvSizes sizes(conv);
  Value split = throughTranspose(through<graph::ReshapeOp>(conv.getW()), {0, 3, 2, 1});
  if (!hasShape(split, {sizes.groups, sizes.taps, sizes.inputs, sizes.outputs}))
    return {};
  return unpackedFrom(through<graph::ReshapeOp>(split));
}

/// Whether products of such elements may be added up by so many.
bool isStep(int64_t step, Value left, Value panels, RankedTensorType result) {
  Type a = getElementTypeOrSelf(left.getType()), b = getElementTypeOrSelf(panels.getType());
  bool sums = result.getElementType().isSignlessInteger(32);
  bool pairs = a.isSignlessInteger(16) && b.isSignlessInteger(16);
  bool bytes = a.isUnsignedInteger(8) && b.isSignlessInteger(8);
  return step == 1 || (sums && step == 2 && pairs) || (sums && step == 4 && bytes);
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

int64_t stepOf(const MachineShape &machine, Type left, Type right, Type accumulator) {
  if (!accumulator.isInteger(32))
    return 1;
  bool bytes = left.isUnsignedInteger(8) && right.isSignlessInteger(8);
  if (bytes && machine.byteProducts != ByteProducts::None)
    return 4;
  bool pairs = left.isSignlessInteger(16) && right.isSignlessInteger(16);
  return pairs ? machine.integerStep : 1;
}

Value interleaved(graph::GraphBuilder &builder, Value matrix, int64_t step) {
  auto &shapes = builder.shapes;
  auto dims = shapes.dims(matrix.getType());
  int64_t rank = dims.size();
  int64_t depth = cast<RankedTensorType>(matrix.getType()).getDimSize(rank - 2);
  int64_t lines = (depth + step - 1) / step;
  if (lines * step != depth) {
    SmallVector<int64_t> low(rank, 0), high(rank, 0);
    high[rank - 2] = lines * step - depth;
    matrix = graph::GraphBuilder::first(
        builder.create("pad", {matrix, builder.none()},
                       {builder.named("low", builder.builder.getDenseI64ArrayAttr(low)),
                        builder.named("high", builder.builder.getDenseI64ArrayAttr(high))}));
  }
  AffineExpr columns = dims.pop_back_val();
  dims.back() = shapes.constant(lines);
  auto apart = dims, together = dims;
  apart.append({shapes.constant(step), columns});
  together.push_back(shapes.simplify(columns * step));
  Value turned = builder.transpose(builder.reshape(matrix, apart), swapLast(rank + 1));
  return builder.reshape(turned, together);
}

Value deinterleaved(graph::GraphBuilder &builder, Value lines, int64_t step, int64_t depth) {
  auto &shapes = builder.shapes;
  auto dims = shapes.dims(lines.getType());
  AffineExpr columns = shapes.simplify(dims.pop_back_val().floorDiv(step));
  auto apart = dims, whole = dims;
  int64_t rank = dims.size() + 1;
  apart.append({columns, shapes.constant(step)});
  whole.back() = shapes.simplify(dims.back() * step);
  whole.push_back(columns);
  Value turned = builder.transpose(builder.reshape(lines, apart), swapLast(rank + 1));
  Value matrix = builder.reshape(turned, whole);
  whole[rank - 2] = shapes.constant(depth);
  if (cast<RankedTensorType>(matrix.getType()).getDimSize(rank - 2) == depth)
    return matrix;
  return builder.slice(matrix, SmallVector<int64_t>(rank, 0), SmallVector<int64_t>(rank, 1), whole);
}

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
  Contraction match{root, {}, {}, 0, 1, {}, {}};
  Packed packed;
  if (auto conv = dyn_cast<graph::ConvOp>(root)) {
    if (!conv.getChannelsLast())
      return std::nullopt;
    match.left = conv.getX();
    packed = matchConvPanels(conv);
    if (!isa<NoneType>(conv.getBias().getType()))
      match.bias = conv.getBias();
  } else if (auto matmul = dyn_cast<graph::MatMulOp>(root)) {
    match.left = matmul.getA();
    packed = unpackedFrom(matmul.getB());
  }
  if (!packed.panels)
    return std::nullopt;
  if (!isStep(packed.step, match.left, packed.panels, match.result()))
    return std::nullopt;
  match.panels = packed.panels;
  match.step = packed.step;
  match.width = cast<RankedTensorType>(match.panels.getType()).getShape().back() / match.step;
  match.accumulator = graph::kernelElementType(match.result().getElementType());
  if (!canAccumulate(match.accumulator, match.left, match.panels))
    return std::nullopt;
  return match;
}

} // namespace tensmith::kernel

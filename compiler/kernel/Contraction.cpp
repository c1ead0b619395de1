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
  Value split = throughTranspose(through<graph::ReshapeOp>(storedRight(conv)), {0, 3, 2, 1});
  if (!hasShape(split, {sizes.groups, sizes.taps, sizes.inputs, sizes.outputs}))
    return {};
  return unpackedFrom(through<graph::ReshapeOp>(split));
}

/// What the right operand's elements are when they are multiplied: bytes beside i16 are widened as
/// they are loaded.
Type multipliedRight(Type left, Type right) {
  return left.isSignlessInteger(16) && right.isSignlessInteger(8) ? left : right;
}

/// Whether products of such elements may be added up by so many.
bool isStep(int64_t step, Value left, Value panels, RankedTensorType result) {
  Type a = getElementTypeOrSelf(left.getType()), b = getElementTypeOrSelf(panels.getType());
  bool sums = result.getElementType().isSignlessInteger(32);
  bool pairs = a.isSignlessInteger(16) && multipliedRight(a, b) == a;
  bool bytes = a.isInteger(8) && b.isInteger(8);
  bool bfloats = a.isBF16() && b.isBF16() &&
                 (result.getElementType().isF32() || result.getElementType().isBF16());
  return step == 1 || (sums && step == 2 && pairs) || (sums && (step == 4 || step == 8) && bytes) ||
         ((step == 2 || step == 4) && bfloats);
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

SmallVector<int64_t> swapLast(int64_t rank) {
  auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(permutation[rank - 2], permutation[rank - 1]);
  return permutation;
}

bool swapsLast(graph::TransposeOp transpose) {
  int64_t rank = transpose.getPermutation().size();
  return rank > 1 && transpose.getPermutation() == ArrayRef(swapLast(rank));
}

Operation *onlyBehind(Value value, llvm::function_ref<bool(Operation *)> accepts,
                      llvm::SetVector<Operation *> &elementwise) {
  auto shape = cast<RankedTensorType>(value.getType());
  Operation *found = nullptr;
  SmallVector<Value> values{value};
  while (!values.empty()) {
    Value next = values.pop_back_val();
    Operation *op = next.getDefiningOp();
    auto type = dyn_cast<RankedTensorType>(next.getType());
    if (!op || !type || type.clone(shape.getElementType()) != shape)
      continue;
    if (accepts(op)) {
      if (found && found != op)
        return nullptr;
      found = op;
    } else if (isa<graph::Elementwise>(op) && elementwise.insert(op)) {
      llvm::append_range(values, op->getOperands());
    }
  }
  return found;
}

llvm::SetVector<Operation *> dependentOn(Operation *source,
                                         const llvm::SetVector<Operation *> &operators) {
  llvm::SetVector<Operation *> found;
  found.insert(source);
  for (size_t next = 0; next < found.size(); ++next)
    for (Operation *user : found[next]->getUsers())
      if (operators.contains(user))
        found.insert(user);
  found.remove(source);
  return found;
}

namespace {

template <typename Op> Op behind(Value value, llvm::SetVector<Operation *> &elementwise) {
  return cast_or_null<Op>(onlyBehind(value, llvm::IsaPred<Op>, elementwise));
}

bool isStackedProduct(graph::MatMulOp product) {
  constexpr int64_t kLeastRank = 3;
  auto isStack = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getElementType().isF32() && type.getRank() >= kLeastRank;
  };
  return isStack(product.getA()) && isStack(product.getB()) && isStack(product.getResult());
}

} // namespace

std::optional<AttentionScores> scoresBehind(graph::SoftmaxOp softmax) {
  auto type = cast<RankedTensorType>(softmax.getType());
  if (!type.getElementType().isF32() || softmax.getAxis() != uint64_t(type.getRank() - 1))
    return std::nullopt;
  AttentionScores scores{{}, softmax, {}};
  scores.product = behind<graph::MatMulOp>(softmax.getX(), scores.elementwise);
  if (!scores.product || !isStackedProduct(scores.product))
    return std::nullopt;
  scores.elementwise = dependentOn(scores.product, scores.elementwise);
  return scores;
}

std::optional<AttentionScores> matchScores(Operation *root) {
  auto weighted = dyn_cast<graph::MatMulOp>(root);
  if (!weighted || !isStackedProduct(weighted) || storedOperand(weighted.getA()) != weighted.getA())
    return std::nullopt;
  llvm::SetVector<Operation *> after;
  auto softmax = behind<graph::SoftmaxOp>(weighted.getA(), after);
  auto scores = softmax ? scoresBehind(softmax) : std::nullopt;
  // What follows the softmax sees it alone: scores are no longer there.
  if (!scores || !dependentOn(scores->product, after).empty())
    return std::nullopt;
  after = dependentOn(softmax, after);
  scores->elementwise.insert(after.begin(), after.end());
  graph::ShapeContext shapes(root->getContext());
  auto own = shapes.dims(weighted.getType()), theirs = shapes.dims(softmax.getType());
  bool sameRows = own.size() == theirs.size();
  for (size_t dim = 0; sameRows && dim + 1 < own.size(); ++dim)
    sameRows = shapes.equal(own[dim], theirs[dim]);
  return sameRows ? scores : std::nullopt;
}

Value storedOperand(Value operand) {
  auto cast = operand.getDefiningOp<graph::CastOp>();
  Type stored = cast ? getElementTypeOrSelf(cast.getX().getType()) : Type();
  bool isHalf = stored && (stored.isBF16() || stored.isF16());
  return isHalf && getElementTypeOrSelf(cast.getType()).isF32() ? cast.getX() : operand;
}

Value storedRight(Operation *root) {
  Value right = root->getOperand(1);
  auto cast = right.getDefiningOp<graph::CastOp>();
  if (!cast || !getElementTypeOrSelf(cast.getType()).isSignlessInteger(16) ||
      !getElementTypeOrSelf(cast.getX().getType()).isSignlessInteger(8))
    return storedOperand(right);
  return cast.getX();
}

Value storedLeft(Operation *root) { return storedOperand(root->getOperand(0)); }

int64_t panelWidth(const Machine &machine, int64_t accumulatorBytes, const Point &asked) {
  constexpr int64_t kManyRegisters = 32;
  int64_t vectors = machine.vectorRegisters >= kManyRegisters ? 4 : 2;
  return asked[choice::panelVectors].value_or(vectors) * machine.lanes(accumulatorBytes);
}

const Intrinsic *productsOf(const Contraction &contraction, const Machine &machine) {
  Type left = getElementTypeOrSelf(contraction.left.getType());
  Type right = getElementTypeOrSelf(contraction.panels.getType());
  const Intrinsic *products =
      machine.matrixProducts(left, multipliedRight(left, right), contraction.accumulator);
  return products && products->depth == contraction.step ? products : nullptr;
}

const Intrinsic *tileProductsOf(const Contraction &contraction, const Machine &machine) {
  return machine.tileProducts(getElementTypeOrSelf(contraction.left.getType()),
                              getElementTypeOrSelf(contraction.panels.getType()),
                              contraction.accumulator);
}

std::optional<Burst> burstOf(const Contraction &contraction, const Machine &machine) {
  // 4 x 4 accumulators, 4 vectors of A, and 8 of B are 28 registers; 5 x 4 + 5 + 4 are 29.
  constexpr Burst kTwoSteps{.rows = 4, .steps = 2}, kTallTile{.rows = 5, .steps = 1};
  if (!machine.hold || !(machine.inOrder || machine.multipliesLanes))
    return std::nullopt;
  if (const Intrinsic *products = productsOf(contraction, machine)) {
    bool takesLane = products->rows == 1 && products->has(TakesLane) && machine.multipliesLanes;
    if (!takesLane)
      return std::nullopt;
    return machine.inOrder ? kTwoSteps : kTallTile;
  }
  auto areBoth = [&](auto fits) {
    return fits(getElementTypeOrSelf(contraction.left.getType())) &&
           fits(getElementTypeOrSelf(contraction.panels.getType()));
  };
  bool areFloats =
      areBoth([](Type type) { return type.isF32(); }) && contraction.accumulator.isF32();
  // Whose products are widened as they are added.
  bool areWidened = areBoth([](Type type) { return type.isSignlessInteger(16); }) &&
                    contraction.accumulator.isInteger(32) && machine.multipliesLanes;
  if (!areFloats && !areWidened)
    return std::nullopt;
  return machine.inOrder ? kTwoSteps : kTallTile;
}

int64_t stepOf(const Machine &machine, Type left, Type right, Type accumulator) {
  const Intrinsic *products =
      machine.matrixProducts(left, multipliedRight(left, right), accumulator);
  return products ? products->depth : 1;
}

int64_t stepOf(const Machine &machine, Operation *root) {
  return stepOf(machine, getElementTypeOrSelf(storedLeft(root).getType()),
                getElementTypeOrSelf(storedRight(root).getType()),
                graph::kernelElementType(getElementTypeOrSelf(root->getResult(0).getType())));
}

int64_t stepOfGroups(const Machine &machine, graph::ConvOp conv) {
  constexpr Number kOperand = Number::BF16, kSum = Number::F32;
  const Intrinsic *products = machine.products(kOperand, kOperand, kSum);
  bool areHalves = isNumber(getElementTypeOrSelf(storedLeft(conv).getType()), kOperand) &&
                   isNumber(getElementTypeOrSelf(storedRight(conv).getType()), kOperand);
  return products && areHalves ? products->depth : 1;
}

double bfloatRate(const Machine &machine) {
  constexpr Number kOperand = Number::BF16, kSum = Number::F32;
  const Intrinsic *products = machine.tileProducts(kOperand, kOperand, kSum);
  if (!products)
    products = machine.matrixProducts(kOperand, kOperand, kSum);
  return products ? std::max(products->rate, 1.0) : 1;
}

int64_t productsOfTile(int64_t step) {
  return MatrixUnit::kLineBytes / int64_t(sizeof(int32_t)) * step;
}

bool suitsMatrixUnit(const Machine &machine, Operation *root) {
  constexpr int64_t kFewRows = 4; // take as long as sixteen
  const Intrinsic *products = machine.tileProducts(
      getElementTypeOrSelf(storedLeft(root).getType()),
      getElementTypeOrSelf(storedRight(root).getType()),
      graph::kernelElementType(getElementTypeOrSelf(root->getResult(0).getType())));
  if (!products || matchScores(root))
    return false;
  auto result = cast<RankedTensorType>(root->getResult(0).getType());
  auto right = cast<RankedTensorType>(root->getOperand(1).getType());
  int64_t ofStack = isa<graph::ConvOp>(root) ? 0 : right.getRank() - 2;
  auto rows = result.getShape().drop_front(ofStack).drop_back();
  bool few = llvm::none_of(rows, ShapedType::isDynamic) && product(rows) < kFewRows;
  return !few && (isa<graph::ConvOp>(root) || !right.isDynamicDim(right.getRank() - 2));
}

Value interleaved(graph::GraphBuilder &builder, Value matrix, int64_t step, int64_t multiple) {
  auto &shapes = builder.shapes;
  auto dims = shapes.dims(matrix.getType());
  int64_t rank = dims.size();
  int64_t depth = cast<RankedTensorType>(matrix.getType()).getDimSize(rank - 2);
  int64_t lines = int64_t(llvm::alignTo(depth, multiple)) / step;
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

bool hasWindow(graph::ConvOp conv) {
  auto weights = cast<RankedTensorType>(conv.getW().getType());
  return llvm::any_of(weights.getShape().drop_front(2), [](int64_t size) { return size != 1; });
}

bool readsPixelsInPlace(graph::ConvOp conv, int64_t multiple) {
  auto weights = cast<RankedTensorType>(conv.getW().getType());
  bool window = hasWindow(conv);
  bool wholeRows = readsWholeRows(conv);
  bool longEnough = !window || weights.getDimSize(1) >= kFewChannels || wholeRows;
  int64_t run = weights.getDimSize(1) * (wholeRows ? weights.getShape().back() : 1);
  return longEnough && run % multiple == 0;
}

bool isPointwise(graph::ConvOp conv) {
  auto isOne = [](int64_t value) { return value == 1; };
  auto isZero = [](int64_t value) { return value == 0; };
  return llvm::all_of(window(conv), isOne) && llvm::all_of(conv.getStrides(), isOne) &&
         llvm::all_of(conv.getPads(), isZero);
}

bool readsWholeRows(graph::ConvOp conv) {
  return graph::isChannelsLast(conv) && conv.getGroup() == 1 && conv.getDilations().back() == 1 &&
         llvm::all_of(conv.getPads(), [](int64_t pad) { return pad == 0; });
}

Value imageInMemory(graph::ConvOp conv) { return storedOperand(conv.getX()); }

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

bool isContraction(Operation *op) {
  auto result = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  auto rank = [&](unsigned i) {
    return cast<RankedTensorType>(op->getOperand(i).getType()).getRank();
  };
  Type accumulator = result ? graph::kernelElementType(result.getElementType()) : Type();
  if (!accumulator || accumulator.getIntOrFloatBitWidth() < 32 || rank(0) < 2 || rank(1) < 2)
    return false;
  auto a = cast<RankedTensorType>(op->getOperand(0).getType()),
       b = cast<RankedTensorType>(op->getOperand(1).getType());
  if (!isa<graph::MatMulOp>(op))
    return true;
  // Leading dimensions are the result's or 1, and of the left operand all of them where the right
  // has none.
  graph::ShapeContext shapes(op->getContext());
  auto out = shapes.dims(result);
  auto fits = [&](RankedTensorType type, bool broadcasts) {
    auto dims = shapes.dims(type);
    for (int64_t dim = 0; dim + 2 < type.getRank(); ++dim) {
      AffineExpr size = out[out.size() - type.getRank() + dim];
      bool one = type.getDimSize(dim) == 1;
      if (!shapes.equal(dims[dim], size) && !(one && broadcasts))
        return false;
    }
    return true;
  };
  return fits(a, b.getRank() > 2) && fits(b, true) &&
         (b.getRank() > 2 || a.getRank() == result.getRank());
}

bool hasSmallGroups(graph::ConvOp conv) {
  constexpr int64_t kMostChannels = 16;
  auto type = dyn_cast<RankedTensorType>(conv.getW().getType());
  if (!type || !type.hasStaticShape() || conv.getGroup() < 2)
    return false;
  int64_t inputs = type.getDimSize(1);
  return inputs > 1 && inputs <= kMostChannels && llvm::isPowerOf2_64(uint64_t(inputs)) &&
         type.getDimSize(0) == int64_t(conv.getGroup()) * inputs;
}

Value smallGroupsAsMatrix(graph::GraphBuilder &builder, Value weights) {
  auto type = cast<RankedTensorType>(weights.getType());
  int64_t channels = type.getDimSize(0), inputs = type.getDimSize(1);
  int64_t taps = product(type.getShape().drop_front(2));
  Value split = reshapeTo(builder, weights, {channels, inputs, taps});
  return reshapeTo(builder, builder.transpose(split, {2, 1, 0}), {taps * inputs, channels});
}

Value matrixAsSmallGroups(graph::GraphBuilder &builder, graph::ConvOp conv, Value matrix) {
  auto type = cast<RankedTensorType>(conv.getW().getType());
  int64_t channels = type.getDimSize(0), inputs = type.getDimSize(1);
  int64_t taps = product(type.getShape().drop_front(2));
  Value split = reshapeTo(builder, matrix, {taps, inputs, channels});
  return reshapeTo(builder, builder.transpose(split, {2, 1, 0}), type.getShape());
}

Value matchSmallGroupPanels(graph::ConvOp conv) {
  // Of one dimension the window needs no reshape.
  Value weights = storedRight(conv), parts = through<graph::ReshapeOp>(weights);
  Value split = throughTranspose(parts ? parts : weights, {2, 1, 0});
  Packed packed = unpackedFrom(through<graph::ReshapeOp>(split));
  bool pairs = packed.panels && getElementTypeOrSelf(packed.panels.getType()).isBF16();
  return packed.step == (pairs ? 2 : 1) ? packed.panels : Value();
}

int64_t depthOf(Operation *root) {
  if (auto conv = dyn_cast<graph::ConvOp>(root)) {
    ConvSizes sizes(conv);
    return sizes.taps * sizes.inputs;
  }
  auto left = cast<RankedTensorType>(root->getOperand(0).getType()),
       right = cast<RankedTensorType>(root->getOperand(1).getType());
  bool isLeftKnown = !ShapedType::isDynamic(left.getShape().back());
  return isLeftKnown || right.getRank() < 2 ? left.getShape().back()
                                            : right.getDimSize(right.getRank() - 2);
}

std::optional<Contraction> matchContraction(Operation *root) {
  Contraction match{root, {}, {}, 0, 1, 1, {}, {}};
  Packed packed;
  if (auto conv = dyn_cast<graph::ConvOp>(root)) {
    if (!graph::isChannelsLast(conv))
      return std::nullopt;
    match.left = storedLeft(root);
    packed = matchConvPanels(conv);
    if (!isa<NoneType>(conv.getBias().getType()))
      match.bias = conv.getBias();
  } else if (auto matmul = dyn_cast<graph::MatMulOp>(root)) {
    match.left = storedLeft(root);
    packed = unpackedFrom(storedRight(matmul));
  }
  if (!packed.panels)
    return std::nullopt;
  if (!isStep(packed.step, match.left, packed.panels, match.result()))
    return std::nullopt;
  match.panels = packed.panels;
  match.step = packed.step;
  match.width = cast<RankedTensorType>(match.panels.getType()).getShape().back() / match.step;
  match.accumulator = graph::kernelElementType(match.result().getElementType());
  match.multiple = match.step;
  int64_t lines = cast<RankedTensorType>(match.panels.getType()).getShape().drop_back().back();
  int64_t depth = depthOf(root);
  bool known = !ShapedType::isDynamic(lines) && !ShapedType::isDynamic(depth);
  if (known && lines * match.step >= depth + match.step)
    match.multiple = productsOfTile(match.step);
  if (known && lines * match.step != int64_t(llvm::alignTo(depth, match.multiple)))
    return std::nullopt;
  if (!canAccumulate(match.accumulator, match.left, match.panels))
    return std::nullopt;
  return match;
}

int64_t tapCount(graph::ConvOp conv) {
  int64_t taps = 1;
  for (int64_t size : cast<RankedTensorType>(conv.getW().getType()).getShape().drop_front(2))
    taps *= size;
  return taps;
}

bool fitsSmallGroups(graph::ConvOp conv) {
  constexpr int64_t kMostProducts = 160; // each is straight code
  auto isFloat = [](Value value) { return getElementTypeOrSelf(value.getType()).isF32(); };
  if (!hasSmallGroups(conv) || !graph::isChannelsLast(conv) || !isFloat(conv.getX()) ||
      !isFloat(conv.getY()) || !isFloat(conv.getW()))
    return false;
  int64_t inputs = cast<RankedTensorType>(conv.getW().getType()).getDimSize(1);
  return tapCount(conv) <= kMostStraightTaps && tapCount(conv) * inputs <= kMostProducts;
}

bool takesSmallGroups(graph::ConvOp conv) {
  return fitsSmallGroups(conv) && getElementTypeOrSelf(storedRight(conv).getType()).isF32();
}

bool takesPairsOfGroups(graph::ConvOp conv, const Machine &machine) {
  constexpr int64_t kLeastInputs = 8; // fewer are loaded and permuted in as much time
  auto isStored = [&](auto is) {
    return is(getElementTypeOrSelf(storedLeft(conv).getType())) &&
           is(getElementTypeOrSelf(storedRight(conv).getType()));
  };
  constexpr Number kOperand = Number::BF16, kSum = Number::F32;
  const Intrinsic *products = machine.products(kOperand, kOperand, kSum);
  return products && products->rate > 1 && !machine.tileProducts(kOperand, kOperand, kSum) &&
         fitsSmallGroups(conv) &&
         cast<RankedTensorType>(conv.getW().getType()).getDimSize(1) >= kLeastInputs &&
         (isStored([](Type type) { return type.isF32(); }) ||
          isStored([](Type type) { return type.isBF16(); }));
}

} // namespace tensmith::kernel

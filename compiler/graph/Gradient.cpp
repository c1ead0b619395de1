// Finding rules, and values that take the shapes of others; see Gradient.h.
#include "compiler/graph/Gradient.h"

#include "compiler/graph/ComprehensionAdjoint.h"
#include "compiler/graph/Dialects.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace tensmith::graph {

bool isDifferentiable(Type type) {
  auto tensor = dyn_cast<TensorType>(type);
  auto element = tensor ? dyn_cast<FloatType>(tensor.getElementType()) : FloatType();
  return element && element.getWidth() >= 16;
}

bool holdsDifferentiable(Type type) {
  while (true) {
    if (auto sequence = dyn_cast<SequenceType>(type))
      type = sequence.getElement();
    else if (auto optional = dyn_cast<OptionalType>(type))
      type = optional.getElement();
    else if (auto map = dyn_cast<MapType>(type))
      return isa<FloatType>(map.getValue());
    else
      return isDifferentiable(type);
  }
}

/// A name with a point is of one procedure alone, and of its values one tells the size: code that
/// only names it may come to stand where nothing does.
bool hasUnknownSizes(Type type) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked)
    return true;
  for (int64_t dim = 0; dim < ranked.getRank(); ++dim)
    if (!dimExpression(ranked, unsigned(dim)))
      return true;
  return llvm::any_of(symbolNames(ranked),
                      [](StringAttr name) { return name.getValue().contains('.'); });
}

Value GradientCode::filledLike(Value x, double value) const {
  if (!x)
    return x;
  if (!hasUnknownSizes(x.getType()))
    return broadcast(scalar(x, value), dims(x));
  return op("graph.dynamic_broadcast", {scalar(x, value), shapeOf(x)});
}

Value GradientCode::zerosLike(Value x) const {
  if (x && isa<SequenceType, OptionalType>(x.getType()))
    return op("graph.sequence_zeros", {x});
  return filledLike(x, 0);
}

Value GradientCode::addChanges(Value a, Value b) const {
  if (a && isa<SequenceType, OptionalType>(a.getType()))
    return op("graph.sequence_sum", {a, b});
  return add(a, b);
}

/// Whether values of the type are of one shape: of a size without a name only a value tells it.
static bool tellsShape(Type type) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  return ranked &&
         llvm::all_of(llvm::seq<unsigned>(0, unsigned(ranked.getRank())),
                      [&](unsigned dim) { return dimExpression(ranked, dim) != nullptr; });
}
static bool isAlike(Value x, Value like) {
  return x == like || (x.getType() == like.getType() && tellsShape(x.getType()));
}

Value GradientCode::reshapeLike(Value x, Value like) const {
  if (!x || isAlike(x, like))
    return x;
  if (!hasUnknownSizes(like.getType()))
    return reshape(x, dims(like));
  return op("graph.dynamic_reshape", {x, shapeOf(like)}, {flag("allowzero", true)});
}

Value GradientCode::broadcastLike(Value x, Value like) const {
  if (!x || isAlike(x, like))
    return x;
  if (!hasUnknownSizes(like.getType()))
    return broadcast(x, dims(like));
  return op("graph.dynamic_broadcast", {x, shapeOf(like)});
}

/// Where only the run tells whether the dimension was broadcast, the run chooses.
Value GradientCode::sumUnknown(Value x, Value like, int64_t dim, int64_t likeDim) const {
  auto size = [&](Value of, int64_t at) {
    return op("graph.gather", {shapeOf(of), graph.scalar(builder.getI64Type(), double(at))},
              {integer("axis", 0)});
  };
  Value isWhole = op("graph.equal", {size(x, dim), size(like, likeDim)});
  if (!isWhole)
    return {};
  OperationState state(graph.location, IfOp::getOperationName());
  state.addOperands(isWhole);
  state.addTypes(x.getType());
  for (bool whole : {true, false}) {
    Region *region = state.addRegion();
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(region);
    Value result = whole ? x : reduce("graph.reduce_sum", x, dim, true);
    if (!result)
      return {};
    builder.create<YieldOp>(graph.location, result);
  }
  auto branch = cast<IfOp>(builder.create(state));
  SmallVector<Type> types;
  if (failed(branch.inferResults(graph.shapes, types)))
    return {};
  branch.getResult(0).setType(types[0]);
  return branch.getResult(0);
}

/// Sums of columns, as of a bias: a product with ones reads whole rows, which a sum for each column
/// doesn't.
Value GradientCode::sumRows(Value x, size_t count) const {
  if (!x)
    return x;
  Dims all = dims(x);
  ArrayRef<AffineExpr> leading = ArrayRef(all).take_front(count),
                       rest = ArrayRef(all).drop_front(count);
  if ((!element(x).isF32() && !element(x).isF64()) || hasUnknownSizes(x.getType()))
    return reduce("graph.reduce_sum", x, llvm::to_vector(llvm::seq<int64_t>(0, count)), false);
  AffineExpr rows = graph.shapes.product(leading), columns = graph.shapes.product(rest);
  Value ones = broadcast(scalar(x, 1), {size(1), rows});
  return reshape(matmul(ones, reshape(x, {rows, columns})), rest);
}

Value GradientCode::sumLike(Value x, Value like) const {
  if (!x || isAlike(x, like))
    return x;
  if (!isRanked(x) || !isRanked(like))
    return {};
  Dims from = dims(x), to = dims(like);
  auto own = cast<RankedTensorType>(x.getType()), other = cast<RankedTensorType>(like.getType());
  int64_t missing = int64_t(from.size()) - int64_t(to.size());
  SmallVector<int64_t> gone, kept, unknown;
  for (int64_t dim = 0; dim < int64_t(from.size()); ++dim) {
    if (dim < missing) {
      if (own.getDimSize(dim) != 1)
        gone.push_back(dim);
      continue;
    }
    bool isOne = other.getDimSize(dim - missing) == 1;
    if (isOne && own.getDimSize(dim) != 1)
      kept.push_back(dim);
    else if (!isOne && !graph.shapes.equal(from[dim], to[dim - missing]) &&
             other.isDynamicDim(dim - missing) && own.getDimSize(dim) != 1)
      unknown.push_back(dim);
  }
  for (int64_t dim : unknown)
    x = sumUnknown(x, like, dim, dim - missing);
  SmallVector<int64_t> axes = gone;
  llvm::append_range(axes, kept);
  llvm::sort(axes);
  if (!axes.empty() && axes.back() == int64_t(axes.size()) - 1 && axes.size() < from.size())
    x = sumRows(x, axes.size());
  else if (!axes.empty())
    x = reduce("graph.reduce_sum", x, axes, kept.size() == axes.size());
  return reshapeLike(x, like);
}

Value GradientCode::pad(Value x, ArrayRef<int64_t> low, ArrayRef<int64_t> high) const {
  auto isZero = [](int64_t size) { return size == 0; };
  if (llvm::all_of(low, isZero) && llvm::all_of(high, isZero))
    return x;
  return op("graph.pad", {x, graph.none()}, {integers("low", low), integers("high", high)});
}

Value GradientCode::spread(Value x, ArrayRef<int64_t> steps) const {
  if (!x || llvm::all_of(steps, [](int64_t step) { return step == 1; }))
    return x;
  Dims own = dims(x), apart, joined;
  SmallVector<int64_t> low, high;
  for (auto [size, step] : llvm::zip_equal(own, steps)) {
    apart.append({size});
    high.push_back(0);
    if (step != 1) {
      apart.push_back(this->size(1));
      high.push_back(step - 1);
    }
    joined.push_back(graph.shapes.simplify(size * step));
  }
  low.resize(high.size(), 0);
  return reshape(pad(reshape(x, apart), low, high), joined);
}

namespace {
/// Steps that are wider than this may be much wider than the dimension is long.
constexpr int64_t kWidestSpread = 4096;

/// The elements of x along the dimension, from `first` on as far apart, either way, in one as long
/// as that of `like`: each place gathers its element, or a zero from behind the last. Nothing grows
/// with the step, and how many elements there are may be open.
Value placeApart(const GradientCode &code, Value x, Value like, int64_t dim, int64_t first,
                 int64_t step) {
  Value start = code.vectorOf({first}), indices = code.indicesOf(like, dim);
  Value place = step > 0 ? code.sub(indices, start) : code.sub(start, indices);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  Value steps = code.vectorOf({step > 0 ? step : -std::max(step, -kMost)});
  Value element = code.op("graph.div", {code.op("graph.max", {place, code.vectorOf({0})}), steps});
  Value count =
      code.op("graph.shape", {x}, {code.integer("start", dim), code.integer("end", dim + 1)});
  Value isTaken = code.op("graph.and", {code.op("graph.equal", {code.mul(element, steps), place}),
                                        code.op("graph.less", {element, count})});
  SmallVector<int64_t> low(size_t(GraphCode::rank(x)), 0), high = low;
  high[size_t(dim)] = 1;
  return code.op("graph.gather",
                 {code.pad(x, low, high), code.op("graph.where", {isTaken, element, count})},
                 {code.integer("axis", dim)});
}
} // namespace

Value GradientCode::placeLike(Value x, Value like, ArrayRef<int64_t> starts,
                              ArrayRef<int64_t> steps) const {
  if (!x)
    return x;
  Dims to = dims(like), from = dims(x);
  SmallVector<int64_t> first(starts), distance(steps), reversed, high;
  for (size_t dim = 0; dim < from.size(); ++dim) {
    auto count = dyn_cast<AffineConstantExpr>(from[dim]);
    bool isWide = distance[dim] > kWidestSpread || distance[dim] < -kWidestSpread;
    if (count && count.getValue() == 1) // the step says nothing, however wide it is
      distance[dim] = 1;
    else if (isWide || (distance[dim] < 0 && !count)) {
      x = placeApart(*this, x, like, int64_t(dim), first[dim], distance[dim]);
      first[dim] = 0;
      distance[dim] = 1;
    } else if (distance[dim] < 0) {
      reversed.push_back(int64_t(dim));
      first[dim] += (count.getValue() - 1) * distance[dim];
      distance[dim] = -distance[dim];
    }
  }
  if (!reversed.empty())
    x = op("graph.reverse", {x}, {integers("axes", reversed)});
  x = spread(x, distance);
  if (!x)
    return x;
  Dims spreadDims = dims(x);
  for (size_t dim = 0; dim < to.size(); ++dim) {
    auto rest =
        dyn_cast<AffineConstantExpr>(graph.shapes.simplify(to[dim] - spreadDims[dim] - first[dim]));
    if (!rest) { // the two sizes have names that are not related: the run subtracts
      Value start = vectorOf(first);
      Value end = sub(sub(shapeOf(like), shapeOf(x)), start);
      Value pads = concat({start, end}, 0);
      return reshapeLike(op("graph.dynamic_pad", {x, pads, graph.none(), graph.none()}), like);
    }
    high.push_back(rest.getValue());
  }
  return reshapeLike(pad(x, first, high), like);
}

Value GradientCode::indicesOf(Value x, int64_t dim) const {
  Type type = builder.getI64Type();
  return op("graph.range", {graph.scalar(type, 0), sizeOf(x, dim), graph.scalar(type, 1)});
}

Value GradientCode::identityOf(Value x, int64_t dim) const {
  if (!x)
    return x;
  GraphCode::Dims square(2, dims(x)[dim]);
  return cast(op("graph.equal", {iota(square, 0), iota(square, 1)}), element(x));
}

Value GradientCode::sliceDim(Value x, int64_t dim, int64_t first, int64_t step,
                             AffineExpr count) const {
  if (!x)
    return x;
  Dims to = dims(x);
  to[dim] = count;
  SmallVector<int64_t> starts(to.size(), 0), steps(to.size(), 1);
  starts[dim] = first;
  steps[dim] = step;
  return first == 0 && step == 1 && dims(x)[dim] == count ? x : graph.slice(x, starts, steps, to);
}

bool flagOf(Operation *op, StringRef name, bool otherwise) {
  auto value = op->getAttrOfType<BoolAttr>(name);
  return value ? value.getValue() : otherwise;
}
int64_t integerOf(Operation *op, StringRef name, int64_t otherwise) {
  auto value = op->getAttrOfType<IntegerAttr>(name);
  return value ? value.getInt() : otherwise;
}
StringRef textOf(Operation *op, StringRef name, StringRef otherwise) {
  auto value = op->getAttrOfType<StringAttr>(name);
  return value ? value.getValue() : otherwise;
}
ArrayRef<int64_t> integersOf(Operation *op, StringRef name) {
  auto value = op->getAttrOfType<DenseI64ArrayAttr>(name);
  return value ? value.asArrayRef() : ArrayRef<int64_t>();
}
int64_t axisOf(Operation *op, int64_t rank) {
  int64_t axis = integerOf(op, "axis");
  return axis < 0 ? axis + rank : axis;
}

Table<NamedGradientRule> &gradientRules() {
  static Table<NamedGradientRule> all(
      "gradient of",
      {elementwiseGradients(), reductionGradients(), movementGradients(), gatherGradients(),
       contractionGradients(), convolutionGradients(), poolingGradients(), resamplingGradients(),
       normalizationGradients(), creationGradients(), sequenceGradients(), otherGradients(),
       comprehensionGradients()});
  return all;
}

const GradientRule *findGradientRule(OperationName name) {
  const NamedGradientRule *found = gradientRules().find(operatorName(name));
  return found ? &found->rule : nullptr;
}

const GradientRule *findGradientRule(Operation *op) {
  if (!isa<CastOp>(op) || isDifferentiable(op->getResult(0).getType()))
    return findGradientRule(op->getName());
  Type to = getElementTypeOrSelf(op->getResult(0).getType());
  bool isFromIntegers = getElementTypeOrSelf(op->getOperand(0).getType()).isIntOrIndex();
  return isFromIntegers && to.isIntOrIndex() ? &kOfIntegers
         : to.isIntOrIndex()                 ? &kStep
                                             : &kNoGradient;
}

} // namespace tensmith::graph

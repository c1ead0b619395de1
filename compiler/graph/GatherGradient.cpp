// Reading and writing at indices: what was read is written back, added up where it was read twice.
//
// Where a scatter writes to one place twice, which update stays is not defined, and neither is the
// derivative.
#include "compiler/graph/Gradient.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

/// An index that is known and not counted from the end.
std::optional<int64_t> knownIndex(const GradientCode &code, Value indices) {
  auto type = dyn_cast<RankedTensorType>(indices.getType());
  auto known = type && type.getRank() == 0 ? code.graph.shapes.constants(indices) : std::nullopt;
  return known && known->front() >= 0 ? std::optional(known->front()) : std::nullopt;
}

Value gathering(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0), indices = pull.operand(1), g = pull.cotangent();
  if (!g || !GraphCode::isRanked(x) || !GraphCode::isRanked(indices))
    return {};
  int64_t rank = GraphCode::rank(x), axis = axisOf(pull.op, rank);
  if (auto index = knownIndex(code, indices)) {
    GraphCode::Dims dims = code.dims(g);
    dims.insert(dims.begin() + axis, code.size(1));
    SmallVector<int64_t> starts(size_t(rank), 0), steps(size_t(rank), 1);
    starts[size_t(axis)] = *index;
    return code.placeLike(code.reshape(g, dims), x, starts, steps);
  }
  // Slices are written along the first dimension, into zeros that lie that way.
  int64_t indexRank = GraphCode::rank(indices);
  SmallVector<int64_t> first, toFront, back;
  for (int64_t i = 0; i < indexRank; ++i)
    first.push_back(axis + i);
  toFront.push_back(axis);
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (dim != axis)
      toFront.push_back(dim);
    back.push_back(dim < axis ? dim + 1 : dim == axis ? 0 : dim);
  }
  for (int64_t dim = 0; dim < GraphCode::rank(g); ++dim)
    if (dim < axis || dim >= axis + indexRank)
      first.push_back(dim);
  Value zeros = code.zerosLike(axis == 0 ? x : code.transpose(x, toFront));
  GraphCode::Dims tuples = code.dims(indices);
  tuples.push_back(code.size(1));
  Value sum =
      code.op("graph.scatter_nd",
              {zeros, code.reshape(indices, tuples), axis == 0 ? g : code.transpose(g, first)},
              {code.text("reduction", "add")});
  return axis == 0 ? sum : code.transpose(sum, back);
}

/// Adds the cotangent into zeros of the operand's shape, along the operator's axis.
Value addedAt(const Pullback &pull, Value indices) {
  const GradientCode &code = pull.code;
  return code.op("graph.scatter_elements",
                 {code.zerosLike(pull.operand(0)), indices, pull.cotangent()},
                 {code.integer("axis", integerOf(pull.op, "axis")), code.text("reduction", "add")});
}

/// Whether there is one index for each line along the axis, as a loss has of labels. Along the
/// first dimension it may be the row of a table, whose others are not to be touched.
bool hasOneForEachLine(const GradientCode &code, Value x, Value indices, int64_t axis) {
  if (!GraphCode::isRanked(x) || !GraphCode::isRanked(indices) || axis == 0)
    return false;
  auto all = code.dims(x), own = code.dims(indices);
  all[size_t(axis)] = code.size(1);
  return llvm::equal(all, own, [&](AffineExpr a, AffineExpr b) {
    return a && b && code.graph.shapes.equal(a, b);
  });
}

/// Such a one is compared with the places, so that the gradient is element-wise and made where it
/// is read: where(iota == index, g, 0). That indices are places, the gather has checked.
Value gatheringElements(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0), indices = pull.operand(1), g = pull.cotangent();
  int64_t axis = integerOf(pull.op, "axis");
  if (!hasOneForEachLine(code, x, indices, axis))
    return addedAt(pull, indices);
  Value place = code.cast(indices, code.builder.getI64Type());
  Value isFromEnd = code.op("graph.less", {place, code.scalar(place, 0)});
  place = code.where(isFromEnd, code.add(place, code.sizeOf(x, axis)), place);
  Value isThere = code.op("graph.equal", {code.iota(code.dims(x), axis), place});
  return code.where(isThere, g, code.scalar(g, 0));
}

Value gatheringTuples(const Pullback &pull, unsigned) {
  return pull.code.op("graph.scatter_nd",
                      {pull.code.zerosLike(pull.operand(0)), pull.operand(1), pull.cotangent()},
                      {pull.code.text("reduction", "add")});
}

/// Batch dimensions become the first entries of each tuple.
LogicalResult gatheringInBatches(const GradientCode &code, Operation *op,
                                 SmallVectorImpl<Value> &results) {
  int64_t batch = integerOf(op, "batch_dims");
  Value indices = op->getOperand(1);
  if (batch == 0 || !GraphCode::isRanked(indices) || !GraphCode::isRanked(op->getOperand(0)))
    return failure();
  GraphCode::Dims dims = code.dims(indices);
  dims.back() = code.size(1);
  SmallVector<Value> parts;
  for (int64_t dim = 0; dim < batch; ++dim)
    parts.push_back(code.cast(code.iota(dims, dim), GraphCode::element(indices)));
  parts.push_back(indices);
  Value tuples = code.concat(parts, int64_t(dims.size()) - 1);
  return finish(code.op("graph.gather_nd", {op->getOperand(0), tuples}), results);
}

// ---- scatters: scatter_elements and scatter_nd alike

/// Other operands at the same places.
Value scattered(const Pullback &pull, Value into, Value updates, StringRef reduction) {
  const GradientCode &code = pull.code;
  SmallVector<NamedAttribute> attributes{code.text("reduction", reduction)};
  if (pull.op->hasAttr("axis"))
    attributes.push_back(code.integer("axis", integerOf(pull.op, "axis")));
  return code.op(pull.op->getName().getStringRef(), {into, pull.operand(1), updates}, attributes);
}

/// What stands where each update went.
Value readBack(const Pullback &pull, Value from) {
  const GradientCode &code = pull.code;
  if (pull.op->hasAttr("axis"))
    return code.op("graph.gather_elements", {from, pull.operand(1)},
                   {code.integer("axis", integerOf(pull.op, "axis"))});
  return code.op("graph.gather_nd", {from, pull.operand(1)});
}

/// What an update is multiplied by: x and the other updates, whose product is zero where one of
/// them is.
Value multiplyingIn(const Pullback &pull, unsigned operand) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0), updates = pull.operand(2), g = pull.cotangent();
  if (operand == 0)
    return code.mul(g, scattered(pull, code.filledLike(x, 1), updates, "mul"));
  Value zero = code.scalar(updates, 0), one = code.scalar(updates, 1);
  Value isZero = code.op("graph.equal", {updates, zero});
  Value own = code.where(isZero, one, zero), factors = code.where(isZero, one, updates);
  Value zeros = readBack(pull, scattered(pull, code.zerosLike(x), own, "add"));
  Value others = code.div(readBack(pull, scattered(pull, x, factors, "mul")), factors);
  Value slope = code.where(code.op("graph.equal", {zeros, own}), others, zero);
  return code.mul(readBack(pull, g), slope);
}

/// Of equal extremes each takes an equal share.
Value choosing(const Pullback &pull, unsigned operand) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0), updates = pull.operand(2), chosen = pull.op->getResult(0);
  Type type = GraphCode::element(x);
  Value isX = code.op("graph.equal", {x, chosen});
  Value isUpdate = code.op("graph.equal", {updates, readBack(pull, chosen)});
  Value count = scattered(pull, code.cast(isX, type), code.cast(isUpdate, type), "add");
  Value share = code.div(pull.cotangent(), count), zero = code.scalar(x, 0);
  return operand == 0 ? code.where(isX, share, zero)
                      : code.where(isUpdate, readBack(pull, share), zero);
}

Value scattering(const Pullback &pull, unsigned operand) {
  StringRef reduction = textOf(pull.op, "reduction", "none");
  if (reduction == "mul")
    return multiplyingIn(pull, operand);
  if (reduction == "max" || reduction == "min")
    return choosing(pull, operand);
  if (operand == 2)
    return readBack(pull, pull.cotangent());
  return reduction == "add"
             ? pull.cotangent()
             : scattered(pull, pull.cotangent(), pull.code.zerosLike(pull.operand(2)), "none");
}

/// Where in the cache each element of the update goes, along the axis.
Value placesInCache(const Pullback &pull, int64_t axis) {
  const GradientCode &code = pull.code;
  Value update = pull.operand(1), first = pull.operand(2);
  int64_t rank = GraphCode::rank(update);
  Value places = code.alongDimension(code.indicesOf(update, axis), axis, rank);
  if (!GraphCode::isAbsent(first))
    places =
        code.add(places, code.alongDimension(code.cast(first, code.builder.getI64Type()), 0, rank));
  if (textOf(pull.op, "mode", "linear") == "circular")
    places = code.op("graph.mod", {places, code.sizeOf(pull.operand(0), axis)});
  return code.broadcastLike(places, update);
}

Value writingToCache(const Pullback &pull, unsigned operand) {
  const GradientCode &code = pull.code;
  Value update = pull.operand(1);
  int64_t axis = axisOf(pull.op, GraphCode::rank(update));
  if (operand == 1)
    return code.op("graph.gather_elements", {pull.cotangent(), placesInCache(pull, axis)},
                   {code.integer("axis", axis)});
  return code.op("graph.tensor_scatter",
                 {pull.cotangent(), code.zerosLike(update), pull.operand(2)},
                 llvm::to_vector(pull.op->getAttrs()));
}

LogicalResult compression(const GradientCode &code, Operation *op,
                          SmallVectorImpl<Value> &results) {
  Value x = op->getOperand(0);
  if (!GraphCode::isRanked(x))
    return failure();
  int64_t axis = 0;
  if (op->hasAttr("axis"))
    axis = axisOf(op, GraphCode::rank(x));
  else
    x = code.reshape(x, code.graph.shapes.product(code.dims(x)));
  Value indices = code.op("graph.compress", {code.indicesOf(x, axis), op->getOperand(1)},
                          {code.integer("axis", 0)});
  return finish(code.op("graph.gather", {x, indices}, {code.integer("axis", axis)}), results);
}

Value largest(const Pullback &pull, unsigned) { return addedAt(pull, pull.op->getResult(1)); }

/// on where the mask is, else off.
LogicalResult hotOne(const GradientCode &code, Operation *op, SmallVectorImpl<Value> &results) {
  Value values = op->getOperand(2);
  Type type = GraphCode::element(values);
  Value bounds = code.cast(code.vectorOf({0, 1}), type);
  Value mask = code.op("graph.one_hot", {op->getOperand(0), op->getOperand(1), bounds},
                       {code.integer("axis", integerOf(op, "axis", -1))});
  Value isOn = code.cast(mask, code.builder.getI1Type());
  auto value = [&](int64_t index) {
    return code.reshape(code.slice(values, index, code.size(1)), {});
  };
  return finish(code.where(isOn, value(1), value(0)), results);
}

} // namespace

std::span<const NamedGradientRule> gatherGradients() {
  static const NamedGradientRule kRules[] = {
      {"gather", pulled(gathering, Linear::Jointly, 1)},
      {"gather_elements", pulled(gatheringElements, Linear::Jointly, 1)},
      {"gather_nd",
       sameBits(expandedOrPulled(gatheringInBatches, gatheringTuples, Linear::Jointly, 1))},
      {"tree_ensemble", kNoGradient},
      {"scatter_elements", pulled(scattering, Linear::No, 0b101)},
      {"scatter_nd", pulled(scattering, Linear::No, 0b101)},
      {"tensor_scatter", pulled(writingToCache, Linear::Jointly, 0b11)},
      {"one_hot", sameBits(expanded(hotOne, 0b100))},
      {"nonzero", kStep},
      {"compress", sameBits(expanded(compression, 1))},
      {"topk", pulled(largest, Linear::No, 1)},
      {"unique", kNoGradient},
      {"non_max_suppression", kStep},
  };
  return kRules;
}

} // namespace tensmith::graph

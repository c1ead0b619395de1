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

Value scatterElements(const Pullback &pull, Value into, Value indices, Value updates,
                      StringRef reduction) {
  const GradientCode &code = pull.code;
  return code.op(
      "graph.scatter_elements", {into, indices, updates},
      {code.integer("axis", integerOf(pull.op, "axis")), code.text("reduction", reduction)});
}

Value gatheringElements(const Pullback &pull, unsigned) {
  return scatterElements(pull, pull.code.zerosLike(pull.operand(0)), pull.operand(1),
                         pull.cotangent(), "add");
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

bool adds(Operation *op) { return textOf(op, "reduction", "none") == "add"; }
bool replaces(Operation *op) { return textOf(op, "reduction", "none") == "none"; }

Value scatteringElements(const Pullback &pull, unsigned operand) {
  const GradientCode &code = pull.code;
  if (!adds(pull.op) && !replaces(pull.op))
    return {};
  if (operand == 2)
    return code.op("graph.gather_elements", {pull.cotangent(), pull.operand(1)},
                   {code.integer("axis", integerOf(pull.op, "axis"))});
  return adds(pull.op) ? pull.cotangent()
                       : scatterElements(pull, pull.cotangent(), pull.operand(1),
                                         code.zerosLike(pull.operand(2)), "none");
}

Value scatteringTuples(const Pullback &pull, unsigned operand) {
  const GradientCode &code = pull.code;
  if (!adds(pull.op) && !replaces(pull.op))
    return {};
  if (operand == 2)
    return code.op("graph.gather_nd", {pull.cotangent(), pull.operand(1)});
  return adds(pull.op) ? pull.cotangent()
                       : code.op("graph.scatter_nd", {pull.cotangent(), pull.operand(1),
                                                      code.zerosLike(pull.operand(2))});
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

Value largest(const Pullback &pull, unsigned) {
  return scatterElements(pull, pull.code.zerosLike(pull.operand(0)), pull.op->getResult(1),
                         pull.cotangent(), "add");
}

/// off + (on - off) * mask
LogicalResult hotOne(const GradientCode &code, Operation *op, SmallVectorImpl<Value> &results) {
  Value values = op->getOperand(2);
  Type type = GraphCode::element(values);
  Value bounds = code.cast(code.vectorOf({0, 1}), type);
  Value mask = code.op("graph.one_hot", {op->getOperand(0), op->getOperand(1), bounds},
                       {code.integer("axis", integerOf(op, "axis", -1))});
  auto value = [&](int64_t index) {
    return code.reshape(code.slice(values, index, code.size(1)), {});
  };
  Value step = code.mul(mask, code.sub(value(1), value(0)));
  return finish(code.add(value(0), step), results);
}

} // namespace

std::span<const NamedGradientRule> gatherGradients() {
  static const NamedGradientRule kRules[] = {
      {"gather", pulled(gathering, Linear::Jointly, 1)},
      {"gather_elements", pulled(gatheringElements, Linear::Jointly, 1)},
      {"gather_nd", expandedOrPulled(gatheringInBatches, gatheringTuples, Linear::Jointly, 1)},
      {"tree_ensemble", kNoGradient},
      {"scatter_elements", pulled(scatteringElements, Linear::No, 0b101)},
      {"scatter_nd", pulled(scatteringTuples, Linear::No, 0b101)},
      {"tensor_scatter", kNoGradient},
      {"one_hot", expanded(hotOne, 0b100)},
      {"nonzero", kZeroGradient},
      {"compress", expanded(compression)},
      {"topk", pulled(largest, Linear::No, 1)},
      {"unique", kNoGradient},
      {"non_max_suppression", kZeroGradient},
  };
  return kRules;
}

} // namespace tensmith::graph

// Movement: the cotangent goes back to where each element came from, and is added up where it went
// to several places.
//
// What is moved by data (slices and pads whose sizes only the run knows) is moved once more as
// indices, and differentiated as a gather of them.
#include "compiler/graph/Gradient.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

Value reshaping(const Pullback &pull, unsigned) {
  return pull.code.reshapeLike(pull.cotangent(), pull.operand(0));
}

Value transposition(const Pullback &pull, unsigned) {
  auto permutation = integersOf(pull.op, "permutation");
  SmallVector<int64_t> inverse(permutation.size());
  for (auto [to, from] : llvm::enumerate(permutation))
    inverse[from] = int64_t(to);
  return pull.code.transpose(pull.cotangent(), inverse);
}

Value broadcasting(const Pullback &pull, unsigned) {
  return pull.code.sumLike(pull.cotangent(), pull.operand(0));
}

Value slicing(const Pullback &pull, unsigned) {
  return pull.code.placeLike(pull.cotangent(), pull.operand(0), integersOf(pull.op, "starts"),
                             integersOf(pull.op, "steps"));
}

Value joining(const Pullback &pull, unsigned operand) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(operand), g = pull.cotangent();
  int64_t axis = axisOf(pull.op, GraphCode::rank(x));
  AffineExpr before = code.size(0);
  for (unsigned i = 0; i < operand; ++i)
    before = code.graph.shapes.simplify(before + code.dims(pull.operand(i))[axis]);
  // Where only the operands tell the sizes, as of a state that grows, the run asks them.
  auto first = dyn_cast<AffineConstantExpr>(before);
  if (first && !hasUnknownSizes(x.getType()))
    return code.reshapeLike(code.sliceDim(g, axis, first.getValue(), 1, code.dims(x)[axis]), x);
  Value start = code.vectorOf({0});
  auto length = [&](unsigned i) {
    return code.op("graph.shape", {pull.operand(i)},
                   {code.integer("start", axis), code.integer("end", axis + 1)});
  };
  for (unsigned i = 0; i < operand; ++i)
    start = code.add(start, length(i));
  return code.reshapeLike(
      code.op("graph.dynamic_slice", {g, start, code.add(start, length(operand)),
                                      code.vectorOf({axis}), code.graph.none()}),
      x);
}

SmallVector<int64_t> negated(ArrayRef<int64_t> values) {
  return llvm::to_vector(llvm::map_range(values, [](int64_t value) { return -value; }));
}
bool isConstantMode(Operation *op) { return textOf(op, "mode", "constant") == "constant"; }

/// What the constant around the operand gets: the sum of all but what the operand gets.
Value surroundings(const Pullback &pull, Value inner) {
  const GradientCode &code = pull.code;
  auto total = [&](Value x) {
    return x ? code.reduce("graph.reduce_sum", x,
                           llvm::to_vector(llvm::seq<int64_t>(0, GraphCode::rank(x))), false)
             : x;
  };
  return code.sub(total(pull.cotangent()), total(inner));
}

Value padding(const Pullback &pull, unsigned operand) {
  const GradientCode &code = pull.code;
  Value inner = code.pad(pull.cotangent(), negated(integersOf(pull.op, "low")),
                         negated(integersOf(pull.op, "high")));
  return operand == 0 ? code.reshapeLike(inner, pull.operand(0))
                      : code.reshapeLike(surroundings(pull, inner), pull.operand(operand));
}
/// What is left between the pads, whose type is known.
Value unpadded(const GradientCode &code, Value x, Value pads, Value axes, Type type) {
  if (!x || !pads || !isa<RankedTensorType>(type) || hasUnknownSizes(type))
    return code.op("graph.dynamic_pad", {x, pads, code.graph.none(), axes});
  return graph::GraphBuilder::first(
      code.graph.createTyped("graph.dynamic_pad", type, {x, pads, code.graph.none(), axes}));
}
Value paddingByData(const Pullback &pull, unsigned operand) {
  const GradientCode &code = pull.code;
  Value inner = unpadded(code, pull.cotangent(), code.negate(pull.operand(1)), pull.operand(3),
                         pull.operand(0).getType());
  return operand == 0 ? code.reshapeLike(inner, pull.operand(0))
                      : code.reshapeLike(surroundings(pull, inner), pull.operand(operand));
}

Value gatherAlong(const GradientCode &code, Value x, Value indices, int64_t axis) {
  return code.op("graph.gather", {x, indices}, {code.integer("axis", axis)});
}

LogicalResult repeatedPadding(const GradientCode &code, Operation *op,
                              SmallVectorImpl<Value> &results) {
  if (isConstantMode(op))
    return failure();
  Value x = op->getOperand(0);
  auto low = integersOf(op, "low"), high = integersOf(op, "high");
  for (size_t dim = 0; dim < low.size(); ++dim) {
    if (low[dim] == 0 && high[dim] == 0)
      continue;
    Value indices = code.op("graph.pad", {code.indicesOf(x, int64_t(dim)), code.graph.none()},
                            {code.integers("low", low[dim]), code.integers("high", high[dim]),
                             op->getAttrDictionary().getNamed("mode").value()});
    x = gatherAlong(code, x, indices, int64_t(dim));
  }
  return finish(x, results);
}

/// The axes that an operand lists, counted from the first dimension; all where it is absent.
std::optional<SmallVector<int64_t>> axesOf(const GradientCode &code, Value axes, int64_t rank,
                                           int64_t count) {
  if (GraphCode::isAbsent(axes))
    return llvm::to_vector(llvm::seq<int64_t>(0, count));
  auto known = code.graph.shapes.constants(axes);
  if (!known)
    return std::nullopt;
  for (int64_t &axis : *known)
    axis += axis < 0 ? rank : 0;
  return known;
}

Value element(const GradientCode &code, Value vector, int64_t index) {
  return GraphCode::isAbsent(vector) ? vector : code.slice(vector, index, code.size(1));
}

LogicalResult slicingByData(const GradientCode &code, Operation *op,
                            SmallVectorImpl<Value> &results) {
  Value x = op->getOperand(0), starts = op->getOperand(1);
  if (!GraphCode::isRanked(x) || !GraphCode::isRanked(starts))
    return failure();
  auto count = dyn_cast<AffineConstantExpr>(code.dims(starts)[0]);
  auto axes =
      count ? axesOf(code, op->getOperand(3), GraphCode::rank(x), count.getValue()) : std::nullopt;
  if (!axes)
    return failure();
  for (auto [i, axis] : llvm::enumerate(*axes)) {
    Value indices = code.op("graph.dynamic_slice",
                            {code.indicesOf(x, axis), element(code, starts, int64_t(i)),
                             element(code, op->getOperand(2), int64_t(i)), code.vectorOf({0}),
                             element(code, op->getOperand(4), int64_t(i))});
    x = gatherAlong(code, x, indices, axis);
  }
  return finish(x, results);
}

LogicalResult repeatedPaddingByData(const GradientCode &code, Operation *op,
                                    SmallVectorImpl<Value> &results) {
  Value x = op->getOperand(0), pads = op->getOperand(1);
  if (isConstantMode(op) || !GraphCode::isRanked(x) || !GraphCode::isRanked(pads))
    return failure();
  auto length = dyn_cast<AffineConstantExpr>(code.dims(pads)[0]);
  auto axes = length ? axesOf(code, op->getOperand(3), GraphCode::rank(x), length.getValue() / 2)
                     : std::nullopt;
  if (!axes)
    return failure();
  for (auto [i, axis] : llvm::enumerate(*axes)) {
    Value own = code.concat(
        {element(code, pads, int64_t(i)), element(code, pads, int64_t(i + axes->size()))}, 0);
    Value indices = code.op("graph.dynamic_pad",
                            {code.indicesOf(x, axis), own, code.graph.none(), code.graph.none()},
                            {code.text("mode", textOf(op, "mode"))});
    x = gatherAlong(code, x, indices, axis);
  }
  return finish(x, results);
}

LogicalResult tiling(const GradientCode &code, Operation *op, SmallVectorImpl<Value> &results) {
  Value x = op->getOperand(0);
  if (!GraphCode::isRanked(x))
    return failure();
  for (int64_t axis = 0; axis < GraphCode::rank(op->getOperand(0)); ++axis) {
    Value repeats = element(code, op->getOperand(1), axis);
    auto known = code.graph.shapes.constants(repeats);
    if (known && known->front() == 1)
      continue;
    Value indices = code.op("graph.dynamic_tile", {code.indicesOf(x, axis), repeats});
    x = gatherAlong(code, x, indices, axis);
  }
  return finish(x, results);
}

Value centring(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0), shape = code.shapeOf(x);
  auto axes = pull.op->getAttrOfType<DenseI64ArrayAttr>("axes");
  SmallVector<NamedAttribute> attributes;
  if (axes) {
    SmallVector<int64_t> own(axes.asArrayRef());
    for (int64_t &axis : own)
      axis += axis < 0 ? GraphCode::rank(x) : 0;
    shape = gatherAlong(code, shape, code.vectorOf(own), 0);
    attributes.push_back(code.integers("axes", own));
  }
  return code.reshapeLike(code.op("graph.center_crop_pad", {pull.cotangent(), shape}, attributes),
                          x);
}

/// Operators that are their own transposes: applied to the cotangent.
Value itself(const Pullback &pull, unsigned) {
  SmallVector<Value> operands(pull.op->getOperands());
  operands[0] = pull.cotangent();
  return pull.code.op(pull.op->getName().getStringRef(), operands,
                      llvm::to_vector(pull.op->getAttrs()));
}

} // namespace

std::span<const NamedGradientRule> movementGradients() {
  static const NamedGradientRule kRules[] = {
      {"reshape", ofAnyRank(pulled(reshaping, Linear::Jointly))},
      {"transpose", pulled(transposition, Linear::Jointly)},
      {"broadcast", pulled(broadcasting, Linear::Jointly)},
      {"slice", pulled(slicing, Linear::Jointly)},
      {"concat", pulled(joining, Linear::Jointly)},
      {"pad", sameBits(expandedOrPulled(repeatedPadding, padding, Linear::Jointly))},
      {"reverse", pulled(itself, Linear::Jointly)},
      {"trilu", pulled(itself, Linear::Jointly, 1)},
      {"pack", kNoGradient},
      {"unpack", kNoGradient},
      {"dynamic_reshape", ofAnyRank(pulled(reshaping, Linear::Jointly, 1))},
      {"dynamic_broadcast", pulled(broadcasting, Linear::Jointly, 1)},
      {"dynamic_slice", sameBits(expanded(slicingByData, 1))},
      {"dynamic_pad",
       sameBits(expandedOrPulled(repeatedPaddingByData, paddingByData, Linear::Jointly, 0b101))},
      {"dynamic_tile", sameBits(expanded(tiling, 1))},
      {"center_crop_pad", pulled(centring, Linear::Jointly, 1)},
      {"shape", kUnread},
      {"size", kUnread},
      {"reverse_sequence", pulled(itself, Linear::Jointly, 1)},
  };
  return kRules;
}

} // namespace tensmith::graph

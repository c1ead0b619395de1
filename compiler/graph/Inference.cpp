// Common rules of the shape functions; see Inference.h.
#include "compiler/graph/Inference.h"

#include "base/HostTensor.h"
#include "base/SizeText.h"
#include "compiler/graph/BroadcastSizes.h"
#include "compiler/graph/Checks.h"

using namespace mlir;

namespace tensmith::graph {

bool Inference::unranked() const {
  return llvm::any_of(op->getOperandTypes(),
                      [](Type type) { return isa<UnrankedTensorType>(type); });
}

LogicalResult Inference::giveUnranked(ArrayRef<Type> elements) {
  for (Type element : elements)
    results.push_back(UnrankedTensorType::get(element));
  return success();
}

AffineExpr Inference::fresh(StringRef hint) {
  return shapes.freshSymbol(hint.empty() ? op->getName().stripDialect() : hint);
}

std::optional<int64_t> Inference::known(AffineExpr size) const {
  return constantOf(shapes.simplify(size));
}

LogicalResult Inference::checkRank(int64_t rank) {
  if (rank <= kMostDimensions)
    return success();
  return error() << "would have a result of " << rank << " dimensions; " << kMostDimensions
                 << " is the most";
}

/// Whether an operand has it.
static bool isSizeOfOperand(AffineExpr size, Operation *op, ShapeContext &shapes) {
  return llvm::any_of(op->getOperandTypes(), [&](Type operand) {
    auto type = dyn_cast<RankedTensorType>(operand);
    return type && type.getEncoding() && llvm::is_contained(shapes.dims(type), size);
  });
}

void Inference::requireSize(AffineExpr size) {
  AffineExpr zero = constant(0), simple = shapes.simplify(size);
  if (isSizeOfOperand(simple, op, shapes))
    return;
  if (facts_.decide(Condition::Relation::AtMost, zero, simple) != true)
    shapes.require({Condition::Relation::AtMost, zero, simple,
                    "the result would have a negative dimension, {b}"});
}

LogicalResult Inference::give(Type element, ArrayRef<AffineExpr> dims) {
  if (failed(checkRank(int64_t(dims.size()))))
    return failure();
  SmallVector<int64_t> sizes;
  Dims given(dims);
  for (AffineExpr &dim : given) {
    dim = shapes.simplify(dim);
    auto size = constantOf(dim);
    if (size && *size < 0)
      return error() << "would have a negative dimension, " << *size;
    if (!size && isLongSize(dim) && !isSizeOfOperand(dim, op, shapes))
      dim = fresh();
    else if (!size && shapes.listens())
      requireSize(dim);
    if (size && *size > 0)
      sizes.push_back(*size);
  }
  if (!elementCount(sizes))
    return error() << "would have a result of more than 2^48 elements, " << toString(sizes);
  results.push_back(shapes.tensorType(element, given));
  return success();
}

FailureOr<int64_t> Inference::axis(int64_t axis, int64_t rank, StringRef name) {
  if (axis < -rank || axis >= rank)
    return error() << name << " " << axis << " is not a dimension of an operand of rank " << rank;
  return axis < 0 ? axis + rank : axis;
}

LogicalResult Inference::requireRank(unsigned operand, int64_t least, int64_t most,
                                     StringRef name) {
  int64_t own = rank(operand);
  if (own >= least && own <= most)
    return success();
  auto message = error() << "operand '" << name << "' has rank " << own << ", not " << least;
  if (most > 16)
    message << " or more";
  else if (most != least)
    message << " to " << most;
  return failure();
}

LogicalResult Inference::requireRanks(unsigned first, ArrayRef<int64_t> ranks) {
  for (auto [number, wanted] : llvm::enumerate(ranks)) {
    unsigned operand = first + number;
    if (!present(operand) || !isa<RankedTensorType>(op->getOperand(operand).getType()))
      continue;
    if (rank(operand) != wanted)
      return error() << "operand " << operand << " has rank " << rank(operand) << ", not "
                     << wanted;
  }
  return success();
}

LogicalResult Inference::requireSameElement(unsigned a, unsigned b, StringRef constraint) {
  if (element(a) == element(b))
    return success();
  return error() << constraint << " operands have different element types, " << element(a)
                 << " and " << element(b);
}

LogicalResult Inference::requireInteger(unsigned operand, StringRef name) {
  if (element(operand).isIntOrIndex())
    return success();
  return error() << "operand '" << name << "' has element type " << element(operand)
                 << ", not an integer";
}

LogicalResult Inference::require(Condition condition) {
  if (!ShapeContext::isExact(condition.a) || !ShapeContext::isExact(condition.b))
    return success(); // beyond what a size can be, which is refused elsewhere
  if (isLeftOut(condition))
    return success();
  auto a = known(condition.a), b = known(condition.b);
  auto guard = condition.unlessZero ? known(condition.unlessZero) : std::optional<int64_t>(1);
  if (a && b && guard && SizeFacts().decide(condition) == false)
    return error() << formatSizes(condition.message, *a, *b);
  if (guard && *guard != 0)
    condition.unlessZero = {};
  if ((a && b && guard) || !shapes.listens() || SizeFacts().decide(condition) == true)
    return success();
  for (AffineExpr *part : {&condition.a, &condition.b, &condition.unlessZero})
    if (*part)
      *part = shapes.simplify(*part);
  shapes.require(std::move(condition));
  return success();
}

LogicalResult Inference::requireEqual(AffineExpr a, AffineExpr b, StringRef constraint,
                                      StringRef what) {
  return require(
      {Condition::Relation::Equal, a, b, (constraint + " " + what + " differ: {a} and {b}").str()});
}

LogicalResult Inference::requireBias(unsigned operand, AffineExpr channels, StringRef constraint) {
  if (!present(operand))
    return success();
  if (failed(requireRank(operand, 1, 1, "bias")))
    return failure();
  return requireEqual(dims(operand)[0], channels, constraint, "bias and output channels");
}

LogicalResult Inference::requireAtMost(AffineExpr a, AffineExpr b, const Twine &message) {
  return require({Condition::Relation::AtMost, a, b, message.str()});
}

LogicalResult Inference::requireOneOr(AffineExpr size, AffineExpr wanted, StringRef constraint,
                                      StringRef what) {
  return require({Condition::Relation::EqualOrOne, size, wanted,
                  (constraint + " " + what + " differ: {a} and {b}").str()});
}

LogicalResult Inference::requireMultiple(AffineExpr size, int64_t of, StringRef constraint,
                                         StringRef what) {
  return require({Condition::Relation::Equal, size, size.floorDiv(of) * of,
                  (constraint + " " + what + " is no multiple of " + Twine(of) + ": {a}").str()});
}

std::optional<AffineExpr> Inference::broadcast(AffineExpr a, AffineExpr b) {
  auto common = shapes.broadcast(a, b);
  if (common)
    facts_.assumeSize(*common);
  return common;
}

FailureOr<Dims> Inference::broadcast(ArrayRef<AffineExpr> a, ArrayRef<AffineExpr> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  Dims result(a);
  size_t missing = a.size() - b.size();
  for (auto [dim, size] : llvm::enumerate(b)) {
    auto common = broadcast(a[missing + dim], size);
    if (!common)
      return error() << "shapes do not broadcast together: dimension " << missing + dim << " is "
                     << *known(a[missing + dim]) << " and " << *known(size);
    result[missing + dim] = *common;
  }
  return result;
}

SmallVector<int64_t> stridesOf(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * shape[dim];
  return strides;
}

} // namespace tensmith::graph

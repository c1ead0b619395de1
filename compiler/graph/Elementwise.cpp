// Element-wise operators: shape functions, and arithmetic on contents that are known.
#include "compiler/graph/Fractions.h"
#include "compiler/graph/Inference.h"
#include "compiler/graph/SlicedRange.h"

#include "mlir/Interfaces/FoldInterfaces.h"

using namespace mlir;
using namespace tensmith::graph;

#define GET_OP_CLASSES
#include "compiler/graph/ElementwiseOps.cpp.inc"

namespace tensmith::graph {

void GraphDialect::addElementwise() {
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/ElementwiseOps.cpp.inc"
      >();
}

namespace {

/// Operands broadcast together; the result has the element type given.
LogicalResult inferBroadcast(Inference infer, Type element) {
  if (infer.unranked())
    return infer.giveUnranked(element);
  Dims dims;
  for (unsigned operand = 0; operand < infer.op->getNumOperands(); ++operand) {
    auto next = infer.broadcast(dims, infer.dims(operand));
    if (failed(next))
      return failure();
    dims = *next;
  }
  return infer.give(element, dims);
}

LogicalResult inferSame(ShapeContext &shapes, Operation *op, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, op, results);
  for (unsigned operand = 1; operand < op->getNumOperands(); ++operand)
    if (failed(infer.requireSameElement(0, operand, "(E1)")))
      return failure();
  return inferBroadcast(infer, infer.element(0));
}

LogicalResult inferBoolean(ShapeContext &shapes, Operation *op, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, op, results);
  if (op->getNumOperands() == 2 && failed(infer.requireSameElement(0, 1, "(E1)")))
    return failure();
  return inferBroadcast(infer, IntegerType::get(op->getContext(), 1));
}

LogicalResult inferOf(ShapeContext &shapes, Operation *op, SmallVectorImpl<Type> &results,
                      Type element) {
  return inferBroadcast(Inference(shapes, op, results), element);
}

using Combine = llvm::function_ref<std::optional<AffineExpr>(ArrayRef<AffineExpr>)>;

/// The contents of an element-wise operator's result, element by element, where those of its
/// operands are known.
std::optional<Contents> mapContents(ShapeContext &shapes, Operation *op, Combine combine) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  SmallVector<Contents> operands;
  SmallVector<SmallVector<int64_t>> strides;
  for (Value operand : op->getOperands()) {
    auto contents = shapes.contents(operand);
    if (!contents)
      return std::nullopt;
    operands.push_back(*contents);
    auto shape = cast<RankedTensorType>(operand.getType()).getShape();
    SmallVector<int64_t> own = stridesOf(shape);
    for (size_t dim = 0; dim < shape.size(); ++dim)
      if (shape[dim] == 1)
        own[dim] = 0;
    strides.push_back(own);
  }
  Contents result;
  SmallVector<int64_t> resultStrides = stridesOf(type.getShape());
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    SmallVector<AffineExpr> elements;
    for (auto [operand, stride] : llvm::zip_equal(operands, strides)) {
      int64_t offset = 0;
      size_t missing = type.getRank() - stride.size();
      for (size_t dim = 0; dim < stride.size(); ++dim)
        offset += i / resultStrides[missing + dim] % type.getDimSize(missing + dim) * stride[dim];
      elements.push_back(operand[offset]);
    }
    auto element = combine(elements);
    if (!element)
      return std::nullopt;
    result.push_back(*element);
  }
  return result;
}

/// The same of sums and products, where none overflows.
std::optional<Contents>
mapArithmetic(ShapeContext &shapes, Operation *op,
              llvm::function_ref<AffineExpr(ArrayRef<AffineExpr>)> combine) {
  return mapContents(shapes, op, [&](ArrayRef<AffineExpr> e) -> std::optional<AffineExpr> {
    AffineExpr result = shapes.simplify(combine(e));
    return ShapeContext::isExact(result) ? std::optional(result) : std::nullopt;
  });
}

} // namespace

#define INFER(OP, RULE)                                                                            \
  LogicalResult OP::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {           \
    return RULE(shapes, *this, results);                                                           \
  }
INFER(AbsOp, inferSame)
INFER(NegOp, inferSame)
INFER(SignOp, inferSame)
INFER(CeilOp, inferSame)
INFER(FloorOp, inferSame)
INFER(RoundOp, inferSame)
INFER(SqrtOp, inferSame)
INFER(RsqrtOp, inferSame)
INFER(ExpOp, inferSame)
INFER(LogOp, inferSame)
INFER(Log1pOp, inferSame)
INFER(SinOp, inferSame)
INFER(CosOp, inferSame)
INFER(TanOp, inferSame)
INFER(AsinOp, inferSame)
INFER(AcosOp, inferSame)
INFER(AtanOp, inferSame)
INFER(SinhOp, inferSame)
INFER(CoshOp, inferSame)
INFER(TanhOp, inferSame)
INFER(AsinhOp, inferSame)
INFER(AcoshOp, inferSame)
INFER(AtanhOp, inferSame)
INFER(ErfOp, inferSame)
INFER(SigmoidOp, inferSame)
INFER(NotOp, inferSame)
INFER(BitwiseNotOp, inferSame)
INFER(IsNanOp, inferBoolean)
INFER(IsInfOp, inferBoolean)
INFER(AddOp, inferSame)
INFER(SubOp, inferSame)
INFER(MulOp, inferSame)
INFER(DivOp, inferSame)
INFER(ModOp, inferSame)
INFER(MinOp, inferSame)
INFER(MaxOp, inferSame)
INFER(AndOp, inferSame)
INFER(OrOp, inferSame)
INFER(XorOp, inferSame)
INFER(BitwiseAndOp, inferSame)
INFER(BitwiseOrOp, inferSame)
INFER(BitwiseXorOp, inferSame)
INFER(BitShiftOp, inferSame)
INFER(EqualOp, inferBoolean)
INFER(LessOp, inferBoolean)
INFER(LessOrEqualOp, inferBoolean)
INFER(GreaterOp, inferBoolean)
INFER(GreaterOrEqualOp, inferBoolean)
#undef INFER

LogicalResult PowOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return inferOf(shapes, *this, results, getElementTypeOrSelf(getA().getType()));
}
LogicalResult CastOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return inferOf(shapes, *this, results, getTo());
}
LogicalResult BitCastOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return inferOf(shapes, *this, results, getTo());
}
LogicalResult WhereOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (!infer.element(0).isInteger(1))
    return infer.error() << "(E1) the condition has element type " << infer.element(0)
                         << ", not i1";
  if (failed(infer.requireSameElement(1, 2, "(E1)")))
    return failure();
  return inferBroadcast(infer, infer.element(1));
}

std::optional<Contents> AddOp::contents(ShapeContext &shapes, unsigned) {
  return mapArithmetic(shapes, *this, [](ArrayRef<AffineExpr> e) { return e[0] + e[1]; });
}
std::optional<Contents> SubOp::contents(ShapeContext &shapes, unsigned) {
  return mapArithmetic(shapes, *this, [](ArrayRef<AffineExpr> e) { return e[0] - e[1]; });
}
std::optional<Contents> MulOp::contents(ShapeContext &shapes, unsigned) {
  return mapArithmetic(shapes, *this, [](ArrayRef<AffineExpr> e) { return e[0] * e[1]; });
}
std::optional<Contents> NegOp::contents(ShapeContext &shapes, unsigned) {
  return mapArithmetic(shapes, *this, [](ArrayRef<AffineExpr> e) { return -e[0]; });
}
/// a / b, rounded toward zero.
static std::optional<AffineExpr> integerQuotient(ShapeContext &shapes, AffineExpr a, AffineExpr b) {
  auto numerator = constantOf(a), divisor = constantOf(b);
  if (divisor && (*divisor == 0 || (numerator && !ShapeContext::isExact(a))))
    return std::nullopt;
  if (numerator && divisor)
    return shapes.constant(*numerator / *divisor);
  bool turns = divisor && *divisor < 0;
  AffineExpr whole = turns ? wholePart(shapes, {shapes.simplify(-a), shapes.simplify(-b)})
                           : wholePart(shapes, {a, b});
  return whole ? std::optional(whole) : std::nullopt;
}
std::optional<Contents> DivOp::contents(ShapeContext &shapes, unsigned) {
  return mapContents(shapes, *this,
                     [&](ArrayRef<AffineExpr> e) { return integerQuotient(shapes, e[0], e[1]); });
}
std::optional<Contents> ModOp::contents(ShapeContext &shapes, unsigned) {
  bool fmod = getFmod();
  return mapContents(shapes, *this, [&](ArrayRef<AffineExpr> e) -> std::optional<AffineExpr> {
    auto a = constantOf(e[0]), b = constantOf(e[1]);
    if (!b || *b <= 0)
      return std::nullopt;
    if (a)
      return shapes.constant(fmod ? *a % *b : ((*a % *b) + *b) % *b);
    if (!fmod)
      return shapes.simplify(e[0] % e[1]);
    auto times = integerQuotient(shapes, e[0], e[1]);
    return times ? std::optional(shapes.simplify(e[0] - *times * e[1])) : std::nullopt;
  });
}
std::optional<Contents> MinOp::contents(ShapeContext &shapes, unsigned) {
  return mapContents(shapes, *this, [&](ArrayRef<AffineExpr> e) -> std::optional<AffineExpr> {
    return smallerNumber(shapes, e[0], e[1]);
  });
}
std::optional<Contents> MaxOp::contents(ShapeContext &shapes, unsigned) {
  return mapContents(shapes, *this, [&](ArrayRef<AffineExpr> e) -> std::optional<AffineExpr> {
    auto smaller = smallerNumber(shapes, e[0], e[1]);
    if (!smaller)
      return std::nullopt;
    for (auto [one, other] : {std::pair(e[0], e[1]), std::pair(e[1], e[0])})
      if (shapes.equal(*smaller, one))
        return other;
    return shapes.simplify(e[0] + e[1] - *smaller);
  });
}
std::optional<Contents> CastOp::contents(ShapeContext &shapes, unsigned) {
  if (getTo().getIntOrFloatBitWidth() < 32)
    return std::nullopt;
  if (getElementTypeOrSelf(getX().getType()).isIntOrIndex())
    return shapes.contents(getX());
  auto fractions = fractionsOf(shapes, getX());
  if (!fractions)
    return std::nullopt;
  Contents result;
  for (const std::optional<Fraction> &element : *fractions) {
    AffineExpr whole = element ? wholePart(shapes, *element) : AffineExpr();
    if (!whole)
      return std::nullopt;
    result.push_back(whole);
  }
  return result;
}
/// Conditions that are known choose; a size compared with a constant that no size has (-1) is a
/// known condition too.
std::optional<Contents> WhereOp::contents(ShapeContext &shapes, unsigned) {
  return mapContents(shapes, *this, [](ArrayRef<AffineExpr> e) -> std::optional<AffineExpr> {
    auto condition = constantOf(e[0]);
    if (!condition)
      return e[1] == e[2] ? std::optional<AffineExpr>(e[1]) : std::nullopt;
    return *condition ? e[1] : e[2];
  });
}
std::optional<Contents> EqualOp::contents(ShapeContext &shapes, unsigned) {
  return mapContents(shapes, *this, [&](ArrayRef<AffineExpr> e) -> std::optional<AffineExpr> {
    auto a = constantOf(e[0]), b = constantOf(e[1]);
    if (!ShapeContext::isExact(e[0]) || !ShapeContext::isExact(e[1]))
      return std::nullopt;
    if (a && b)
      return shapes.constant(*a == *b);
    if (shapes.equal(e[0], e[1]))
      return shapes.constant(1);
    // A symbol is a size and never negative.
    if ((isa<AffineSymbolExpr>(e[0]) && b && *b < 0) ||
        (isa<AffineSymbolExpr>(e[1]) && a && *a < 0))
      return shapes.constant(0);
    return std::nullopt;
  });
}

} // namespace tensmith::graph

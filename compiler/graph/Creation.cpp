// Constants, ranges, random numbers and signals: shape functions.
#include "compiler/graph/Inference.h"

#include "compiler/graph/Constants.h"

using namespace mlir;
using namespace tensmith::graph;

#define GET_OP_CLASSES
#include "compiler/graph/CreationOps.cpp.inc"

namespace tensmith::graph {

void GraphDialect::addCreation() {
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/CreationOps.cpp.inc"
      >();
}

namespace {
/// The result type that the operator was given.
LogicalResult giveDeclared(Operation *op, SmallVectorImpl<Type> &results) {
  results.push_back(op->getResult(0).getType());
  return success();
}

/// An integer scalar (or vector of one) operand's contents.
std::optional<AffineExpr> scalarContents(Inference &infer, unsigned operand) {
  auto contents = infer.contents(operand);
  return contents && contents->size() == 1 ? std::optional(contents->front()) : std::nullopt;
}

std::optional<double> scalarConstant(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto tensor = constant ? hostTensor(constant.getValue())
                         : Result<HostTensor>(Status(StatusCode::Internal, ""));
  return tensor.ok() && tensor->size() == 1 ? std::optional(tensor->getDouble(0)) : std::nullopt;
}
} // namespace

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValueAttr(); }

LogicalResult ConstantOp::inferResults(ShapeContext &, SmallVectorImpl<Type> &results) {
  results.push_back(getValue().getType());
  return success();
}

std::optional<Contents> ConstantOp::contents(ShapeContext &shapes, unsigned) {
  auto tensor = hostTensor(getValue());
  if (!tensor.ok())
    return std::nullopt;
  Contents result;
  for (int64_t i = 0; i < tensor->size(); ++i)
    result.push_back(shapes.constant(tensor->getInt(i)));
  return result;
}

LogicalResult RangeOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  auto start = scalarContents(infer, 0), limit = scalarContents(infer, 1),
       delta = scalarContents(infer, 2);
  if (start && limit && delta) {
    auto s = infer.known(*start), l = infer.known(*limit), d = infer.known(*delta);
    if (d && *d == 0)
      return infer.error() << "has a step of 0";
    if (s && l && d)
      return infer.give(
          infer.element(0),
          {infer.constant(std::max<int64_t>((*l - *s + *d + (*d > 0 ? -1 : 1)) / *d, 0))});
    // From zero to a size in steps of one: the size itself.
    if (s && d && *s == 0 && *d == 1 && isa<AffineSymbolExpr>(shapes.simplify(*limit)))
      return infer.give(infer.element(0), {*limit});
  }
  auto s = scalarConstant(getStart()), l = scalarConstant(getLimit()),
       d = scalarConstant(getDelta());
  if (s && l && d && *d != 0)
    return infer.give(infer.element(0),
                      {infer.constant(std::max<int64_t>(int64_t(std::ceil((*l - *s) / *d)), 0))});
  return infer.give(infer.element(0), {infer.fresh("range")});
}

std::optional<Contents> RangeOp::contents(ShapeContext &shapes, unsigned) {
  auto start = shapes.contents(getStart()), delta = shapes.contents(getDelta());
  if (!start || !delta || start->size() != 1 || delta->size() != 1)
    return std::nullopt;
  Contents result;
  for (int64_t i = 0; i < cast<RankedTensorType>(getY().getType()).getDimSize(0); ++i)
    result.push_back((*start)[0] + (*delta)[0] * i);
  return result;
}

LogicalResult IotaOp::inferResults(ShapeContext &, SmallVectorImpl<Type> &results) {
  return giveDeclared(*this, results);
}
LogicalResult RunKeyOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return Inference(shapes, *this, results).give(IntegerType::get(getContext(), 64), {});
}
LogicalResult RandomUniformOp::inferResults(ShapeContext &, SmallVectorImpl<Type> &results) {
  return giveDeclared(*this, results);
}
LogicalResult RandomNormalOp::inferResults(ShapeContext &, SmallVectorImpl<Type> &results) {
  return giveDeclared(*this, results);
}

LogicalResult BernoulliOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  return infer.unranked() ? infer.giveUnranked(getTo()) : infer.give(getTo(), infer.dims(0));
}
LogicalResult MultinomialOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(getTo());
  if (failed(infer.requireRank(0, 2, 2, "x")))
    return failure();
  return infer.give(getTo(), {infer.dims(0)[0], infer.constant(getSampleSize())});
}
LogicalResult DropoutOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  Type boolean = IntegerType::get(getContext(), 1);
  if (infer.unranked())
    return infer.giveUnranked({infer.element(0), boolean});
  return success(succeeded(infer.giveSame(0)) && succeeded(infer.give(boolean, infer.dims(0))));
}

LogicalResult DftOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.requireRank(0, 2, 64, "x")))
    return failure();
  Dims dims = infer.dims(0);
  auto number = infer.present(2) ? infer.constants(2) : std::optional(SmallVector<int64_t>{-2});
  bool onesided = getOnesided();
  auto length = scalarContents(infer, 1);
  if (!number || number->size() != 1) {
    for (size_t dim = 0; dim + 1 < dims.size(); ++dim)
      dims[dim] = infer.fresh("dft");
  } else {
    auto axis = infer.axis((*number)[0], dims.size());
    if (failed(axis))
      return failure();
    AffineExpr size = infer.present(1) ? (length ? *length : infer.fresh("dft")) : dims[*axis];
    if (onesided && getInverse() && !infer.present(1))
      size = (dims[*axis] - 1) * 2;
    dims[*axis] = onesided && !getInverse() ? size.floorDiv(2) + 1 : size;
  }
  dims.back() = infer.constant(onesided && getInverse() ? 1 : 2);
  return infer.give(infer.element(0), dims);
}

LogicalResult StftOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.requireRank(0, 2, 3, "signal")))
    return failure();
  Dims signal = infer.dims(0);
  auto step = scalarContents(infer, 1), length = scalarContents(infer, 3);
  if (!infer.present(3) && infer.present(2) && infer.rank(2) == 1)
    length = infer.dims(2)[0];
  auto stepKnown = step ? infer.known(*step) : std::nullopt;
  if (stepKnown && *stepKnown <= 0)
    return infer.error() << "has a frame step of " << *stepKnown;
  if (!length || !step)
    return infer.give(infer.element(0),
                      {signal[0], infer.fresh("frames"), infer.fresh("bins"), infer.constant(2)});
  if (failed(infer.requireAtMost(*length, signal[1],
                                 "a frame of {a} samples is longer than the signal, of {b}")))
    return failure();
  AffineExpr frames = (signal[1] - *length).floorDiv(*step) + 1;
  AffineExpr bins = getOnesided() ? length->floorDiv(2) + 1 : *length;
  return infer.give(infer.element(0), {signal[0], frames, bins, infer.constant(2)});
}

LogicalResult WindowOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  auto size = scalarContents(infer, 0);
  return infer.give(getTo(), {size ? *size : infer.fresh("window")});
}

LogicalResult MelWeightMatrixOp::inferResults(ShapeContext &shapes,
                                              SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  auto bins = scalarContents(infer, 0), length = scalarContents(infer, 1);
  return infer.give(getTo(), {length ? length->floorDiv(2) + 1 : infer.fresh("spectrum"),
                              bins ? *bins : infer.fresh("mel")});
}

} // namespace tensmith::graph

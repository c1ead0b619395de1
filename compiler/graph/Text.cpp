// Strings, tables, n-grams and pictures: shape functions.
#include "compiler/graph/UpperBounds.h"

using namespace mlir;
using namespace tensmith::graph;

#define GET_OP_CLASSES
#include "compiler/graph/TextOps.cpp.inc"

namespace tensmith::graph {

void GraphDialect::addText() {
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/TextOps.cpp.inc"
      >();
}

namespace {
LogicalResult requireStrings(Inference &infer, unsigned operand, StringRef name) {
  if (isa<StringType>(infer.element(operand)))
    return success();
  return infer.error() << "operand " << name << " has elements of type " << infer.element(operand)
                       << ", not strings";
}

LogicalResult inferLike(Inference &infer, Type element) {
  return infer.unranked() ? infer.giveUnranked(element) : infer.give(element, infer.dims(0));
}
} // namespace

LogicalResult StringConcatOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (failed(requireStrings(infer, 0, "a")) || failed(requireStrings(infer, 1, "b")))
    return failure();
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  auto dims = infer.broadcast(infer.dims(0), infer.dims(1));
  return failed(dims) ? failure() : infer.give(infer.element(0), *dims);
}

LogicalResult StringSplitOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  Type count = IntegerType::get(getContext(), 64);
  if (failed(requireStrings(infer, 0, "x")))
    return failure();
  if (infer.unranked())
    return infer.giveUnranked({infer.element(0), count});
  Dims dims = infer.dims(0), pieces = dims;
  pieces.push_back(infer.fresh("pieces"));
  return success(succeeded(infer.give(infer.element(0), pieces)) &&
                 succeeded(infer.give(count, dims)));
}

LogicalResult StringNormalizeOp::inferResults(ShapeContext &shapes,
                                              SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (failed(requireStrings(infer, 0, "x")))
    return failure();
  if (infer.present(1) && failed(requireStrings(infer, 1, "stopwords")))
    return failure();
  if (!llvm::is_contained({"none", "lower", "upper"}, getChange()))
    return infer.error() << "changes case to '" << getChange() << "', not lower, upper or none";
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  Dims dims = infer.dims(0);
  if (dims.empty() || dims.size() > 2)
    return infer.error() << "(T1) operand x has rank " << dims.size() << ", not 1 or 2";
  dims.back() = freshAtMost(infer, "kept", dims.back() + 1); // where none is kept, an empty one
  return infer.give(infer.element(0), dims);
}

LogicalResult RegexFullMatchOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (failed(requireStrings(infer, 0, "x")))
    return failure();
  return inferLike(infer, IntegerType::get(getContext(), 1));
}

LogicalResult CountNgramsOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  Type element = Float32Type::get(getContext());
  int64_t columns = 0;
  for (int64_t column : getColumns()) {
    if (column < 0 || column >= (int64_t(1) << 31))
      return infer.error() << "has a column " << column;
    columns = std::max(columns, column + 1);
  }
  if (infer.unranked())
    return infer.giveUnranked(element);
  Dims dims = infer.dims(0);
  if (dims.size() > 2)
    return infer.error() << "operand x has rank " << dims.size() << ", not 1 or 2";
  if (dims.empty())
    dims.push_back(infer.constant(1));
  dims.back() = infer.constant(columns);
  return infer.give(element, dims);
}

LogicalResult LookUpOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.element(0) != infer.element(1) || infer.element(2) != infer.element(3))
    return infer.error() << "(T2) looks up " << infer.element(0) << " among " << infer.element(1)
                         << ", and gives " << infer.element(2) << " or " << infer.element(3);
  return isa<UnrankedTensorType>(getX().getType()) ? infer.giveUnranked(infer.element(2))
                                                   : infer.give(infer.element(2), infer.dims(0));
}

LogicalResult DecodeImageOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (!llvm::is_contained({"rgb", "bgr", "grayscale"}, getPixels()))
    return infer.error() << "has pixels '" << getPixels() << "', not rgb, bgr or grayscale";
  Type byte = IntegerType::get(getContext(), 8, IntegerType::Unsigned);
  if (infer.element(0) != byte)
    return infer.error() << "operand x has elements of type " << infer.element(0) << ", not bytes";
  if (infer.unranked())
    return infer.giveUnranked(byte);
  if (failed(infer.requireRank(0, 1, 1, "x")))
    return failure();
  return infer.give(byte, {infer.fresh("height"), infer.fresh("width"),
                           infer.constant(getPixels() == "grayscale" ? 1 : 3)});
}

} // namespace tensmith::graph

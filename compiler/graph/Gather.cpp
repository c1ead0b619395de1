// Indexed reading and writing, selection: shape functions.
#include "compiler/graph/UpperBounds.h"

using namespace mlir;
using namespace tensmith::graph;

#define GET_OP_CLASSES
#include "compiler/graph/GatherOps.cpp.inc"

namespace tensmith::graph {

void GraphDialect::addGather() {
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/GatherOps.cpp.inc"
      >();
}

static Type i64(Operation *op) { return IntegerType::get(op->getContext(), 64); }

LogicalResult GatherOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.requireInteger(1, "indices")))
    return failure();
  Dims dims = infer.dims(0), indices = infer.dims(1);
  auto axis = infer.axis(getAxis(), dims.size());
  if (failed(axis))
    return failure();
  Dims result(ArrayRef(dims).take_front(*axis));
  result.append(indices);
  result.append(dims.begin() + *axis + 1, dims.end());
  return infer.give(infer.element(0), result);
}

std::optional<Contents> GatherOp::contents(ShapeContext &shapes, unsigned) {
  auto known = shapes.contents(getX());
  auto indices = shapes.constants(getIndices());
  if (!known || !indices || cast<RankedTensorType>(getX().getType()).getRank() != 1)
    return std::nullopt;
  Contents result;
  for (int64_t index : *indices) {
    int64_t at = index < 0 ? index + int64_t(known->size()) : index;
    if (at < 0 || at >= int64_t(known->size()))
      return std::nullopt;
    result.push_back((*known)[at]);
  }
  return result;
}

LogicalResult TreeEnsembleOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  Type element = infer.element(0);
  if (!element.isF32() && !element.isF64())
    return infer.error() << "(E1) has x of " << element << ", not f32 or f64";
  if (failed(infer.requireRank(0, 2, 2, "x")) || failed(infer.requireRank(1, 1, 1, "columns")) ||
      failed(infer.requireRank(2, 2, 2, "nodes")) || failed(infer.requireRank(3, 2, 2, "trees")))
    return failure();
  if (!infer.element(1).isInteger(32) || !infer.element(3).isInteger(32) ||
      !infer.element(2).isInteger(element.getIntOrFloatBitWidth()))
    return infer.error() << "(E2) has columns, nodes or trees of the wrong type";
  if (infer.known(infer.dims(2)[1]) != 2 || infer.known(infer.dims(3)[1]) != 2)
    return infer.error() << "(E3) has nodes or trees that are no pairs";
  if (infer.present(4) && (infer.element(4) != element || infer.rank(4) != 2 ||
                           infer.known(infer.dims(4)[1]) != int64_t(getTargets())))
    return infer.error() << "(E4) has weights that are not of x's type for each target";
  if (getTargets() < 1 || getColumnBits() < 1 ||
      getColumnBits() > element.getIntOrFloatBitWidth() - 3 || getDepth() < 0 ||
      !llvm::is_contained({"none", "some", "all"}, getMissing()) ||
      !llvm::is_contained({"sum", "min", "max"}, getAggregate()))
    return infer.error()
           << "(E5) has targets, column_bits, depth, missing or aggregate that can't be";
  return infer.give(element, {infer.dims(0)[0], infer.constant(int64_t(getTargets()))});
}

/// That the indices are no more than x has elements, along each other dimension than the axis.
static LogicalResult requireWithinBeside(Inference &infer, int64_t axis) {
  for (auto [dim, sizes] : llvm::enumerate(llvm::zip_equal(infer.dims(1), infer.dims(0)))) {
    auto [indices, size] = sizes;
    if (int64_t(dim) != axis &&
        failed(infer.requireAtMost(indices, size,
                                   "(G1) there are {a} indices along a dimension of {b}")))
      return failure();
  }
  return success();
}

LogicalResult GatherElementsOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (infer.rank(0) != infer.rank(1))
    return infer.error() << "(G1) operand and indices have ranks " << infer.rank(0) << " and "
                         << infer.rank(1);
  auto axis = infer.axis(getAxis(), infer.rank(0));
  if (failed(infer.requireInteger(1, "indices")) || failed(axis))
    return failure();
  if (failed(requireWithinBeside(infer, *axis)))
    return failure();
  return infer.give(infer.element(0), infer.dims(1));
}

LogicalResult GatherNDOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.requireInteger(1, "indices")) || failed(infer.requireRank(1, 1, 64, "indices")))
    return failure();
  Dims dims = infer.dims(0), indices = infer.dims(1);
  auto depth = infer.known(indices.pop_back_val());
  if (!depth)
    return infer.giveUnranked(infer.element(0));
  int64_t used = int64_t(getBatchDims()) + *depth;
  if (used > int64_t(dims.size()) || getBatchDims() > indices.size())
    return infer.error() << "(G1) index tuples of " << *depth << " after " << getBatchDims()
                         << " batch dimensions address an operand of rank " << dims.size();
  for (int64_t dim = 0; dim < int64_t(getBatchDims()); ++dim)
    if (failed(infer.requireEqual(dims[dim], indices[dim], "(G1)", "batch dimensions")))
      return failure();
  indices.append(dims.begin() + used, dims.end());
  return infer.give(infer.element(0), indices);
}

namespace {
/// That the updates are of that shape.
LogicalResult requireShape(Inference &infer, ArrayRef<AffineExpr> wanted) {
  Dims updates = infer.dims(2);
  if (updates.size() != wanted.size())
    return infer.error() << "(G1) updates have rank " << updates.size() << ", not "
                         << wanted.size();
  for (auto [size, other] : llvm::zip_equal(updates, wanted))
    if (failed(infer.requireEqual(size, other, "(G1)", "sizes of the updates and of their places")))
      return failure();
  return success();
}

/// That there is a place where there are indices. A kernel whose result has no elements isn't run,
/// and so does not look at them.
LogicalResult requirePlaces(Inference &infer, ArrayRef<AffineExpr> addressed,
                            ArrayRef<AffineExpr> indices) {
  return infer.require({Condition::Relation::AtMost, infer.constant(1),
                        infer.shapes.product(addressed),
                        "(G1) there are indices, and {b} places that they could be of",
                        infer.shapes.product(indices)});
}

LogicalResult inferScatter(Inference infer) {
  if (failed(infer.requireSameElement(0, 2, "(G1)")) || failed(infer.requireInteger(1, "indices")))
    return failure();
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  return infer.giveSame(0);
}
} // namespace

LogicalResult ScatterElementsOp::inferResults(ShapeContext &shapes,
                                              SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked() || infer.rank(0) != infer.rank(1))
    return inferScatter(infer);
  auto axis = infer.axis(getAxis(), infer.rank(0));
  if (failed(axis) || failed(requireWithinBeside(infer, *axis)) ||
      failed(requireShape(infer, infer.dims(1))) ||
      failed(requirePlaces(infer, infer.dims(0)[*axis], infer.dims(1))))
    return failure();
  return inferScatter(infer);
}
LogicalResult ScatterNDOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked() || infer.rank(1) == 0)
    return inferScatter(infer);
  Dims x = infer.dims(0), wanted = infer.dims(1);
  auto depth = infer.known(wanted.pop_back_val());
  if (depth && *depth > int64_t(x.size()))
    return infer.error() << "(G1) index tuples of " << *depth << " address an operand of rank "
                         << x.size();
  if (depth) {
    if (failed(requirePlaces(infer, ArrayRef(x).take_front(*depth), wanted)))
      return failure();
    wanted.append(x.begin() + *depth, x.end());
    if (failed(requireShape(infer, wanted)))
      return failure();
  }
  return inferScatter(infer);
}
LogicalResult TensorScatterOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (failed(infer.requireSameElement(0, 1, "(G1)")))
    return failure();
  return infer.unranked() ? infer.giveUnranked(infer.element(0)) : infer.giveSame(0);
}

LogicalResult OneHotOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(2));
  Dims dims = infer.dims(0);
  auto axis = infer.axis(getAxis(), dims.size() + 1);
  if (failed(axis))
    return failure();
  auto depth = infer.contents(1);
  dims.insert(dims.begin() + *axis,
              depth && depth->size() == 1 ? depth->front() : infer.fresh("depth"));
  return infer.give(infer.element(2), dims);
}

LogicalResult NonZeroOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.give(i64(*this), {infer.fresh("rank"), infer.fresh("nonzero")});
  AffineExpr all = shapes.product(infer.dims(0));
  return infer.give(i64(*this),
                    {infer.constant(infer.rank(0)), freshAtMost(infer, "nonzero", all)});
}

LogicalResult CompressOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return getAxis() ? infer.giveUnranked(infer.element(0))
                     : infer.give(infer.element(0), {infer.fresh("compress")});
  if (!getAxis())
    return infer.give(infer.element(0),
                      {freshAtMost(infer, "compress", shapes.product(infer.dims(0)))});
  Dims dims = infer.dims(0);
  auto axis = infer.axis(*getAxis(), dims.size());
  if (failed(axis))
    return failure();
  dims[*axis] = freshAtMost(infer, "compress", dims[*axis]);
  return infer.give(infer.element(0), dims);
}

LogicalResult TopKOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked({infer.element(0), i64(*this)});
  Dims dims = infer.dims(0);
  auto axis = infer.axis(getAxis(), dims.size());
  if (failed(axis))
    return failure();
  auto k = infer.contents(1);
  dims[*axis] = k && k->size() == 1 ? k->front() : freshAtMost(infer, "topk", dims[*axis]);
  return success(succeeded(infer.give(infer.element(0), dims)) &&
                 succeeded(infer.give(i64(*this), dims)));
}

LogicalResult UniqueOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  AffineExpr count, all;
  Type index = i64(*this);
  if (getAxis()) {
    if (infer.unranked())
      return infer.giveUnranked({infer.element(0), index, index, index});
    Dims dims = infer.dims(0);
    auto axis = infer.axis(*getAxis(), dims.size());
    if (failed(axis))
      return failure();
    all = dims[*axis];
    dims[*axis] = count = freshAtMost(infer, "unique", all);
    if (failed(infer.give(infer.element(0), dims)))
      return failure();
  } else {
    all = infer.unranked() ? infer.fresh("elements") : shapes.product(infer.dims(0));
    count = freshAtMost(infer, "unique", all);
    if (failed(infer.give(infer.element(0), {count})))
      return failure();
  }
  return success(succeeded(infer.give(index, {count})) && succeeded(infer.give(index, {all})) &&
                 succeeded(infer.give(index, {count})));
}

LogicalResult NonMaxSuppressionOp::inferResults(ShapeContext &shapes,
                                                SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked() || infer.rank(0) != 3 || infer.rank(1) != 3)
    return infer.give(i64(*this), {infer.fresh("selected"), infer.constant(3)});
  // Of each batch and class no box twice, and no more than are asked for; a limit that is not small
  // says less than the number of boxes, which only the run may know.
  constexpr int64_t kFew = 64;
  Dims scores = infer.dims(1);
  auto most = infer.constants(2);
  auto boxes = infer.known(scores[2]);
  if (most && most->size() == 1 && most->front() < (boxes ? *boxes : kFew))
    scores[2] = infer.constant(std::max<int64_t>(most->front(), 0));
  return infer.give(i64(*this),
                    {freshAtMost(infer, "selected", shapes.product(scores)), infer.constant(3)});
}

} // namespace tensmith::graph

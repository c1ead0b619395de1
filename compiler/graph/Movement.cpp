// Movement: shape functions of the static and the dynamic forms.
#include "compiler/graph/Fractions.h"
#include "compiler/graph/ReshapeTarget.h"
#include "compiler/graph/SizeTerms.h"
#include "compiler/graph/SlicedRange.h"
#include "compiler/graph/UpperBounds.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace tensmith::graph;

#define GET_OP_CLASSES
#include "compiler/graph/MovementOps.cpp.inc"

namespace tensmith::graph {

void GraphDialect::addMovement() {
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/MovementOps.cpp.inc"
      >();
}

namespace {

/// The type that the operator was given, which it keeps; its element type must be the operand's.
LogicalResult giveDeclared(Inference &infer) {
  Type declared = infer.op->getResult(0).getType();
  if (getElementTypeOrSelf(declared) != infer.element(0))
    return infer.error() << "has a result of other elements than its operand's, "
                         << infer.element(0);
  infer.results.push_back(declared);
  return success();
}

Dims declaredDims(Inference &infer) { return infer.shapes.dims(infer.op->getResult(0).getType()); }
bool declaredUnranked(Inference &infer) {
  return !isa<RankedTensorType>(infer.op->getResult(0).getType());
}

/// A vector operand's length, where known: the rank that it gives the result.
std::optional<int64_t> lengthOf(Inference &infer, unsigned operand) {
  if (infer.rank(operand) != 1)
    return std::nullopt;
  return infer.known(infer.dims(operand)[0]);
}

} // namespace

LogicalResult ReshapeOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked() || declaredUnranked(infer))
    return giveDeclared(infer);
  AffineExpr from = shapes.product(infer.dims(0)), to = shapes.product(declaredDims(infer));
  if (failed(infer.requireEqual(from, to, "(M1)", "numbers of elements")))
    return failure();
  return giveDeclared(infer);
}

LogicalResult TransposeOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  Dims dims = infer.dims(0), turned;
  SmallVector<int64_t> sorted(getPermutation());
  llvm::sort(sorted);
  if (sorted != llvm::to_vector(llvm::seq<int64_t>(0, dims.size())))
    return infer.error() << "permutation [" << getPermutation() << "] is not one of " << dims.size()
                         << " dimensions";
  for (int64_t dim : getPermutation())
    turned.push_back(dims[dim]);
  return infer.give(infer.element(0), turned);
}

LogicalResult BroadcastOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked() || declaredUnranked(infer))
    return giveDeclared(infer);
  Dims from = infer.dims(0), to = declaredDims(infer);
  if (from.size() > to.size())
    return infer.error() << "has a result of lower rank than its operand";
  for (size_t dim = 0; dim < from.size(); ++dim) {
    AffineExpr size = to[to.size() - from.size() + dim];
    if (failed(infer.requireOneOr(from[dim], size, "(M1)", "sizes of a broadcast dimension")))
      return failure();
  }
  return giveDeclared(infer);
}

/// (M2) of one dimension, unless nothing is read.
static LogicalResult requireWithin(Inference &infer, AffineExpr size, AffineExpr count,
                                   int64_t start, int64_t step) {
  start = withinDimension(start), step = withinDimension(step);
  AffineExpr elements = infer.shapes.product(declaredDims(infer));
  AffineExpr last = infer.constant(start) + (count - 1) * step;
  AffineExpr highest = step > 0 ? last : infer.constant(start);
  if (failed(infer.require({Condition::Relation::AtMost, highest + 1, size,
                            "(M2) the slice reads {a} elements of a dimension of {b}", elements})))
    return failure();
  if (step > 0)
    return success();
  return infer.require({Condition::Relation::AtMost, infer.constant(0), last,
                        "(M2) the slice goes back to element {b}", elements});
}

LogicalResult SliceOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked() || declaredUnranked(infer))
    return giveDeclared(infer);
  Dims from = infer.dims(0), to = declaredDims(infer);
  if (to.size() != from.size() || getStarts().size() != from.size() ||
      getSteps().size() != from.size())
    return infer.error() << "(M2) has not one start and step for each of " << from.size()
                         << " dimensions";
  for (size_t dim = 0; dim < from.size(); ++dim) {
    int64_t start = getStarts()[dim], step = getSteps()[dim];
    auto size = infer.known(from[dim]), count = infer.known(to[dim]);
    if (start < 0 || step == 0)
      return infer.error() << "(M2) start " << start << " or step " << step << " of dimension "
                           << dim << " is out of range";
    if (!size || !count) {
      if (failed(requireWithin(infer, from[dim], to[dim], start, step)))
        return failure();
      continue;
    }
    if (*count == 0)
      continue;
    auto last = checkedSum(start, checkedProduct(*count - 1, step));
    if (start >= *size || !last || *last < 0 || *last >= *size)
      return infer.error() << "(M2) dimension " << dim << " reads " << *count << " elements from "
                           << start << " by steps of " << step << " of " << *size;
  }
  return giveDeclared(infer);
}

LogicalResult ConcatOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (getInputs().empty())
    return infer.error() << "(M3) has no inputs";
  for (unsigned operand = 1; operand < getInputs().size(); ++operand)
    if (failed(infer.requireSameElement(0, operand, "(M3)")))
      return failure();
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  Dims dims = infer.dims(0);
  auto axis = infer.axis(getAxis(), dims.size());
  if (failed(axis))
    return failure();
  for (unsigned operand = 1; operand < getInputs().size(); ++operand) {
    Dims other = infer.dims(operand);
    if (other.size() != dims.size())
      return infer.error() << "(M3) inputs have ranks " << dims.size() << " and " << other.size();
    for (size_t dim = 0; dim < dims.size(); ++dim) {
      if (int64_t(dim) == *axis)
        continue;
      if (failed(infer.requireEqual(dims[dim], other[dim], "(M3)",
                                    "sizes of a dimension that is not joined")))
        return failure();
      if (infer.known(other[dim]))
        dims[dim] = other[dim];
    }
    dims[*axis] = dims[*axis] + other[*axis];
  }
  return infer.give(infer.element(0), dims);
}

LogicalResult PadOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  Dims dims = infer.dims(0);
  if (getLow().size() != dims.size() || getHigh().size() != dims.size())
    return infer.error() << "has not one low and high for each of " << dims.size() << " dimensions";
  if (infer.present(1) && failed(infer.requireSameElement(0, 1, "(M3)")))
    return failure();
  for (size_t dim = 0; dim < dims.size(); ++dim)
    dims[dim] = dims[dim] + getLow()[dim] + getHigh()[dim];
  return infer.give(infer.element(0), dims);
}

LogicalResult ReverseOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  for (int64_t axis : getAxes())
    if (axis < 0 || axis >= infer.rank(0))
      return infer.error() << "axis " << axis << " is not a dimension of the operand";
  return infer.giveSame(0);
}

LogicalResult TriluOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.requireRank(0, 2, 64, "x")))
    return failure();
  return infer.giveSame(0);
}

LogicalResult PackOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.requireRank(0, 2, 64, "x")))
    return failure();
  if (int64_t(getWidth()) <= 0)
    return infer.error() << "width " << int64_t(getWidth()) << " is not positive";
  Dims dims = infer.dims(0);
  AffineExpr last = dims.pop_back_val(), before = dims.pop_back_val();
  AffineExpr columns = getTransposed() ? before : last, depth = getTransposed() ? last : before;
  dims.append({columns.ceilDiv(getWidth()), depth, infer.constant(getWidth())});
  return infer.give(infer.element(0), dims);
}

LogicalResult UnpackOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.requireRank(0, 3, 64, "x")))
    return failure();
  Dims dims = infer.dims(0);
  dims.pop_back();
  AffineExpr depth = dims.pop_back_val();
  dims.pop_back();
  // The width of the result is given with the operator's result type where it is symbolic.
  Type declared = getY().getType();
  AffineExpr columns = infer.constant(getColumns());
  if (int64_t(getColumns()) < 0)
    if (auto type = dyn_cast<RankedTensorType>(declared))
      columns = shapes.dims(type).back();
  dims.append({depth, columns});
  return infer.give(infer.element(0), dims);
}

/// The number that `size` is `of` by for all values of the symbols; null where there is none.
static AffineExpr exactQuotient(ShapeContext &shapes, AffineExpr size, AffineExpr of) {
  AffineExpr quotient = shapes.simplify(size.floorDiv(of));
  return shapes.equal(size, quotient * of) ? quotient : AffineExpr();
}

TargetSize targetSize(ShapeContext &shapes, AffineExpr asked, size_t dim,
                      ArrayRef<AffineExpr> from) {
  using Relation = Condition::Relation;
  AffineExpr zero = shapes.constant(0), one = shapes.constant(1);
  if (SizeFacts().decide(Relation::AtMost, one, asked) == true)
    return {asked, {}};
  AffineExpr own = dim < from.size() ? from[dim] : AffineExpr();
  AffineExpr multiple = own ? exactQuotient(shapes, asked, own) : AffineExpr();
  bool isZeroTogether = multiple && constantOf(multiple) && *constantOf(multiple) != 0;
  if (own && (own == zero || isZeroTogether || exactQuotient(shapes, own, asked)))
    return {asked, {}};
  if (!own || exactQuotient(shapes, shapes.product(from), asked) ||
      SizeFacts().decide(Relation::AtMost, zero, asked) != true)
    return {asked, Condition{Relation::AtMost, one, asked,
                             "(M1) dimension " + std::to_string(dim) +
                                 " of the target shape is computed to be {b}, which stands for "
                                 "the operand's dimension",
                             own && !constantOf(own) ? own : AffineExpr()}};
  return {shapes.simplify(asked + own * one.floorDiv(asked + one)), {}};
}

LogicalResult DynamicReshapeOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  bool isUnranked = infer.unranked();
  auto target = isUnranked ? std::nullopt : infer.contents(1);
  Dims from = isUnranked ? Dims() : infer.dims(0), to;
  if (!target) {
    bool hasLength = isa<RankedTensorType>(getShape().getType());
    auto rank = hasLength ? lengthOf(infer, 1) : std::nullopt;
    if (!rank)
      return infer.giveUnranked(infer.element(0));
    if (failed(infer.checkRank(*rank)))
      return failure();
    auto partly = partialContents(shapes, getShape());
    for (int64_t dim = 0; dim < *rank; ++dim) {
      AffineExpr size = partly ? (*partly)[dim] : AffineExpr();
      auto known = size ? infer.known(size) : std::nullopt;
      if (known && *known == 0 && !getAllowzero() && dim < int64_t(from.size()))
        size = from[dim];
      else if (known && *known < 1)
        size = {};
      if (size)
        to.push_back(size);
      else
        to.push_back(*rank == 1 ? freshAtMost(infer, "reshape", shapes.product(from))
                                : infer.fresh("reshape"));
    }
    return infer.give(infer.element(0), to);
  }
  // Dimensions that are copied stand on both sides, and what -1 stands for is told by the others:
  // so [0, -1] has a size for an empty batch, too.
  std::optional<size_t> rest;
  AffineExpr moved = infer.constant(1), given = infer.constant(1);
  SmallVector<bool> isCopied(std::max(from.size(), target->size()), false);
  for (auto [dim, size] : llvm::enumerate(*target)) {
    auto known = infer.known(size);
    if (known && *known == -1) {
      if (rest)
        return infer.error() << "(M1) the target shape has more than one -1";
      rest = dim;
      to.push_back(size);
      continue;
    }
    if (known && *known < -1)
      return infer.error() << "(M1) the target shape has a dimension of " << *known;
    if (known && *known == 0 && !getAllowzero()) {
      if (dim >= from.size())
        return infer.error() << "(M1) the target shape keeps dimension " << dim
                             << " of an operand of rank " << from.size();
      size = from[dim];
    } else if (!known && !getAllowzero()) {
      auto [stated, condition] = targetSize(shapes, size, dim, from);
      if (condition && failed(infer.require(*condition)))
        return failure();
      size = stated;
    }
    isCopied[dim] = dim < from.size() && shapes.equal(size, from[dim]);
    to.push_back(size);
    if (!isCopied[dim])
      given = given * size;
  }
  if (!rest) {
    if (failed(infer.requireEqual(shapes.product(from), shapes.product(to), "(M1)",
                                  "numbers of elements")))
      return failure();
    return infer.give(infer.element(0), to);
  }
  for (auto [dim, size] : llvm::enumerate(from))
    if (!isCopied[dim])
      moved = moved * size;
  moved = shapes.simplify(moved), given = shapes.simplify(given);
  if (failed(infer.requireAtMost(infer.constant(1), given,
                                 "(M1) beside a size of 0 nothing tells what -1 stands for")))
    return failure();
  to[*rest] = shapes.simplify(moved.floorDiv(given));
  if (failed(infer.requireEqual(moved, shapes.simplify(given * to[*rest]), "(M1)",
                                "numbers of elements")))
    return failure();
  return infer.give(infer.element(0), to);
}

LogicalResult DynamicBroadcastOp::inferResults(ShapeContext &shapes,
                                               SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  Dims from = infer.dims(0);
  if (auto target = infer.contents(1)) {
    auto dims = infer.broadcast(from, *target);
    return failed(dims) ? failure() : infer.give(infer.element(0), *dims);
  }
  auto rank = lengthOf(infer, 1);
  if (!rank)
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.checkRank(*rank)))
    return failure();
  auto partly = partialContents(shapes, getShape());
  size_t count = size_t(*rank), all = std::max(count, from.size());
  from.insert(from.begin(), all - from.size(), infer.constant(1));
  Dims dims = from;
  for (size_t dim = 0; dim < count; ++dim) {
    AffineExpr size = partly ? (*partly)[dim] : AffineExpr(), own = from[all - count + dim];
    auto known = size ? infer.known(size) : std::nullopt;
    if (size && (!known || *known >= 0)) {
      auto common = infer.broadcast(own, size);
      if (!common)
        return infer.error() << "dimension " << dim << " does not broadcast to the given shape";
      dims[all - count + dim] = *common;
    } else if (infer.known(own).value_or(1) == 1) {
      // A name of its own, not an expression over one: the result is what tells it.
      dims[all - count + dim] = infer.fresh("broadcast");
    }
  }
  return infer.give(infer.element(0), dims);
}

/// An expression where the order of the sizes is certain, otherwise a fresh symbol.
static AffineExpr slicedSize(Inference &infer, AffineExpr size, AffineExpr start, AffineExpr end,
                             int64_t step) {
  // A size that only the run knows is taken to lie within the dimension, so that it keeps its name:
  // positions sliced to the length of the sequence stay as long as the sequence, and parts of a
  // gradient as long as what they are gradients of. The run checks it, as it checks all sizes of
  // computed results.
  if (infer.known(start) == 0 && step == 1 && isa<AffineSymbolExpr>(infer.shapes.simplify(end)))
    return end;
  // Over several sizes it would be an expression that a value alone does not tell.
  bool isPlain = infer.known(start) && (infer.known(end) || infer.shapes.equal(end, size));
  auto range = isPlain ? slicedRange(infer.shapes, size, start, end, step) : std::nullopt;
  return range ? range->count : freshAtMost(infer, "slice", size);
}

LogicalResult DynamicSliceOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.requireRank(1, 1, 1, "starts")))
    return failure();
  Dims dims = infer.dims(0);
  auto starts = infer.contents(1), ends = infer.contents(2);
  auto axes = infer.constants(3), steps = infer.constants(4);
  bool stepsKnown = steps || !infer.present(4);
  auto count = axes               ? std::optional<int64_t>(axes->size())
               : infer.present(3) ? std::nullopt
                                  : lengthOf(infer, 1);
  if (!count) { // the run tells which dimensions, or how many of the first
    for (AffineExpr &dim : dims)
      dim = freshAtMost(infer, "slice", dim);
    return infer.give(infer.element(0), dims);
  }
  if (*count > int64_t(dims.size()))
    return infer.error() << "has starts for more dimensions than its operand's " << dims.size();
  for (int64_t i = 0; i < *count; ++i) {
    auto axis = infer.axis(axes ? (*axes)[i] : i, dims.size());
    if (failed(axis))
      return failure();
    bool known = starts && ends && stepsKnown && i < int64_t(starts->size()) &&
                 i < int64_t(ends->size()) && (!steps || i < int64_t(steps->size()));
    int64_t step = known && steps ? (*steps)[i] : 1;
    if (step == 0)
      return infer.error() << "has a step of 0";
    dims[*axis] = known ? slicedSize(infer, dims[*axis], (*starts)[i], (*ends)[i], step)
                        : freshAtMost(infer, "slice", dims[*axis]);
  }
  return infer.give(infer.element(0), dims);
}

LogicalResult DynamicPadOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  Dims dims = infer.dims(0);
  auto pads = partialContents(shapes, getPads());
  auto axes = infer.constants(3);
  if (!pads || (infer.present(3) && !axes)) {
    for (AffineExpr &dim : dims)
      dim = infer.fresh("pad");
    return infer.give(infer.element(0), dims);
  }
  SmallVector<int64_t> all = axes ? *axes : llvm::to_vector(llvm::seq<int64_t>(0, dims.size()));
  if (pads->size() != 2 * all.size())
    return infer.error() << "has " << pads->size() << " pads for " << all.size() << " dimensions";
  for (auto [i, number] : llvm::enumerate(all)) {
    auto axis = infer.axis(number, dims.size());
    if (failed(axis))
      return failure();
    AffineExpr low = (*pads)[i], high = (*pads)[all.size() + i];
    dims[*axis] = low && high ? dims[*axis] + low + high : infer.fresh("pad");
  }
  return infer.give(infer.element(0), dims);
}

LogicalResult DynamicTileOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  Dims dims = infer.dims(0);
  auto repeats = partialContents(shapes, getRepeats());
  if (repeats && repeats->size() != dims.size())
    return infer.error() << "has " << repeats->size() << " repeats for " << dims.size()
                         << " dimensions";
  for (size_t dim = 0; dim < dims.size(); ++dim)
    dims[dim] = repeats && (*repeats)[dim] ? dims[dim] * (*repeats)[dim] : infer.fresh("tile");
  return infer.give(infer.element(0), dims);
}

LogicalResult CenterCropPadOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  Dims dims = infer.dims(0);
  auto target = infer.contents(1);
  SmallVector<int64_t> axes = getAxes() ? SmallVector<int64_t>(*getAxes())
                                        : llvm::to_vector(llvm::seq<int64_t>(0, dims.size()));
  for (auto [i, number] : llvm::enumerate(axes)) {
    auto axis = infer.axis(number, dims.size());
    if (failed(axis))
      return failure();
    dims[*axis] = target && i < target->size() ? (*target)[i] : infer.fresh("crop");
  }
  return infer.give(infer.element(0), dims);
}

LogicalResult ShapeOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  Type i64 = IntegerType::get(getContext(), 64);
  if (!isa<RankedTensorType>(getX().getType()))
    return infer.give(i64, {infer.fresh("rank")});
  int64_t rank = infer.rank(0);
  auto clampToRank = [&](int64_t dim) {
    return std::clamp<int64_t>(dim < 0 ? dim + rank : dim, 0, rank);
  };
  int64_t start = clampToRank(int64_t(getStart())),
          end = clampToRank(getEnd() ? int64_t(*getEnd()) : rank);
  return infer.give(i64, {infer.constant(std::max<int64_t>(end - start, 0))});
}

LogicalResult SizeOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return Inference(shapes, *this, results).give(IntegerType::get(getContext(), 64), {});
}

LogicalResult ReverseSequenceOp::inferResults(ShapeContext &shapes,
                                              SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.requireRank(0, 2, 64, "x")))
    return failure();
  return infer.giveSame(0);
}

std::optional<Contents> ShapeOp::contents(ShapeContext &shapes, unsigned) {
  auto type = dyn_cast<RankedTensorType>(getX().getType());
  if (!type)
    return std::nullopt;
  Dims dims = shapes.dims(type);
  int64_t rank = dims.size();
  auto clampToRank = [&](int64_t dim) {
    return std::clamp<int64_t>(dim < 0 ? dim + rank : dim, 0, rank);
  };
  int64_t start = clampToRank(int64_t(getStart())),
          end = clampToRank(getEnd() ? int64_t(*getEnd()) : rank);
  Contents result;
  for (int64_t dim = start; dim < end; ++dim)
    result.push_back(dims[dim]);
  return result;
}
std::optional<Contents> SizeOp::contents(ShapeContext &shapes, unsigned) {
  auto type = dyn_cast<RankedTensorType>(getX().getType());
  return type ? std::optional<Contents>(Contents{shapes.product(shapes.dims(type))}) : std::nullopt;
}
std::optional<Contents> ReshapeOp::contents(ShapeContext &shapes, unsigned) {
  return shapes.contents(getX());
}
std::optional<Contents> DynamicReshapeOp::contents(ShapeContext &shapes, unsigned) {
  return shapes.contents(getX());
}

/// The contents of a broadcast value of one element.
static std::optional<Contents> repeated(ShapeContext &shapes, Value from, Value to) {
  auto known = shapes.contents(from);
  auto type = cast<RankedTensorType>(to.getType());
  if (!known || known->empty())
    return std::nullopt;
  if (known->size() == 1)
    return Contents(size_t(type.getNumElements()), known->front());
  return int64_t(known->size()) == type.getNumElements() ? known : std::nullopt;
}
std::optional<Contents> BroadcastOp::contents(ShapeContext &shapes, unsigned) {
  return repeated(shapes, getX(), getY());
}
std::optional<Contents> DynamicBroadcastOp::contents(ShapeContext &shapes, unsigned) {
  return repeated(shapes, getX(), getY());
}

/// Row-major, of a tensor whose contents are known.
static SmallVector<int64_t> stridesOf(Value x) {
  return computeStrides(cast<RankedTensorType>(x.getType()).getShape());
}

/// Of y, whose elements lie in x from the first on, by strides.
static std::optional<Contents> strided(ShapeContext &shapes, Value x, Value y, int64_t first,
                                       ArrayRef<int64_t> strides) {
  auto known = shapes.contents(x);
  if (!known)
    return std::nullopt;
  SmallVector<int64_t> own = stridesOf(y);
  Contents result;
  for (int64_t i = 0; i < cast<RankedTensorType>(y.getType()).getNumElements(); ++i)
    result.push_back((*known)[size_t(first + linearize(delinearize(i, own), strides))]);
  return result;
}

std::optional<Contents> SliceOp::contents(ShapeContext &shapes, unsigned) {
  if (!shapes.contents(getX()))
    return std::nullopt;
  SmallVector<int64_t> strides = stridesOf(getX());
  int64_t first = 0;
  for (auto [dim, stride] : llvm::enumerate(strides)) {
    first += getStarts()[dim] * stride;
    stride *= getSteps()[dim];
  }
  return strided(shapes, getX(), getY(), first, strides);
}

/// What exporters pair up and turn: the pads of each dimension.
std::optional<Contents> TransposeOp::contents(ShapeContext &shapes, unsigned) {
  if (!shapes.contents(getX()))
    return std::nullopt;
  SmallVector<int64_t> strides = stridesOf(getX()), turned;
  for (int64_t dim : getPermutation())
    turned.push_back(strides[size_t(dim)]);
  return strided(shapes, getX(), getY(), 0, turned);
}

std::optional<Contents> DynamicSliceOp::contents(ShapeContext &shapes, unsigned) {
  auto known = shapes.contents(getX());
  auto starts = shapes.constants(getStarts());
  auto type = cast<RankedTensorType>(getY().getType());
  if (!known || !starts || type.getRank() != 1 || starts->size() != 1)
    return std::nullopt;
  auto steps = isa<NoneType>(getSteps().getType()) ? std::optional(SmallVector<int64_t>{1})
                                                   : shapes.constants(getSteps());
  if (!steps)
    return std::nullopt;
  int64_t n = known->size(), step = (*steps)[0];
  int64_t start = std::clamp<int64_t>((*starts)[0] < 0 ? (*starts)[0] + n : (*starts)[0], 0,
                                      step > 0 ? n : n - 1);
  Contents result;
  for (int64_t i = 0; i < type.getDimSize(0); ++i) {
    int64_t at = start + i * step;
    if (at < 0 || at >= n)
      return std::nullopt;
    result.push_back((*known)[at]);
  }
  return result;
}
std::optional<Contents> ConcatOp::contents(ShapeContext &shapes, unsigned) {
  Contents result;
  if (cast<RankedTensorType>(getY().getType()).getRank() != 1)
    return std::nullopt;
  for (Value input : getInputs()) {
    auto known = shapes.contents(input);
    if (!known)
      return std::nullopt;
    result.append(*known);
  }
  return result;
}

} // namespace tensmith::graph

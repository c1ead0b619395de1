// Control flow, sequences, optionals and kernels: result types.
#include "compiler/graph/Structure.h"

#include "compiler/graph/Comprehension.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/SequenceChanges.h"
#include "compiler/graph/UpperBounds.h"

using namespace mlir;
using namespace tensmith::graph;

#define GET_OP_CLASSES
#include "compiler/graph/StructureOps.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/graph/SequenceChangesOps.cpp.inc"

namespace tensmith::graph {

void GraphDialect::addStructure() {
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/StructureOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/SequenceChangesOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/ComprehensionOps.cpp.inc"
      >();
}

namespace {

/// The type of the elements of two sequences, of one kind in each.
Type joinElements(Type a, Type b) {
  auto ta = dyn_cast<RankedTensorType>(a), tb = dyn_cast<RankedTensorType>(b);
  if (a == b || !isa<TensorType>(a) || !isa<TensorType>(b))
    return a;
  if (!ta || !tb || ta.getRank() != tb.getRank())
    return UnrankedTensorType::get(getElementTypeOrSelf(a));
  SmallVector<int64_t> shape(ta.getShape());
  for (auto [size, other] : llvm::zip_equal(shape, tb.getShape()))
    size = size == other ? size : ShapedType::kDynamic;
  return RankedTensorType::get(shape, ta.getElementType());
}

/// What a value may be when it is one or the other: equal dimensions stay, others are only known
/// when it runs.
Type join(Inference &infer, Type a, Type b) {
  auto ta = dyn_cast<RankedTensorType>(a), tb = dyn_cast<RankedTensorType>(b);
  if (a == b && (!ta || symbolNames(ta).empty()))
    return a;
  auto sequence = dyn_cast<SequenceType>(a), other = dyn_cast<SequenceType>(b);
  if (sequence && other)
    return SequenceType::get(a.getContext(),
                             joinElements(sequence.getElement(), other.getElement()));
  if (!isa<TensorType>(a) || !isa<TensorType>(b))
    return isa<NoneType>(a) ? b : a;
  if (!ta || !tb || ta.getRank() != tb.getRank())
    return UnrankedTensorType::get(getElementTypeOrSelf(a));
  Dims da = infer.shapes.dims(a), db = infer.shapes.dims(b);
  for (auto [x, y] : llvm::zip_equal(da, db))
    if (!infer.shapes.equal(x, y))
      x = infer.fresh("join");
  return infer.shapes.tensorType(ta.getElementType(), da);
}

Type elementOf(Type sequence) {
  if (auto type = dyn_cast<SequenceType>(sequence))
    return type.getElement();
  if (auto type = dyn_cast<OptionalType>(sequence))
    return type.getElement();
  return sequence;
}

/// A type of tensors of which only the element type is kept: the elements of a sequence may differ
/// in shape.
Type anyShape(Type type) {
  return isa<TensorType>(type) ? Type(UnrankedTensorType::get(getElementTypeOrSelf(type))) : type;
}

/// A tensor type of that rank, of which the sizes that are numbers are known, but for `axis`.
Type withOpenAxis(RankedTensorType type, int64_t axis) {
  SmallVector<int64_t> shape(type.getShape());
  if (axis >= 0 && axis < int64_t(shape.size()))
    shape[size_t(axis)] = ShapedType::kDynamic;
  return RankedTensorType::get(shape, type.getElementType());
}

/// How often a loop of so many trips runs, where that is an expression: none of a negative number.
AffineExpr iterations(AffineExpr trips) {
  if (auto constant = dyn_cast<AffineConstantExpr>(trips))
    return getAffineConstantExpr(std::max<int64_t>(constant.getValue(), 0), trips.getContext());
  bool isSize = true; // made of sizes without a difference
  trips.walk([&](AffineExpr part) {
    auto constant = dyn_cast<AffineConstantExpr>(part);
    isSize &= !constant || constant.getValue() >= 0;
  });
  return isSize ? trips : AffineExpr();
}

/// While a loop is imported, what is around it is in a region of no operation yet, which MLIR's own
/// function does not expect.
bool isInside(Region *region, Region &outer) {
  while (region && region != &outer) {
    Operation *parent = region->getParentOp();
    region = parent ? parent->getParentRegion() : nullptr;
  }
  return region == &outer;
}

/// The symbols that are known outside of the loop's body: those of what it reads from there.
llvm::DenseSet<AffineExpr> symbolsAround(ShapeContext &shapes, LoopOp loop) {
  llvm::SetVector<Value> read(loop->operand_begin(), loop->operand_end());
  loop.getBody().walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      if (!isInside(operand.getParentRegion(), loop.getBody()))
        read.insert(operand);
  });
  llvm::DenseSet<AffineExpr> symbols;
  auto collect = [&](ArrayRef<AffineExpr> expressions) {
    for (AffineExpr expression : expressions)
      expression.walk([&](AffineExpr part) {
        if (isa<AffineSymbolExpr>(part))
          symbols.insert(part);
      });
  };
  for (Value value : read) {
    if (isa<RankedTensorType>(value.getType()))
      collect(shapes.dims(value.getType()));
    if (auto contents = shapes.contents(value))
      collect(*contents);
  }
  return symbols;
}

/// Sizes of what the body gives, as the loop's results may have them: an expression over a size
/// that only the body knows is one of its own, which the result tells. (A size that the body names
/// is told by the result as well.)
void nameInnerSizes(Inference &infer, MutableArrayRef<AffineExpr> dims,
                    const llvm::DenseSet<AffineExpr> &around) {
  for (AffineExpr &dim : dims) {
    bool isInner = false;
    dim.walk(
        [&](AffineExpr part) { isInner |= isa<AffineSymbolExpr>(part) && !around.contains(part); });
    if (isInner && !isa<AffineSymbolExpr>(dim))
      dim = infer.fresh("scanned");
  }
}

LogicalResult give(SmallVectorImpl<Type> &results, Type type) {
  results.push_back(type);
  return success();
}

} // namespace

std::optional<int64_t> constantInteger(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  if (!constant || !getElementTypeOrSelf(constant.getType()).isIntOrIndex())
    return std::nullopt;
  auto tensor = hostTensor(constant.getValue());
  return tensor.ok() && tensor->size() == 1 ? std::optional(tensor->getInt(0)) : std::nullopt;
}

bool keepsTypes(LoopOp loop) {
  Block &body = loop.getBody().front();
  auto yielded = cast<YieldOp>(body.getTerminator()).getValues();
  size_t carried = loop.getCarried().size();
  if (body.getNumArguments() != 2 + carried || yielded.size() != 1 + loop.getNumResults() ||
      loop.getNumResults() < carried)
    return false;
  for (size_t i = 0; i < carried; ++i) {
    Type type = body.getArgument(2 + i).getType();
    if (loop.getCarried()[i].getType() != type || yielded[1 + i].getType() != type ||
        loop.getResult(i).getType() != type)
      return false;
  }
  return true;
}

bool neverStops(LoopOp loop) {
  Block &body = loop.getBody().front();
  auto yielded = cast<YieldOp>(body.getTerminator()).getValues();
  if (yielded.empty() || body.getNumArguments() < 2)
    return false;
  Value given = loop.getCondition();
  if (!isa<NoneType>(given.getType()) && constantInteger(given).value_or(0) == 0)
    return false;
  Value goesOn = yielded[0];
  return goesOn == body.getArgument(1) || constantInteger(goesOn).value_or(0);
}

LogicalResult IfOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  auto yes = cast<YieldOp>(getThenRegion().front().getTerminator()),
       no = cast<YieldOp>(getElseRegion().front().getTerminator());
  if (yes.getValues().size() != no.getValues().size())
    return infer.error() << "has branches of " << yes.getValues().size() << " and "
                         << no.getValues().size() << " results";
  for (auto [a, b] : llvm::zip_equal(yes.getValues().getTypes(), no.getValues().getTypes())) {
    if (isa<TensorType>(a) && isa<TensorType>(b) &&
        getElementTypeOrSelf(a) != getElementTypeOrSelf(b))
      return infer.error() << "has a result of " << a << " in one branch and " << b
                           << " in the other";
    results.push_back(join(infer, a, b));
  }
  return success();
}

LogicalResult LoopOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  Block &body = getBody().front();
  auto yield = cast<YieldOp>(body.getTerminator());
  size_t carried = getCarried().size();
  if (body.getNumArguments() != 2 + carried || yield.getValues().size() < 1 + carried)
    return infer.error() << "has a body of " << body.getNumArguments() << " arguments and "
                         << yield.getValues().size() << " results for " << carried
                         << " carried values";
  for (size_t i = 0; i < carried; ++i)
    results.push_back(join(infer, getCarried()[i].getType(), yield.getValues()[1 + i].getType()));
  auto trips = infer.contents(0);
  bool counted = trips && trips->size() == 1 && neverStops(*this);
  AffineExpr count = counted ? iterations(trips->front()) : AffineExpr();
  auto around = symbolsAround(shapes, *this);
  for (Value scanned : yield.getValues().drop_front(1 + carried)) {
    auto type = dyn_cast<RankedTensorType>(scanned.getType());
    if (!type) {
      results.push_back(scanned.getType());
      continue;
    }
    Dims dims = shapes.dims(type);
    nameInnerSizes(infer, dims, around);
    // A loop that may stop early runs no more often than it is told to; but that says little where
    // the limit is there only because there has to be one.
    constexpr int64_t kFew = 64;
    AffineExpr most = trips && trips->size() == 1 ? iterations(trips->front()) : AffineExpr();
    auto few = dyn_cast_or_null<AffineConstantExpr>(most);
    if (!few || few.getValue() > kFew)
      most = {};
    dims.insert(dims.begin(), count  ? count
                              : most ? freshAtMost(infer, "trips", most)
                                     : infer.fresh("trips"));
    if (failed(infer.give(type.getElementType(), dims)))
      return failure();
  }
  return success();
}

LogicalResult SequenceConstructOp::inferResults(ShapeContext &, SmallVectorImpl<Type> &results) {
  return give(results, SequenceType::get(getContext(), getElement()));
}
LogicalResult SequenceAtOp::inferResults(ShapeContext &, SmallVectorImpl<Type> &results) {
  return give(results, elementOf(getSequence().getType()));
}
LogicalResult SequenceInsertOp::inferResults(ShapeContext &, SmallVectorImpl<Type> &results) {
  Type both = joinElements(elementOf(getSequence().getType()), getElement().getType());
  return give(results, SequenceType::get(getContext(), both));
}
LogicalResult SequenceEraseOp::inferResults(ShapeContext &, SmallVectorImpl<Type> &results) {
  return give(results, getSequence().getType());
}
LogicalResult SequenceLengthOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return Inference(shapes, *this, results).give(IntegerType::get(getContext(), 64), {});
}
LogicalResult SplitToSequenceOp::inferResults(ShapeContext &shapes,
                                              SmallVectorImpl<Type> &results) {
  auto type = dyn_cast<RankedTensorType>(getX().getType());
  if (!type)
    return give(results, SequenceType::get(getContext(), anyShape(getX().getType())));
  auto axis = Inference(shapes, *this, results).axis(int64_t(getAxis()), type.getRank());
  if (failed(axis))
    return failure();
  Type element = withOpenAxis(type, *axis);
  if (!getKeepdims() && isa<NoneType>(getSplit().getType())) {
    SmallVector<int64_t> shape(type.getShape());
    shape.erase(shape.begin() + *axis);
    element = RankedTensorType::get(shape, type.getElementType());
  }
  return give(results, SequenceType::get(getContext(), element));
}
LogicalResult ConcatFromSequenceOp::inferResults(ShapeContext &shapes,
                                                 SmallVectorImpl<Type> &results) {
  auto element = dyn_cast<RankedTensorType>(elementOf(getSequence().getType()));
  if (!element)
    return give(results, anyShape(elementOf(getSequence().getType())));
  int64_t rank = element.getRank() + (getNewAxis() ? 1 : 0);
  auto axis = Inference(shapes, *this, results).axis(int64_t(getAxis()), rank);
  if (failed(axis))
    return failure();
  if (!getNewAxis())
    return give(results, withOpenAxis(element, *axis));
  SmallVector<int64_t> shape(element.getShape());
  shape.insert(shape.begin() + *axis, ShapedType::kDynamic);
  return give(results, RankedTensorType::get(shape, element.getElementType()));
}
LogicalResult SequenceZerosOp::inferResults(ShapeContext &, SmallVectorImpl<Type> &results) {
  return give(results, getValue().getType());
}
LogicalResult SequenceSumOp::inferResults(ShapeContext &, SmallVectorImpl<Type> &results) {
  return give(results, isa<NoneType>(getA().getType()) ? getB().getType() : getA().getType());
}
LogicalResult SequenceSizesOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  return infer.give(IntegerType::get(getContext(), 64), {infer.fresh("elements")});
}
LogicalResult ZipMapOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  Type key = infer.element(0);
  if (!key.isSignlessInteger(64) && !isa<StringType>(key))
    return infer.error() << "(Z1) has keys of " << key << ", not of i64 or strings";
  if (failed(infer.requireRank(0, 1, 1, "keys")))
    return failure();
  if (!isa<UnrankedTensorType>(getX().getType())) {
    if (failed(infer.requireRank(1, 1, 2, "x")))
      return failure();
    auto keys = infer.known(infer.dims(0)[0]), columns = infer.known(infer.dims(1).back());
    if (keys && columns && *keys != *columns)
      return infer.error() << "(Z2) has " << *keys << " keys for " << *columns << " columns";
  }
  return give(results,
              SequenceType::get(getContext(), MapType::get(getContext(), key, infer.element(1))));
}

namespace {

/// A vector of what a map holds; how many there are is only known when it runs.
LogicalResult giveEntries(Inference &infer, Type map, bool areKeys) {
  auto type = dyn_cast<MapType>(map);
  if (!type)
    return infer.error() << "(Z3) its operand is " << map << ", no map";
  return infer.give(areKeys ? type.getKey() : type.getValue(), {infer.fresh("entries")});
}

} // namespace

LogicalResult MapKeysOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  auto map = dyn_cast<MapType>(getMap().getType());
  if (map && isa<StringType>(map.getKey()) != getStrings())
    return infer.error() << "(Z4) has keys of " << map.getKey() << ", and says otherwise";
  return giveEntries(infer, getMap().getType(), true);
}
LogicalResult MapValuesOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  return giveEntries(infer, getMap().getType(), false);
}
LogicalResult OptionalOp::inferResults(ShapeContext &, SmallVectorImpl<Type> &results) {
  return give(results, OptionalType::get(getContext(), getValue().getType()));
}
LogicalResult OptionalHasElementOp::inferResults(ShapeContext &shapes,
                                                 SmallVectorImpl<Type> &results) {
  return Inference(shapes, *this, results).give(IntegerType::get(getContext(), 1), {});
}
LogicalResult OptionalGetElementOp::inferResults(ShapeContext &, SmallVectorImpl<Type> &results) {
  Type type = getValue().getType();
  return give(results, isa<OptionalType>(type) ? elementOf(type) : type);
}

} // namespace tensmith::graph

// Bounds by the shape functions, carried through sums and products; see SizeBounds.h.
#include "compiler/vm/SizeBounds.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/UpperBounds.h"
#include "compiler/vm/MemoryPlan.h"

#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;

namespace tensmith::vm {
namespace {

constexpr int64_t kAlignment = 64;

bool hasNegative(AffineExpr size) {
  return size
      .walk([](AffineExpr part) {
        auto constant = dyn_cast<AffineConstantExpr>(part);
        return constant && constant.getValue() < 0 ? WalkResult::interrupt()
                                                   : WalkResult::advance();
      })
      .wasInterrupted();
}

} // namespace

void SizeBounds::begin() {
  for (StringAttr name : expressions_.knownSymbols())
    entry_.insert(name);
}

bool SizeBounds::isExact(RankedTensorType type) const {
  return expressions_.known(type) && llvm::all_of(graph::symbolNames(type), [&](StringAttr name) {
           return entry_.contains(name);
         });
}

/// Of an expression that grows with each symbol that has a bound only: the expression of the
/// bounds. A size is never negative, though its bound may be where operands are empty.
std::optional<uint32_t> SizeBounds::atMost(AffineExpr size, ArrayRef<StringAttr> names) {
  if (!graph::ShapeContext::isExact(size))
    return std::nullopt;
  bool exact = true, bounded = true, grows = true;
  SmallVector<AffineExpr> parts;
  size.walk([&](AffineExpr part) {
    if (auto symbol = dyn_cast<AffineSymbolExpr>(part)) {
      StringAttr name = names[symbol.getPosition()];
      exact &= entry_.contains(name);
      bounded &= entry_.contains(name) || bounds_.contains(name);
    } else if (auto pair = dyn_cast<AffineBinaryOpExpr>(part)) {
      bool divides = pair.getKind() != AffineExprKind::Add && pair.getKind() != AffineExprKind::Mul;
      grows &= pair.getKind() != AffineExprKind::Mod &&
               (!divides || isa<AffineConstantExpr>(pair.getRHS()));
    }
  });
  bool isSum = !hasNegative(size);
  if (!bounded || !(exact || (grows && isSum)))
    return std::nullopt;
  uint32_t most = expressions_.affine(size, names, [&](StringAttr name) {
    auto bound = bounds_.find(name);
    return bound == bounds_.end() ? expressions_.symbol(name) : bound->second;
  });
  return isSum ? most : expressions_.binary(plan::ExprKind::Max, most, expressions_.constant(0));
}

bool SizeBounds::learn(Operation *op) {
  auto shapeFunction = dyn_cast<graph::ShapeFunction>(op);
  if (!shapeFunction)
    return false;
  graph::ShapeContext shapes(op->getContext());
  graph::UpperBounds told;
  SmallVector<Type> types;
  if (failed(shapeFunction.inferResults(shapes, types)))
    return false;
  bool any = false;
  for (auto [result, type] : llvm::zip_equal(op->getResults(), types)) {
    auto own = dyn_cast<RankedTensorType>(result.getType());
    auto inferred = dyn_cast<RankedTensorType>(type);
    if (!own || !inferred || own.getRank() != inferred.getRank())
      continue;
    SmallVector<AffineExpr> sizes = shapes.dims(inferred);
    for (int64_t dim = 0; dim < own.getRank(); ++dim) {
      auto symbol = dyn_cast_or_null<AffineSymbolExpr>(graph::dimExpression(own, dim));
      AffineExpr most = told.of(sizes[dim]);
      if (!symbol || !most)
        continue;
      StringAttr name = graph::symbolNames(own)[symbol.getPosition()];
      auto bound = atMost(most, shapes.symbols());
      if (!bound || expressions_.known(name))
        continue;
      bounds_[name] = *bound;
      any = true;
    }
  }
  return any;
}

std::optional<uint32_t> SizeBounds::elementsAtMost(Type type) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked || graph::dataType(ranked.getElementType()) == DataType::String)
    return std::nullopt;
  uint32_t elements = expressions_.constant(1);
  for (int64_t dim = 0; dim < ranked.getRank(); ++dim) {
    AffineExpr size = graph::dimExpression(ranked, dim);
    auto names = graph::symbolNames(ranked);
    auto most = !size             ? std::nullopt
                : isExact(ranked) ? std::optional(expressions_.affine(size, names))
                                  : atMost(size, names);
    if (!most)
      return std::nullopt;
    elements = expressions_.binary(plan::ExprKind::Mul, elements, *most);
  }
  return elements;
}

std::optional<uint32_t> SizeBounds::bytes(Type type) {
  auto elements = elementsAtMost(type);
  if (!elements)
    return std::nullopt;
  uint32_t element = expressions_.constant(byteSize(graph::dataType(getElementTypeOrSelf(type))));
  return expressions_.binary(plan::ExprKind::Mul, element, *elements);
}

/// Of those that the operator is given, or uses in its regions, the largest's.
int64_t SizeBounds::exactBytesBehind(Operation *op) {
  llvm::SetVector<Value> values(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), values);
  int64_t largest = 0;
  for (Value value : values)
    largest = std::max(largest, exactBytes(value));
  return largest;
}

/// Those of the value where its size is exact, and else of the largest exact one that it is
/// computed from: bounds of bounds are held against what there surely is.
int64_t SizeBounds::exactBytes(Value value) {
  if (auto known = exactBytes_.find(value); known != exactBytes_.end())
    return known->second;
  int64_t largest = 0;
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (type && isExact(type)) {
    if (auto own = bytes(type))
      largest = expressions_.estimate(*own);
  } else if (Operation *op = value.getDefiningOp()) {
    largest = exactBytesBehind(op);
  }
  return exactBytes_[value] = largest;
}

bool SizeBounds::isWorthwhile(Operation *op, uint32_t bytes) {
  int64_t largest = std::max(kAlignment, exactBytesBehind(op));
  return expressions_.estimate(bytes) / kMostOfOperand <= largest;
}

std::optional<uint32_t> SizeBounds::bytesAtMost(Value result) {
  auto own = bytes(result.getType());
  if (!own)
    return std::nullopt;
  bool exact = isExact(cast<RankedTensorType>(result.getType()));
  if (!exact && !isWorthwhile(result.getDefiningOp(), *own))
    return std::nullopt;
  uint32_t unit = expressions_.constant(kAlignment);
  uint32_t aligned = expressions_.binary(
      plan::ExprKind::Mul, expressions_.binary(plan::ExprKind::CeilDiv, *own, unit), unit);
  return exact ? aligned : upToMost(aligned);
}

/// The bytes of a bound, or none of them where they are more than `kMostBytes`: the remainder by
/// the next multiple that is more.
std::optional<uint32_t> SizeBounds::upToMost(uint32_t bytes) {
  if (expressions_.isConstant(bytes))
    return expressions_.constantValue(bytes) <= kMostBytes ? std::optional(bytes) : std::nullopt;
  uint32_t more = expressions_.constant(kMostBytes + kAlignment);
  uint32_t least = expressions_.binary(plan::ExprKind::Min, bytes, more);
  return expressions_.binary(plan::ExprKind::Mod, least, more);
}

} // namespace tensmith::vm

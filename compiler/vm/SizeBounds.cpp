// Bounds by the shape functions, carried through sums and products; see SizeBounds.h.
#include "compiler/vm/SizeBounds.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/UpperBounds.h"
#include "compiler/vm/MemoryPlan.h"

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

bool SizeBounds::isWorthwhile(Operation *op, uint32_t elements) {
  int64_t largest = 1;
  for (Type type : op->getOperandTypes())
    if (auto operand = elementsAtMost(type))
      largest = std::max(largest, expressions_.estimate(*operand, kSymbolHint));
  return expressions_.estimate(elements, kSymbolHint) / kMostOfOperand <= largest;
}

std::optional<uint32_t> SizeBounds::bytesAtMost(Value result) {
  auto type = dyn_cast<RankedTensorType>(result.getType());
  auto elements = elementsAtMost(result.getType());
  if (!elements || (!isExact(type) && !isWorthwhile(result.getDefiningOp(), *elements)))
    return std::nullopt;
  uint32_t element = expressions_.constant(byteSize(graph::dataType(type.getElementType())));
  uint32_t bytes = expressions_.binary(plan::ExprKind::Mul, element, *elements);
  uint32_t unit = expressions_.constant(kAlignment);
  return expressions_.binary(plan::ExprKind::Mul,
                             expressions_.binary(plan::ExprKind::CeilDiv, bytes, unit), unit);
}

} // namespace tensmith::vm

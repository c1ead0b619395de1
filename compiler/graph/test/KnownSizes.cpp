// Conditions at known sizes; see KnownSizes.h.
#include "compiler/graph/test/KnownSizes.h"

#include "compiler/graph/Shape.h"
#include "compiler/graph/SizeTerms.h"

using namespace mlir;

namespace tensmith::graph {

using Relation = Condition::Relation;

std::optional<int64_t> valueAt(AffineExpr expression, ArrayRef<std::optional<int64_t>> symbols) {
  if (auto constant = constantOf(expression))
    return constant;
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expression)) {
    assert(symbol.getPosition() < symbols.size());
    return symbols[symbol.getPosition()];
  }
  assert(!isa<AffineDimExpr>(expression));
  auto binary = cast<AffineBinaryOpExpr>(expression);
  auto a = valueAt(binary.getLHS(), symbols), b = valueAt(binary.getRHS(), symbols);
  if (binary.getKind() == AffineExprKind::Add)
    return checkedSum(a, b);
  if (binary.getKind() == AffineExprKind::Mul)
    return checkedProduct(a, b);
  if (!a || !b || *b <= 0)
    return std::nullopt;
  int64_t rounded = floorDiv(*a, *b), rest = *a - rounded * *b;
  if (binary.getKind() == AffineExprKind::Mod)
    return rest;
  return binary.getKind() == AffineExprKind::CeilDiv ? rounded + (rest > 0) : rounded;
}

std::optional<bool> holdsAt(const Condition &condition, ArrayRef<std::optional<int64_t>> symbols) {
  if (condition.unlessZero && valueAt(condition.unlessZero, symbols) == 0)
    return true;
  auto a = valueAt(condition.a, symbols), b = valueAt(condition.b, symbols);
  if (!a || !b)
    return std::nullopt;
  switch (condition.relation) {
  case Relation::Equal:
    return *a == *b;
  case Relation::AtMost:
    return *a <= *b;
  case Relation::EqualOrOne:
    return *a == *b || *a == 1;
  case Relation::Broadcast:
    return *a == *b || *a == 1 || *b == 1;
  }
  return std::nullopt;
}

} // namespace tensmith::graph

// How types are shown in messages and schedules; see TypeText.h.
#include "compiler/graph/TypeText.h"

#include "base/SizeText.h"
#include "compiler/graph/Shape.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

SizeText dimText(AffineExpr expression, ArrayRef<StringAttr> names) {
  if (!expression)
    return {SizeText::Atom, "?"};
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expression))
    return {SizeText::Atom, names[symbol.getPosition()].getValue().starts_with(kUnknownSize)
                                ? "?"
                                : names[symbol.getPosition()].str()};
  if (auto constant = dyn_cast<AffineConstantExpr>(expression))
    return {SizeText::Atom, std::to_string(constant.getValue())};
  auto pair = cast<AffineBinaryOpExpr>(expression);
  SizeText a = dimText(pair.getLHS(), names), b = dimText(pair.getRHS(), names);
  switch (pair.getKind()) {
  case AffineExprKind::Add:
    return size_text::sum(a, b);
  case AffineExprKind::Mul:
    return size_text::product(a, b);
  case AffineExprKind::FloorDiv:
    return size_text::quotient(a, '/', b);
  case AffineExprKind::CeilDiv:
    return size_text::ceilQuotient(a, b);
  default:
    return size_text::quotient(a, '%', b);
  }
}

} // namespace

std::string dimText(RankedTensorType type, unsigned dim) {
  return dimText(dimExpression(type, dim), symbolNames(type)).text;
}

std::string typeText(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return "-";
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (unsigned dim = 0; dim < tensor.getRank(); ++dim)
    stream << (dim ? "x" : "") << dimText(tensor, dim);
  stream << ':' << tensor.getElementType();
  return text;
}

} // namespace tensmith::graph

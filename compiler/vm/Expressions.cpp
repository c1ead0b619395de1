// Expressions of a plan's function; see Expressions.h.
#include "compiler/vm/Expressions.h"

#include "compiler/graph/OpenSize.h"
#include "compiler/graph/Shape.h"

using namespace mlir;

namespace tensmith::vm {

uint32_t Expressions::add(plan::ExprKind kind, int64_t a, int32_t b) {
  auto [it, isNew] = expressions_.try_emplace({int(kind), a, b}, function_.exprs.size());
  if (isNew)
    function_.exprs.emplace_back(a, b, kind);
  return it->second;
}

uint32_t Expressions::symbol(StringAttr name) {
  auto [it, isNew] = symbols_.try_emplace(name, function_.symbols.size());
  if (isNew)
    function_.symbols.push_back(name.str());
  return add(plan::ExprKind::Symbol, it->second, 0);
}

uint32_t Expressions::freshSymbol() {
  auto number = int64_t(function_.symbols.size());
  function_.symbols.push_back("unknown." + std::to_string(number));
  return add(plan::ExprKind::Symbol, number, 0);
}

std::vector<uint32_t> Expressions::places(const std::vector<plan::ArenaBuffer> &buffers) {
  function_.buffers = buffers;
  function_.first_place = uint32_t(function_.symbols.size());
  std::vector<uint32_t> result;
  for (size_t i = 0; i <= buffers.size(); ++i) {
    result.push_back(add(plan::ExprKind::Symbol, int64_t(function_.symbols.size()), 0));
    function_.symbols.push_back(i < buffers.size() ? "place" : "arena");
  }
  return result;
}

uint32_t Expressions::binary(plan::ExprKind kind, uint32_t a, uint32_t b) {
  if (isConstant(a) && isConstant(b)) {
    int64_t x = constantValue(a), y = constantValue(b), result;
    if (kind == plan::ExprKind::Add && !__builtin_add_overflow(x, y, &result))
      return constant(result);
    if (kind == plan::ExprKind::Mul && !__builtin_mul_overflow(x, y, &result))
      return constant(result);
    if (kind == plan::ExprKind::Max)
      return constant(std::max(x, y));
    if (kind == plan::ExprKind::CeilDiv && y > 0 && !__builtin_add_overflow(x, y - 1, &result))
      return constant(result / y);
  }
  return add(kind, a, int32_t(b));
}

uint32_t Expressions::affine(AffineExpr expression, ArrayRef<StringAttr> names) {
  return affine(expression, names, [&](StringAttr name) { return symbol(name); });
}

uint32_t Expressions::affine(AffineExpr expression, ArrayRef<StringAttr> names,
                             llvm::function_ref<uint32_t(StringAttr)> valueOf) {
  if (auto value = dyn_cast<AffineConstantExpr>(expression))
    return constant(value.getValue());
  if (auto value = dyn_cast<AffineSymbolExpr>(expression))
    return valueOf(names[value.getPosition()]);
  auto pair = cast<AffineBinaryOpExpr>(expression);
  uint32_t a = affine(pair.getLHS(), names, valueOf), b = affine(pair.getRHS(), names, valueOf);
  switch (pair.getKind()) {
  case AffineExprKind::Add:
    return binary(plan::ExprKind::Add, a, b);
  case AffineExprKind::Mul:
    return binary(plan::ExprKind::Mul, a, b);
  case AffineExprKind::FloorDiv:
    return binary(plan::ExprKind::FloorDiv, a, b);
  case AffineExprKind::CeilDiv:
    return binary(plan::ExprKind::CeilDiv, a, b);
  default:
    return binary(plan::ExprKind::Mod, a, b);
  }
}

std::vector<uint32_t> Expressions::dims(RankedTensorType type) {
  std::vector<uint32_t> result;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    AffineExpr expression = graph::dimExpression(type, dim);
    // What no symbol is known of, and what is only used in an expression, is learnt when the value
    // is computed.
    bool learnt = !expression;
    if (expression && !isa<AffineSymbolExpr>(expression))
      expression.walk([&](AffineExpr part) {
        if (auto symbol = dyn_cast<AffineSymbolExpr>(part))
          learnt |= !known(graph::symbolNames(type)[symbol.getPosition()]);
      });
    result.push_back(learnt ? freshSymbol() : affine(expression, graph::symbolNames(type)));
  }
  return result;
}

void Expressions::bind(RankedTensorType type) {
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (auto symbol = dyn_cast_or_null<AffineSymbolExpr>(graph::dimExpression(type, dim)))
      known_.insert(graph::symbolNames(type)[symbol.getPosition()]);
}

bool Expressions::known(RankedTensorType type) const {
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (!graph::dimExpression(type, dim))
      return false;
  return llvm::all_of(graph::symbolNames(type),
                      [&](StringAttr name) { return known_.contains(name); });
}

int64_t Expressions::estimate(uint32_t expression) const {
  const plan::Expr &expr = function_.exprs[expression];
  if (expr.kind() == plan::ExprKind::Constant)
    return expr.a();
  if (expr.kind() == plan::ExprKind::Symbol)
    return graph::kOpenSize;
  double a = estimate(expr.a()), b = estimate(expr.b()), result = 0;
  switch (expr.kind()) {
  case plan::ExprKind::Add:
    result = a + b;
    break;
  case plan::ExprKind::Mul:
    result = a * b;
    break;
  case plan::ExprKind::FloorDiv:
    result = b ? std::floor(a / b) : 0;
    break;
  case plan::ExprKind::CeilDiv:
    result = b ? std::ceil(a / b) : 0;
    break;
  case plan::ExprKind::Mod:
    result = b ? a - std::floor(a / b) * b : 0;
    break;
  case plan::ExprKind::Max:
    result = std::max(a, b);
    break;
  default:
    result = std::min(a, b);
  }
  return int64_t(std::clamp(result, 0.0, 1e15));
}

} // namespace tensmith::vm

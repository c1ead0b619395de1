// Index arithmetic; see IndexMath.h.
#include "compiler/kernel/IndexMath.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tensmith::kernel {

std::optional<int64_t> constantIndex(Value value) {
  llvm::APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue();
  return std::nullopt;
}

/// x, of a = x / n * n and b = x % n; null: of others.
static Value dividend(Value a, Value b) {
  auto rest = b.getDefiningOp<arith::RemUIOp>();
  auto product = a.getDefiningOp<arith::MulIOp>();
  auto quotient = product ? product.getLhs().getDefiningOp<arith::DivUIOp>() : arith::DivUIOp();
  if (!rest || !quotient || quotient.getLhs() != rest.getLhs())
    return {};
  auto isSame = [n = rest.getRhs()](Value other) {
    auto constant = constantIndex(n);
    return other == n || (constant && constant == constantIndex(other));
  };
  return isSame(quotient.getRhs()) && isSame(product.getRhs()) ? rest.getLhs() : Value();
}

Value IndexMath::constant(int64_t value) {
  return builder.create<arith::ConstantIndexOp>(location, value);
}
Value IndexMath::add(Value a, Value b) {
  auto ca = constantIndex(a), cb = constantIndex(b);
  if (ca && cb)
    return constant(*ca + *cb);
  if (ca && *ca == 0)
    return b;
  if (cb && *cb == 0)
    return a;
  if (Value whole = dividend(a, b)) // an offset that was taken apart to indices
    return whole;
  return builder.create<arith::AddIOp>(location, a, b);
}
Value IndexMath::sub(Value a, Value b) {
  auto ca = constantIndex(a), cb = constantIndex(b);
  if (ca && cb)
    return constant(*ca - *cb);
  if (cb && *cb == 0)
    return a;
  return builder.create<arith::SubIOp>(location, a, b);
}
Value IndexMath::mul(Value a, Value b) {
  auto ca = constantIndex(a), cb = constantIndex(b);
  if (ca && cb)
    return constant(*ca * *cb);
  if ((ca && *ca == 0) || (cb && *cb == 1))
    return a;
  if ((cb && *cb == 0) || (ca && *ca == 1))
    return b;
  return builder.create<arith::MulIOp>(location, a, b);
}
Value IndexMath::div(Value a, Value b) {
  auto ca = constantIndex(a), cb = constantIndex(b);
  if (ca && cb && *cb > 0)
    return constant(*ca / *cb);
  if (cb && *cb == 1)
    return a;
  return builder.create<arith::DivUIOp>(location, a, b);
}
Value IndexMath::rem(Value a, Value b) {
  auto ca = constantIndex(a), cb = constantIndex(b);
  if (ca && cb && *cb > 0)
    return constant(*ca % *cb);
  if (cb && *cb == 1)
    return constant(0);
  return builder.create<arith::RemUIOp>(location, a, b);
}
Value IndexMath::ceilDiv(Value a, Value b) { return div(add(a, sub(b, constant(1))), b); }
Value IndexMath::min(Value a, Value b) {
  auto ca = constantIndex(a), cb = constantIndex(b);
  if (ca && cb)
    return constant(std::min(*ca, *cb));
  return builder.create<arith::MinUIOp>(location, a, b);
}
Value IndexMath::max(Value a, Value b) {
  auto ca = constantIndex(a), cb = constantIndex(b);
  if (ca && cb)
    return constant(std::max(*ca, *cb));
  return builder.create<arith::MaxUIOp>(location, a, b);
}
Value IndexMath::less(Value a, Value b) {
  return builder.createOrFold<arith::CmpIOp>(location, arith::CmpIPredicate::ult, a, b);
}
Value IndexMath::select(Value condition, Value a, Value b) {
  return builder.createOrFold<arith::SelectOp>(location, condition, a, b);
}
Value IndexMath::toI64(Value index) {
  return builder.createOrFold<arith::IndexCastOp>(location, builder.getI64Type(), index);
}
Value IndexMath::product(ValueRange values) {
  Value result = constant(1);
  for (Value value : values)
    result = mul(result, value);
  return result;
}

Value IndexMath::linear(ValueRange indices, ValueRange sizes) {
  assert(indices.size() == sizes.size());
  Value offset = constant(0);
  for (auto [index, size] : llvm::zip_equal(indices, sizes))
    offset = add(mul(offset, size), index);
  return offset;
}

SmallVector<Value> IndexMath::delinear(Value offset, ValueRange sizes) {
  // Of dimensions in front that have one place, nothing is left to divide.
  auto isOne = [](Value size) { return size && constantIndex(size) == 1; };
  size_t first = 0;
  while (first + 1 < sizes.size() && isOne(sizes[first]))
    ++first;
  SmallVector<Value> indices(sizes.size());
  for (size_t dim = 0; dim < first; ++dim)
    indices[dim] = constant(0);
  for (size_t dim = sizes.size(); dim-- > first;) {
    indices[dim] = dim == first ? offset : rem(offset, sizes[dim]);
    if (dim != first)
      offset = div(offset, sizes[dim]);
  }
  return indices;
}

namespace {
/// a / b rounded down, of an a that may be negative (s0 - 1 of no elements).
Value floorDiv(IndexMath &math, Value a, Value b) {
  auto &builder = math.builder;
  Value quotient = builder.create<arith::DivSIOp>(math.location, a, b);
  Value rest = math.sub(a, math.mul(quotient, b));
  Value below = builder.create<arith::CmpIOp>(math.location, arith::CmpIPredicate::slt, rest,
                                              math.constant(0));
  return math.sub(quotient, math.select(below, math.constant(1), math.constant(0)));
}

} // namespace

/// Sums may have negative terms on the way (s0 - 1), and so may what is divided.
Value sizeValue(IndexMath &math, const SizeValues &sizes, ArrayRef<StringAttr> names,
                AffineExpr expression) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expression))
    return math.constant(constant.getValue());
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expression)) {
    Value value = sizes.lookup(names[symbol.getPosition()]);
    assert(value && "a symbol that the kernel does not take");
    return value;
  }
  auto binary = cast<AffineBinaryOpExpr>(expression);
  Value a = sizeValue(math, sizes, names, binary.getLHS());
  Value b = sizeValue(math, sizes, names, binary.getRHS());
  auto isSize = [&] {
    return graph::SizeFacts().decide(graph::Condition::Relation::AtMost,
                                     getAffineConstantExpr(0, expression.getContext()),
                                     binary.getLHS()) == true;
  };
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    return math.add(a, b);
  case AffineExprKind::Mul:
    return math.mul(a, b);
  case AffineExprKind::FloorDiv:
    return isSize() ? math.div(a, b) : floorDiv(math, a, b);
  case AffineExprKind::CeilDiv:
    return isSize() ? math.ceilDiv(a, b)
                    : floorDiv(math, math.add(a, math.sub(b, math.constant(1))), b);
  case AffineExprKind::Mod:
    return isSize() ? math.rem(a, b) : math.sub(a, math.mul(floorDiv(math, a, b), b));
  default:
    llvm_unreachable("no other binary expressions");
  }
}

Value dimValue(IndexMath &math, const SizeValues &sizes, RankedTensorType type, unsigned dim) {
  if (!type.isDynamicDim(dim))
    return math.constant(type.getDimSize(dim));
  return sizeValue(math, sizes, graph::symbolNames(type), graph::dimExpression(type, dim));
}

SmallVector<Value> dimValues(IndexMath &math, const SizeValues &sizes, Type type) {
  auto ranked = cast<RankedTensorType>(type);
  SmallVector<Value> values;
  for (int64_t dim = 0; dim < ranked.getRank(); ++dim)
    values.push_back(dimValue(math, sizes, ranked, dim));
  return values;
}

} // namespace tensmith::kernel

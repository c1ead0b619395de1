// Terms of sums, quotients and multiples; see SizeTerms.h.
#include "compiler/graph/SizeTerms.h"

#include "compiler/graph/Shape.h"

#include <cstdlib>
#include <numeric>

using namespace mlir;

namespace tensmith::graph {

std::optional<int64_t> checkedSum(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t result;
  return a && b && !__builtin_add_overflow(*a, *b, &result) ? std::optional(result) : std::nullopt;
}

std::optional<int64_t> checkedProduct(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t result;
  return a && b && !__builtin_mul_overflow(*a, *b, &result) ? std::optional(result) : std::nullopt;
}

std::optional<Quotient> quotientOf(AffineExpr expression) {
  auto binary = dyn_cast<AffineBinaryOpExpr>(expression);
  if (!binary || binary.getKind() != AffineExprKind::FloorDiv)
    return std::nullopt;
  auto divisor = constantOf(binary.getRHS());
  return divisor && *divisor > 0 ? std::optional(Quotient{binary, *divisor}) : std::nullopt;
}

int64_t Linear::bound() const {
  return times > 0 ? -floorDiv(constant, times) : floorDiv(constant, -times);
}

std::optional<int64_t> Linear::root() const {
  return constant % times == 0 ? std::optional(-constant / times) : std::nullopt;
}

std::optional<Linear> linearOf(AffineExpr expression) {
  // A number whose negative is none, or that has come of an overflow, says nothing.
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  Linear linear;
  auto sum = dyn_cast<AffineBinaryOpExpr>(expression);
  if (sum && sum.getKind() == AffineExprKind::Add) {
    auto constant = constantOf(sum.getRHS());
    if (!constant)
      return std::nullopt;
    linear.constant = *constant;
    expression = sum.getLHS();
  }
  auto product = dyn_cast<AffineBinaryOpExpr>(expression);
  if (product && product.getKind() == AffineExprKind::Mul) {
    linear.times = constantOf(product.getRHS()).value_or(0);
    expression = product.getLHS();
  }
  linear.part = expression;
  bool isExact =
      linear.times && std::abs(linear.times) < kLargest && std::abs(linear.constant) < kLargest;
  return isExact && (linear.isOfSymbol() || quotientOf(expression)) ? std::optional(linear)
                                                                    : std::nullopt;
}

namespace {

/// The constant term of a sum, and what divides the coefficients of all others.
struct Remainder {
  int64_t constant = 0, divisor = 0;

  void add(AffineExpr expression) {
    auto binary = dyn_cast<AffineBinaryOpExpr>(expression);
    if (auto number = constantOf(expression)) {
      constant = checkedSum(constant, number).value_or(0);
    } else if (binary && binary.getKind() == AffineExprKind::Add) {
      add(binary.getLHS());
      add(binary.getRHS());
    } else {
      bool isProduct = binary && binary.getKind() == AffineExprKind::Mul;
      divisor = std::gcd(divisor, isProduct ? constantOf(binary.getRHS()).value_or(1) : int64_t(1));
    }
  }
};

/// A term k * (p floordiv d) of a sum.
struct QuotientTerm {
  Quotient quotient;
  int64_t times;
};

/// The first term whose k is negative; `any`: the first of all.
std::optional<QuotientTerm> quotientTerm(AffineExpr expression, bool any) {
  auto binary = dyn_cast<AffineBinaryOpExpr>(expression);
  if (!binary)
    return std::nullopt;
  if (binary.getKind() == AffineExprKind::Add) {
    auto found = quotientTerm(binary.getLHS(), any);
    return found ? found : quotientTerm(binary.getRHS(), any);
  }
  bool isProduct = binary.getKind() == AffineExprKind::Mul;
  auto times = isProduct ? constantOf(binary.getRHS()) : std::optional<int64_t>(1);
  auto quotient = quotientOf(isProduct ? binary.getLHS() : expression);
  return times && quotient && (any || *times < 0) ? std::optional(QuotientTerm{*quotient, *times})
                                                  : std::nullopt;
}

/// d times the expression with a bound of the quotient in its place: of (p - (d - 1)) / d <= p
/// floordiv d <= p / d the one that makes it more (`above`) or less. Null where a coefficient might
/// overflow; `factor` is multiplied by d.
AffineExpr withBound(AffineExpr expression, const QuotientTerm &term, bool above, int64_t &factor) {
  constexpr int64_t kLargest = int64_t(1) << 20;
  auto [quotient, times] = term;
  if (quotient.divisor > kLargest / factor || std::abs(times) > kLargest)
    return {};
  factor *= quotient.divisor;
  bool isMost = (times > 0) == above;
  AffineExpr bound = quotient.numerator() - (isMost ? 0 : quotient.divisor - 1);
  return ShapeContext(expression.getContext())
      .simplify((expression - quotient.whole * times) * quotient.divisor + bound * times);
}

} // namespace

bool isNeverZero(AffineExpr difference) {
  Remainder remainder;
  remainder.add(difference);
  return remainder.divisor > 1 && remainder.constant % remainder.divisor != 0;
}

AffineExpr withoutQuotients(AffineExpr expression, bool any,
                            llvm::function_ref<bool(AffineExpr)> isEnough) {
  for (int64_t factor = 1; auto found = quotientTerm(expression, any);) {
    if (isEnough(expression))
      break;
    AffineExpr less = withBound(expression, *found, /*above=*/false, factor);
    if (!less)
      break;
    expression = less;
  }
  return expression;
}

AffineExpr boundWithoutQuotient(AffineExpr expression) {
  auto found = quotientTerm(expression, /*any=*/true);
  int64_t factor = 1;
  return found ? withBound(expression, *found, /*above=*/true, factor) : AffineExpr();
}

AffineExpr nestedQuotients(AffineExpr expression, llvm::function_ref<bool(AffineExpr)> isSize) {
  constexpr unsigned kMostLevels = 8, kBehindParts = 3u << 29;
  ShapeContext shapes(expression.getContext());
  for (unsigned level = 0; level < kMostLevels; ++level) {
    SmallVector<Quotient> quotients;
    expression.walk([&](AffineExpr part) {
      if (auto quotient = quotientOf(part))
        quotients.push_back(*quotient);
    });
    AffineExpr symbol = getAffineSymbolExpr(kBehindParts + level, expression.getContext());
    DenseMap<AffineExpr, AffineExpr> replacements;
    for (const Quotient &inner : quotients) {
      for (const Quotient &outer : quotients) {
        if (outer.divisor <= inner.divisor || outer.divisor % inner.divisor != 0)
          continue;
        auto more = constantOf(shapes.simplify(outer.whole.getLHS() - inner.whole.getLHS()));
        if (more && *more % inner.divisor == 0)
          replacements[outer.whole] =
              (symbol + *more / inner.divisor).floorDiv(outer.divisor / inner.divisor);
      }
      if (!replacements.empty() && isSize(inner.whole)) {
        replacements[inner.whole] = symbol;
        break;
      }
      replacements.clear();
    }
    if (replacements.empty())
      break;
    expression = shapes.simplify(expression.replace(replacements));
  }
  return expression;
}

AffineExpr multipleOf(AffineSymbolExpr symbol, AffineExpr product) {
  auto binary = dyn_cast<AffineBinaryOpExpr>(product);
  if (!binary || binary.getKind() != AffineExprKind::Mul)
    return {};
  for (auto [part, other] :
       {std::pair(binary.getLHS(), binary.getRHS()), std::pair(binary.getRHS(), binary.getLHS())}) {
    auto quotient = dyn_cast<AffineBinaryOpExpr>(part);
    bool isSize = constantOf(other).value_or(0) > 0 || isa<AffineSymbolExpr>(other);
    if (quotient && quotient.getKind() == AffineExprKind::FloorDiv && quotient.getLHS() == symbol &&
        quotient.getRHS() == other && isSize && other != symbol)
      return other;
  }
  return {};
}

} // namespace tensmith::graph

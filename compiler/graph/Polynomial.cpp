// Addition, multiplication and division of the normal form of sizes; see Polynomial.h.
#include "compiler/graph/Polynomial.h"

#include "compiler/graph/NormalForms.h"

#include "mlir/IR/BuiltinTypes.h"

#include <numeric>

using namespace mlir;

namespace tensmith::graph {

/// The largest number where it overflows.
static int64_t productOf(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

std::string textOf(AffineExpr expression) {
  std::string result;
  llvm::raw_string_ostream stream(result);
  expression.print(stream);
  return result;
}

bool atomLess(AffineExpr a, AffineExpr b) {
  auto sa = dyn_cast<AffineSymbolExpr>(a), sb = dyn_cast<AffineSymbolExpr>(b);
  if (sa && sb)
    return sa.getPosition() < sb.getPosition();
  if (sa || sb)
    return bool(sa);
  if (a == b)
    return false;
  NormalForms *forms = NormalForms::of(a.getContext());
  return forms ? forms->text(a) < forms->text(b) : textOf(a) < textOf(b);
}

bool MonomialLess::operator()(const Monomial &a, const Monomial &b) const {
  if (a.size() != b.size())
    return a.size() > b.size();
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), atomLess);
}

AffineExpr Polynomial::normal(AffineExpr size) {
  auto compute = [](AffineExpr each) { return of(each).expression(); };
  // A symbol, or a number, is made as quickly as it is found.
  NormalForms *forms = isa<AffineBinaryOpExpr>(size) ? NormalForms::of(size.getContext()) : nullptr;
  return forms ? forms->whole(size, compute) : compute(size);
}

Polynomial Polynomial::of(AffineExpr expression) {
  MLIRContext *context = expression.getContext();
  Polynomial result(context);
  if (auto constant = dyn_cast<AffineConstantExpr>(expression)) {
    result.add({}, std::max(constant.getValue(), -std::numeric_limits<int64_t>::max()));
    return result;
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expression);
  if (!binary)
    return ofAtom(expression);
  if (binary.getKind() == AffineExprKind::Mul) {
    SmallVector<Polynomial> factors;
    appendFactors(expression, factors);
    return product(factors, context);
  }
  if (binary.getKind() == AffineExprKind::Add) {
    result = of(binary.getLHS());
    result.addAll(of(binary.getRHS()));
    return result;
  }
  auto divide = [](AffineExpr each) {
    auto parts = cast<AffineBinaryOpExpr>(each);
    return quotient(each.getKind(), of(parts.getLHS()), of(parts.getRHS()));
  };
  NormalForms *forms = NormalForms::of(context);
  return forms ? forms->quotient(expression, divide) : divide(expression);
}

void Polynomial::appendFactors(AffineExpr expression, SmallVectorImpl<Polynomial> &factors) {
  auto binary = dyn_cast<AffineBinaryOpExpr>(expression);
  if (!binary || binary.getKind() != AffineExprKind::Mul) {
    factors.push_back(of(expression));
    return;
  }
  appendFactors(binary.getLHS(), factors);
  appendFactors(binary.getRHS(), factors);
}

AffineExpr Polynomial::expression() const {
  AffineExpr sum;
  for (auto &[monomial, coefficient] : terms_) {
    AffineExpr product;
    for (AffineExpr atom : monomial)
      product = product ? product * atom : atom;
    AffineExpr term =
        product ? product * coefficient : getAffineConstantExpr(coefficient, context_);
    sum = sum ? sum + term : term;
  }
  return sum ? sum : getAffineConstantExpr(0, context_);
}

/// Terms, with sums that are atoms multiplied out.
size_t Polynomial::countTerms() const {
  size_t count = terms_.size();
  if (count != 1)
    return count;
  for (AffineExpr atom : terms_.begin()->first) {
    size_t summands = 1;
    while (atom.getKind() == AffineExprKind::Add) {
      ++summands;
      atom = cast<AffineBinaryOpExpr>(atom).getLHS();
    }
    count = std::min(count * summands, kMostTerms + 1);
  }
  return count;
}

Polynomial Polynomial::product(ArrayRef<Polynomial> factors, MLIRContext *context) {
  size_t terms = 1;
  for (const Polynomial &factor : factors)
    terms = std::min(terms * factor.countTerms(), kMostTerms + 1);
  // Those of a single term at once, and then the sums.
  Monomial atoms;
  int64_t coefficient = 1;
  for (const Polynomial &factor : factors) {
    if (factor.terms_.size() == 1) {
      auto &[monomial, times] = *factor.terms_.begin();
      atoms.append(monomial);
      coefficient = productOf(coefficient, times);
    } else if (terms > kMostTerms) {
      atoms.push_back(factor.expression());
    }
  }
  llvm::sort(atoms, atomLess);
  Polynomial result(context);
  result.add(std::move(atoms), terms ? coefficient : 0);
  for (const Polynomial &factor : factors)
    if (factor.terms_.size() != 1 && terms <= kMostTerms)
      result = result.times(factor);
  return result;
}

Polynomial Polynomial::times(const Polynomial &other) const {
  if (terms_.size() > 1 && other.terms_.size() > 1 &&
      terms_.size() * other.terms_.size() > kMostTerms)
    return ofAtom(expression()).times(ofAtom(other.expression()));
  Polynomial result(context_);
  for (auto &[m, c] : terms_)
    for (auto &[n, d] : other.terms_) {
      Monomial product(m);
      product.append(n);
      llvm::sort(product, atomLess);
      result.add(std::move(product), productOf(c, d));
    }
  return result;
}

void Polynomial::add(Monomial monomial, int64_t coefficient) {
  auto [it, isNew] = terms_.try_emplace(std::move(monomial), 0);
  if (__builtin_add_overflow(it->second, coefficient, &it->second))
    it->second = std::numeric_limits<int64_t>::max();
  // The least number has no negative, and its quotient by -1 ends the process.
  it->second = std::max(it->second, -std::numeric_limits<int64_t>::max());
  if (it->second == 0)
    terms_.erase(it);
}

std::optional<int64_t> Polynomial::constant() const {
  if (terms_.empty())
    return 0;
  bool isConstant = terms_.size() == 1 && terms_.begin()->first.empty();
  return isConstant ? std::optional(terms_.begin()->second) : std::nullopt;
}

Polynomial Polynomial::ofAtom(AffineExpr atom) {
  Polynomial result(atom.getContext());
  result.add({atom}, 1);
  return result;
}

void Polynomial::addAll(const Polynomial &other, int64_t factor) {
  for (auto &[monomial, coefficient] : other.terms_)
    add(monomial, productOf(coefficient, factor));
}

/// Without those atoms; nothing where one isn't there.
static std::optional<Monomial> without(const Monomial &monomial, const Monomial &atoms) {
  Monomial rest(monomial);
  for (AffineExpr atom : atoms) {
    auto it = llvm::find(rest, atom);
    if (it == rest.end())
      return std::nullopt;
    rest.erase(it);
  }
  return rest;
}

/// This divided by the other where nothing is left: long division by the leading terms, whose
/// order products keep.
std::optional<Polynomial> Polynomial::dividedBy(const Polynomial &divisor) const {
  constexpr int kMostSteps = 64;
  auto &[atoms, leading] = *divisor.terms_.begin();
  Polynomial result(context_), rest(*this);
  for (int step = 0; !rest.terms_.empty(); ++step) {
    auto &[monomial, coefficient] = *rest.terms_.begin();
    auto left = without(monomial, atoms);
    if (!left || coefficient % leading != 0 || step == kMostSteps)
      return std::nullopt;
    Polynomial part(context_);
    part.add(*left, coefficient / leading);
    result.addAll(part);
    rest.addAll(part.times(divisor), -1);
  }
  return result;
}

/// Takes out of this the terms that the single term divides, and returns their quotient:
/// (d * p + q) floordiv d = p + q floordiv d. Of coefficients beside a constant divisor what is
/// left is in [0, d).
Polynomial Polynomial::takeMultiples(const Polynomial &divisor) {
  auto &[atoms, each] = *divisor.terms_.begin();
  Polynomial taken(context_);
  for (auto &[monomial, coefficient] : terms_)
    if (auto left = without(monomial, atoms)) {
      int64_t times = coefficient / each - (coefficient % each < 0);
      if (atoms.empty() || coefficient % each == 0)
        taken.add(*left, times);
    }
  addAll(taken.times(divisor), -1);
  return taken;
}

/// The largest constant that divides all coefficients but the constant term's.
int64_t Polynomial::content() const {
  int64_t content = 0;
  for (auto &[monomial, coefficient] : terms_)
    if (!monomial.empty())
      content = std::gcd(content, coefficient);
  return content;
}

/// ((p floordiv a) + q) floordiv d  ->  (p + a * q) floordiv (a * d), with a constant a, as of
/// strided layers one behind the other: this becomes the numerator, `divisor` a * d. False where
/// there is no such quotient.
bool Polynomial::flatten(int64_t &divisor) {
  for (auto &[monomial, coefficient] : terms_) {
    auto inner = monomial.size() == 1 && coefficient == 1
                     ? dyn_cast<AffineBinaryOpExpr>(monomial[0])
                     : AffineBinaryOpExpr(nullptr);
    auto by = inner && inner.getKind() == AffineExprKind::FloorDiv
                  ? dyn_cast<AffineConstantExpr>(inner.getRHS())
                  : AffineConstantExpr();
    if (!by || by.getValue() <= 0 || by.getValue() > kLargestDivisor / divisor)
      continue;
    Polynomial rest(*this);
    rest.add(monomial, -1);
    *this = of(inner.getLHS());
    addAll(rest, by.getValue());
    divisor *= by.getValue();
    return true;
  }
  return false;
}

/// The quotient, rounded down, by a positive constant.
Polynomial Polynomial::floorOf(Polynomial a, int64_t divisor) {
  Polynomial result(a.context_);
  do {
    Polynomial by(a.context_);
    by.add({}, divisor);
    result.addAll(a.takeMultiples(by));
    // (g * p + c) floordiv (g * d) = (p + c floordiv g) floordiv d
    if (int64_t common = std::gcd(a.content(), divisor); common > 1) {
      Polynomial reduced(a.context_);
      for (auto &[monomial, coefficient] : a.terms_) // in [0, divisor), all of them
        reduced.add(monomial, coefficient / common);
      a = reduced;
      divisor /= common;
    }
  } while (a.flatten(divisor));
  if (divisor == 1)
    result.addAll(a);
  else if (!a.constant()) // a constant is less than the divisor
    result.addAll(ofAtom(a.expression().floorDiv(divisor)));
  return result;
}

/// Atoms and constant that divide all terms of both go from both: (a * s) floordiv (b * s).
void Polynomial::cancel(Polynomial &a, Polynomial &b) {
  Monomial shared(b.terms_.begin()->first);
  int64_t content = 0;
  for (const Polynomial *each : {&a, &b})
    for (auto &[monomial, coefficient] : each->terms_) {
      content = std::gcd(content, coefficient);
      Monomial left(monomial), both;
      for (AffineExpr atom : shared)
        if (auto it = llvm::find(left, atom); it != left.end()) {
          left.erase(it);
          both.push_back(atom);
        }
      shared = both;
    }
  if (shared.empty() && content <= 1)
    return;
  for (Polynomial *each : {&a, &b}) {
    Polynomial reduced(each->context_);
    for (auto &[monomial, coefficient] : each->terms_)
      reduced.add(*without(monomial, shared), coefficient / content);
    *each = reduced;
  }
}

Polynomial Polynomial::quotient(AffineExprKind kind, Polynomial a, Polynomial b) {
  Polynomial result(a.context_);
  if (b.terms_.empty()) // by zero: nothing is known of it, and nothing traps
    return result;
  if (kind == AffineExprKind::Mod) { // a - b * (a floordiv b)
    result.addAll(a);
    result.addAll(product({b, quotient(AffineExprKind::FloorDiv, a, b)}, a.context_), -1);
    return result;
  }
  if (auto exact = a.dividedBy(b))
    return *exact;
  // A factor that is not multiplied out.
  if (b.terms_.size() > 1)
    if (auto exact = a.dividedBy(ofAtom(b.expression())))
      return *exact;
  cancel(a, b);
  if (auto divisor = b.constant(); divisor && *divisor > 0) {
    // Rounding up is rounding down of a little more.
    if (kind == AffineExprKind::CeilDiv)
      a.add({}, *divisor - 1);
    return floorOf(std::move(a), *divisor);
  }
  if (b.terms_.size() == 1)
    result = a.takeMultiples(b);
  if (a.terms_.empty())
    return result;
  AffineExpr x = a.expression(), y = b.expression();
  result.addAll(ofAtom(kind == AffineExprKind::FloorDiv ? x.floorDiv(y) : x.ceilDiv(y)));
  return result;
}

} // namespace tensmith::graph

// Partial derivatives of the functions that a comprehension may call.
#include "compiler/graph/ComprehensionAdjoint.h"

#include <cmath>

namespace tensmith::graph {

using namespace comprehension;

namespace {

/// Arithmetic on trees, so that a derivative is written as it is in a book.
struct Term {
  ExprRef expr;
  Term(ExprRef expr) : expr(std::move(expr)) {}
  Term(double value) : expr(makeExpr({.kind = Expr::Kind::Real, .number = value})) {}
};
Term made(const char *sign, const Term &a, const Term &b) {
  return Term(makeExpr({.kind = Expr::Kind::Binary, .text = sign, .parts = {a.expr, b.expr}}));
}
Term operator+(const Term &a, const Term &b) { return made("+", a, b); }
Term operator-(const Term &a, const Term &b) { return made("-", a, b); }
Term operator*(const Term &a, const Term &b) { return made("*", a, b); }
Term operator/(const Term &a, const Term &b) { return made("/", a, b); }
Term operator-(const Term &a) { return Term(-1.0) * a; }
template <typename... More> Term of(const char *function, const Term &a, const More &...more) {
  return Term(makeExpr(
      {.kind = Expr::Kind::Call, .text = function, .parts = {a.expr, Term(more).expr...}}));
}
Term choose(const Term &condition, const Term &yes, const Term &no) {
  return Term(makeExpr({.kind = Expr::Kind::Select, .parts = {condition.expr, yes.expr, no.expr}}));
}

constexpr double kPi = 3.14159265358979323846;

/// Of functions of one argument: the derivative at x.
std::optional<Term> slopeOf(llvm::StringRef name, const Term &x) {
  const double rootOfPi = std::sqrt(kPi);
  auto is = [&](llvm::StringRef one) { return name == one; };
  if (is("floor") || is("ceil") || is("round") || is("trunc") || is("logb"))
    return Term(0.0);
  if (is("exp"))
    return of("exp", x);
  if (is("expm1"))
    return of("exp", x);
  if (is("exp2"))
    return Term(std::log(2.0)) * of("exp2", x);
  if (is("exp10"))
    return Term(std::log(10.0)) * of("exp10", x);
  if (is("log"))
    return Term(1) / x;
  if (is("log2"))
    return Term(1 / std::log(2.0)) / x;
  if (is("log10"))
    return Term(1 / std::log(10.0)) / x;
  if (is("log1p"))
    return Term(1) / (Term(1) + x);
  if (is("sqrt"))
    return Term(0.5) / of("sqrt", x);
  if (is("rsqrt"))
    return Term(-0.5) * of("rsqrt", x) / x;
  if (is("cbrt"))
    return Term(1 / 3.0) / (of("cbrt", x) * of("cbrt", x));
  if (is("rcbrt"))
    return Term(-1 / 3.0) * of("rcbrt", x) / x;
  if (is("sin"))
    return of("cos", x);
  if (is("cos"))
    return -of("sin", x);
  if (is("tan"))
    return Term(1) + of("tan", x) * of("tan", x);
  if (is("sinpi"))
    return Term(kPi) * of("cospi", x);
  if (is("cospi"))
    return Term(-kPi) * of("sinpi", x);
  if (is("asin"))
    return of("rsqrt", Term(1) - x * x);
  if (is("acos"))
    return -of("rsqrt", Term(1) - x * x);
  if (is("atan"))
    return Term(1) / (Term(1) + x * x);
  if (is("sinh"))
    return of("cosh", x);
  if (is("cosh"))
    return of("sinh", x);
  if (is("tanh"))
    return Term(1) - of("tanh", x) * of("tanh", x);
  if (is("asinh"))
    return of("rsqrt", x * x + Term(1));
  if (is("acosh"))
    return of("rsqrt", x * x - Term(1));
  if (is("atanh"))
    return Term(1) / (Term(1) - x * x);
  if (is("erf") || is("erfc"))
    return Term((is("erf") ? 2 : -2) / rootOfPi) * of("exp", -(x * x));
  if (is("erfinv") || is("erfcinv")) {
    Term value = of(is("erfinv") ? "erfinv" : "erfcinv", x);
    return Term((is("erfinv") ? 0.5 : -0.5) * rootOfPi) * of("exp", value * value);
  }
  if (is("erfcx"))
    return Term(2) * x * of("erfcx", x) - Term(2 / rootOfPi);
  if (is("normcdf"))
    return Term(1 / std::sqrt(2 * kPi)) * of("exp", Term(-0.5) * x * x);
  if (is("normcdfinv")) {
    Term value = of("normcdfinv", x);
    return Term(std::sqrt(2 * kPi)) * of("exp", Term(0.5) * value * value);
  }
  if (is("sigmoid"))
    return of("sigmoid", x) * (Term(1) - of("sigmoid", x));
  if (is("fabs"))
    return choose(made(">", x, Term(0)), Term(1), choose(made("<", x, Term(0)), Term(-1), Term(0)));
  if (is("cyl_bessel_i0"))
    return of("cyl_bessel_i1", x);
  if (is("cyl_bessel_i1"))
    return of("cyl_bessel_i0", x) - of("cyl_bessel_i1", x) / x;
  if (is("j0") || is("y0"))
    return -of(is("j0") ? "j1" : "y1", x);
  if (is("j1") || is("y1"))
    return of(is("j1") ? "j0" : "y0", x) - of(is("j1") ? "j1" : "y1", x) / x;
  return std::nullopt;
}

/// Of functions of two arguments, along the first or the second one.
std::optional<Term> slopeOf(llvm::StringRef name, const Term &x, const Term &y, bool alongFirst) {
  auto is = [&](llvm::StringRef one) { return name == one; };
  if (is("pow"))
    return alongFirst ? y * of("pow", x, y - Term(1)) : of("pow", x, y) * of("log", x);
  if (is("fdivide"))
    return alongFirst ? Term(1) / y : -(x / (y * y));
  if (is("hypot"))
    return (alongFirst ? x : y) / of("hypot", x, y);
  if (is("rhypot")) {
    Term value = of("rhypot", x, y);
    return -((alongFirst ? x : y) * value * value * value);
  }
  if (is("atan2"))
    return alongFirst ? y / (x * x + y * y) : -(x / (x * x + y * y));
  if (is("fdim"))
    return choose(made(">", x, y), Term(alongFirst ? 1 : -1), Term(0));
  if (is("fmod") || is("remainder"))
    return alongFirst ? Term(1) : -of(is("fmod") ? "trunc" : "round", x / y);
  if (is("copysign"))
    return alongFirst ? of("copysign", Term(1), x) * of("copysign", Term(1), y) : Term(0.0);
  if (is("fmax") || is("fmin")) { // equal shares of equal ones
    const char *beats = is("fmax") ? ">" : "<";
    Term own = alongFirst ? x : y, other = alongFirst ? y : x;
    return choose(made(beats, own, other), Term(1),
                  choose(made("==", own, other), Term(0.5), Term(0)));
  }
  return std::nullopt;
}

} // namespace

ExprRef partialDerivative(const std::string &function, llvm::ArrayRef<ExprRef> arguments,
                          size_t along, const ExprRef &factor) {
  std::optional<Term> slope;
  if (arguments.size() == 1)
    slope = slopeOf(function, Term(arguments[0]));
  if (arguments.size() == 2)
    slope = slopeOf(function, Term(arguments[0]), Term(arguments[1]), along == 0);
  if (function == "fma")
    slope = along == 2 ? Term(1) : Term(arguments[1 - along]);
  if (function == "norm3d" || function == "norm4d")
    slope = Term(arguments[along]) /
            Term(makeExpr({.kind = Expr::Kind::Call, .text = function, .parts = arguments.vec()}));
  if (!slope)
    return nullptr;
  bool isStep = slope->expr->kind == Expr::Kind::Real && slope->expr->number == 0;
  return isStep ? slope->expr : (Term(factor) * *slope).expr;
}

} // namespace tensmith::graph

// The functions that a comprehension may call, those of the published language, in double
// precision.
#include "reference/comprehension/Analysis.h"

#include <cmath>
#include <limits>
#include <map>

namespace tensmith::comprehension {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The zero of erf(x) - y: W. Giles' form of the start, then Newton's method, which doubles the
/// digits each time.
double inverseErf(double y) {
  if (!(y > -1 && y < 1))
    return y == 1 ? kInfinity : y == -1 ? -kInfinity : kNan;
  double w = -std::log1p(-y * y), a = 2 / (kPi * 0.147) - w / 2;
  double x = std::copysign(std::sqrt(std::sqrt(a * a + w / 0.147) - a), y);
  for (int step = 0; step < 4; ++step)
    x -= (std::erf(x) - y) / (2 / std::sqrt(kPi) * std::exp(-x * x));
  return x;
}

/// The zero of erfc(x) - y, in the logarithm where y is small, so that tails keep their digits.
double inverseErfc(double y) {
  if (!(y > 0 && y < 2))
    return y == 0 ? kInfinity : y == 2 ? -kInfinity : kNan;
  if (y > 0.1)
    return inverseErf(1 - y);
  double x = std::sqrt(-std::log(y));
  for (int step = 0; step < 60; ++step) {
    double value = std::erfc(x), slope = -2 / std::sqrt(kPi) * std::exp(-x * x) / value;
    double change = (std::log(value) - std::log(y)) / slope;
    x -= change;
    if (!(std::fabs(change) > 1e-16 * x))
      break;
  }
  return x;
}

/// e^(x^2) erfc(x); far out by its asymptotic series, where the product's factors leave the range.
double scaledErfc(double x) {
  if (x < 20)
    return std::exp(x * x) * std::erfc(x);
  double sum = 1, term = 1, square = 2 * x * x;
  for (int n = 1; n < 10; ++n)
    sum += term *= -(2 * n - 1) / square;
  return sum / (x * std::sqrt(kPi));
}

double besselI(double order, double x) {
  // The series over even powers, whose terms are positive.
  double half = x / 2, term = order == 0 ? 1 : half, sum = term;
  for (int k = 1; k < 1000 && std::fabs(term) > 1e-17 * std::fabs(sum); ++k)
    sum += term *= half * half / (double(k) * (k + order));
  return sum;
}

/// sin(pi x) or cos(pi x), exact where x is a multiple of a half.
double sineOfTurns(double x) {
  double r = std::remainder(x, 2);
  return r == std::floor(r) ? std::copysign(0.0, x) : std::sin(kPi * r);
}
double cosineOfTurns(double x) {
  double r = std::fabs(std::remainder(x, 2));
  return r == 0.5 ? 0.0 : std::cos(kPi * r);
}

#define ONE(NAME, VALUE)                                                                           \
  {NAME, 1, [](const double *a) -> double {                                                        \
     double x = a[0];                                                                              \
     return VALUE;                                                                                 \
   }}
#define TWO(NAME, VALUE)                                                                           \
  {NAME, 2, [](const double *a) -> double {                                                        \
     double x = a[0], y = a[1];                                                                    \
     return VALUE;                                                                                 \
   }}

// clang-format off
constexpr BuiltIn kBuiltIns[] = {
    ONE("acos", std::acos(x)), ONE("acosh", std::acosh(x)), ONE("asin", std::asin(x)),
    ONE("asinh", std::asinh(x)), TWO("atan2", std::atan2(x, y)), ONE("atan", std::atan(x)),
    ONE("atanh", std::atanh(x)), ONE("cbrt", std::cbrt(x)), ONE("ceil", std::ceil(x)),
    TWO("copysign", std::copysign(x, y)), ONE("cos", std::cos(x)), ONE("cosh", std::cosh(x)),
    ONE("cospi", cosineOfTurns(x)), ONE("cyl_bessel_i0", besselI(0, x)),
    ONE("cyl_bessel_i1", besselI(1, x)), ONE("erfc", std::erfc(x)),
    ONE("erfcinv", inverseErfc(x)), ONE("erfcx", scaledErfc(x)), ONE("erf", std::erf(x)),
    ONE("erfinv", inverseErf(x)), ONE("exp10", std::pow(10.0, x)), ONE("exp2", std::exp2(x)),
    ONE("exp", std::exp(x)), ONE("expm1", std::expm1(x)), ONE("fabs", std::fabs(x)),
    TWO("fdim", std::fdim(x, y)), TWO("fdivide", x / y), ONE("floor", std::floor(x)),
    {"fma", 3, [](const double *a) -> double { return std::fma(a[0], a[1], a[2]); }},
    TWO("fmax", std::fmax(x, y)), TWO("fmin", std::fmin(x, y)), TWO("fmod", std::fmod(x, y)),
    TWO("hypot", std::hypot(x, y)), ONE("j0", ::j0(x)), ONE("j1", ::j1(x)),
    ONE("lgamma", std::lgamma(x)), ONE("log10", std::log10(x)), ONE("log1p", std::log1p(x)),
    ONE("log2", std::log2(x)), ONE("logb", std::logb(x)), ONE("log", std::log(x)),
    TWO("nextafter", std::nextafter(x, y)),
    {"norm3d", 3, [](const double *a) -> double { return std::hypot(a[0], a[1], a[2]); }},
    {"norm4d", 4, [](const double *a) -> double {
       return std::hypot(std::hypot(a[0], a[1]), a[2], a[3]); }},
    ONE("normcdf", std::erfc(-x / std::sqrt(2.0)) / 2),
    ONE("normcdfinv", -std::sqrt(2.0) * inverseErfc(2 * x)), TWO("pow", std::pow(x, y)),
    ONE("rcbrt", 1 / std::cbrt(x)), TWO("remainder", std::remainder(x, y)),
    TWO("rhypot", 1 / std::hypot(x, y)),
    {"rnorm3d", 3, [](const double *a) -> double { return 1 / std::hypot(a[0], a[1], a[2]); }},
    {"rnorm4d", 4, [](const double *a) -> double {
       return 1 / std::hypot(std::hypot(a[0], a[1]), a[2], a[3]); }},
    ONE("round", std::round(x)), ONE("rsqrt", 1 / std::sqrt(x)),
    ONE("sigmoid", 1 / (1 + std::exp(-x))), ONE("sin", std::sin(x)), ONE("sinh", std::sinh(x)),
    ONE("sinpi", sineOfTurns(x)), ONE("sqrt", std::sqrt(x)), ONE("tan", std::tan(x)),
    ONE("tanh", std::tanh(x)), ONE("tgamma", std::tgamma(x)), ONE("trunc", std::trunc(x)),
    ONE("y0", ::y0(x)), ONE("y1", ::y1(x)),
};
// clang-format on
#undef ONE
#undef TWO

} // namespace

const BuiltIn *findBuiltIn(std::string_view name) {
  static const auto byName = [] {
    std::map<std::string_view, const BuiltIn *> all;
    for (const BuiltIn &one : kBuiltIns)
      all[one.name] = &one;
    return all;
  }();
  auto found = byName.find(name);
  return found == byName.end() ? nullptr : found->second;
}

std::vector<std::string_view> builtInNames() {
  std::vector<std::string_view> names;
  for (const BuiltIn &one : kBuiltIns)
    names.push_back(one.name);
  return names;
}

} // namespace tensmith::comprehension

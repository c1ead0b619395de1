// Evaluations of real functions that the graph has no operator for, element by element.
//
// Floats come as double and are rounded once, as in the reference; `nextafter` alone is a matter of
// the format, and is done in it. Special values are those of the array API standard, which are C's
// (Annex F) but for the remainder, whose sign is the divisor's as in Python.
#include "eager/Operators.h"

#include "base/Float.h"
#include "reference/Elementwise.h"
#include "reference/ScalarFunctions.h"

#include <bit>
#include <cmath>

namespace tensmith::eager {
namespace {

using namespace reference;

template <double (*f)(double)> Outcome real(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x");
  if (!workspace.ok())
    return workspace.status();
  return mapUnary<double>(workspace, x, x.type(), [](const double *from, double *to, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      to[i] = f(from[i]);
  });
}

template <double (*f)(double, double)> Outcome realPair(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &a = workspace.floatOperand(0, "a"), &b = workspace.floatOperand(1, "b");
  requireSameType(workspace, a, b);
  if (!workspace.ok())
    return workspace.status();
  return mapBinary<double>(workspace, a, b, a.type(),
                           [](const double *a, const double *b, double *c, int64_t n) {
                             for (int64_t i = 0; i < n; ++i)
                               c[i] = f(a[i], b[i]);
                           });
}

double logAddExp(double a, double b) {
  if (a == b) // infinities of one sign among them
    return a + std::log(2.0);
  double larger = std::fmax(a, b);
  if (std::isnan(a) || std::isnan(b))
    return a + b;
  return larger + std::log1p(std::exp(-std::fabs(a - b)));
}

struct Remainder {
  double operator()(double a, double b) const {
    double r = std::fmod(a, b);
    if (r == 0)
      return std::copysign(0.0, b);
    return (r < 0) != (b < 0) ? r + b : r;
  }
  template <typename T> T operator()(T a, T b) const { return FloorRemainder()(a, b); }
};
/// Python's divmod: the quotient that belongs to the remainder above.
struct FloorDivide {
  double operator()(double a, double b) const {
    if (b == 0 || std::isinf(a) || std::isinf(b)) // the standard's, where Python has NaN and -1
      return a / b;
    double r = std::fmod(a, b), q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0))
      q -= 1;
    if (q == 0)
      return std::copysign(0.0, a / b);
    double floored = std::floor(q);
    return q - floored > 0.5 ? floored + 1 : floored;
  }
  uint64_t operator()(uint64_t a, uint64_t b) const { return b == 0 ? 0 : a / b; }
  int64_t operator()(int64_t a, int64_t b) const {
    if (b == 0)
      return 0;
    if (b == -1)
      return int64_t(-uint64_t(a));
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
  }
};
struct Square {
  double operator()(double x) const { return x * x; }
  template <typename T> T operator()(T x) const { return T(uint64_t(x) * uint64_t(x)); }
};
struct Truncate {
  double operator()(double x) const { return std::trunc(x); }
  template <typename T> T operator()(T x) const { return x; }
};
struct IsFinite {
  bool operator()(double x) const { return std::isfinite(x); }
  template <typename T> bool operator()(T) const { return true; }
};
struct IsInfinite {
  bool operator()(double x) const { return std::isinf(x); }
  template <typename T> bool operator()(T) const { return false; }
};
struct SignBit {
  bool operator()(double x) const { return std::signbit(x); }
  template <typename T> bool operator()(T x) const { return x < T(0); }
};
struct LogicalNot {
  template <typename T> bool operator()(T x) const { return x == T(0); }
};

template <typename F> Outcome tested(const Invocation &invocation) {
  return evaluateUnary<F>(invocation, DataType::Bool);
}
template <typename F> Outcome comparedPair(const Invocation &invocation) {
  return evaluateBinary<F>(invocation, DataType::Bool);
}
template <typename F> Outcome mapped(const Invocation &invocation) {
  return evaluateUnary<F>(invocation);
}
template <typename F> Outcome mappedPair(const Invocation &invocation) {
  return evaluateBinary<F>(invocation);
}

double reciprocal(double x) { return 1 / x; }
double copySign(double a, double b) { return std::copysign(a, b); }
double cubeRoot(double x) { return std::cbrt(x); }

template <typename Word> Word nextCode(Word a, Word b, int mantissaAndExponentBits) {
  const Word sign = Word(Word(1) << mantissaAndExponentBits), magnitude = Word(sign - 1);
  if ((a & magnitude) == 0)
    return Word((b & sign) | 1); // the least subnormal, towards b
  auto order = [&](Word code) {
    return code & sign ? -int64_t(code & magnitude) : int64_t(code & magnitude);
  };
  bool grows = order(b) > order(a);
  return Word(grows == !(a & sign) ? a + 1 : a - 1);
}

template <typename Word>
void nextAfter(const HostTensor &a, const HostTensor &b, HostTensor &c, int bits) {
  for (int64_t i = 0; i < c.size(); ++i) {
    double x = a.getDouble(i), y = b.getDouble(i);
    if (std::isnan(x) || std::isnan(y))
      c.setDouble(i, x + y);
    else
      c.as<Word>()[size_t(i)] =
          x == y ? b.as<Word>()[size_t(i)]
                 : nextCode<Word>(a.as<Word>()[size_t(i)], b.as<Word>()[size_t(i)], bits);
  }
}

Outcome evaluateNextAfter(const Invocation &invocation) {
  Workspace workspace(invocation);
  HostTensor a = workspace.floatOperand(0, "a"), b = workspace.floatOperand(1, "b");
  requireSameType(workspace, a, b);
  const HostTensor *tensors[] = {&a, &b};
  constexpr std::string_view kNames[] = {"a", "b"};
  Shape shape = broadcastShape(workspace, tensors, kNames);
  HostTensor c = workspace.allocate(a.type(), shape);
  if (!workspace.ok())
    return workspace.status();
  for (HostTensor *operand : {&a, &b}) {
    HostTensor whole = workspace.allocate(a.type(), shape);
    if (!workspace.ok())
      return workspace.status();
    copyStrided(whole, 0, rowMajorStrides(shape), *operand, 0,
                *broadcastStrides(operand->shape(), shape), shape);
    *operand = whole;
  }
  switch (byteSize(a.type())) {
  case 2:
    nextAfter<uint16_t>(a, b, c, 15);
    break;
  case 4:
    nextAfter<uint32_t>(a, b, c, 31);
    break;
  case 8:
    nextAfter<uint64_t>(a, b, c, 63);
    break;
  default:
    return unsupported("nextafter: operands of type " + std::string(name(a.type())) +
                       " are not handled");
  }
  return workspace.finish(std::move(c));
}

constexpr Entry kEntries[] = {
    {"atan2", realPair<std::atan2>},
    {"cbrt", real<cubeRoot>},
    {"copysign", realPair<copySign>},
    {"exp2", real<std::exp2>},
    {"expm1", real<std::expm1>},
    {"floor_divide", mappedPair<FloorDivide>},
    {"hypot", realPair<std::hypot>},
    {"isfinite", tested<IsFinite>},
    {"isinf", tested<IsInfinite>},
    {"log10", real<std::log10>},
    {"log2", real<std::log2>},
    {"logaddexp", realPair<logAddExp>},
    {"logical_not", tested<LogicalNot>},
    {"nextafter", evaluateNextAfter},
    {"not_equal", comparedPair<std::not_equal_to<>>},
    {"reciprocal", real<reciprocal>},
    {"remainder", mappedPair<Remainder>},
    {"signbit", tested<SignBit>},
    {"square", mapped<Square>},
    {"trunc", mapped<Truncate>},
};

} // namespace

Evaluator realEvaluator(std::string_view name) {
  for (const Entry &entry : kEntries)
    if (entry.name == name)
      return entry.evaluate;
  return nullptr;
}

} // namespace tensmith::eager

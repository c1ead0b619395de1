// Reference evaluation of the functions of one operand: abs to sigmoid, tests of floats, inverted
// bits.
//
// The transcendental ones are the C library's in double, rounded once: within half a unit of the
// last place for floats of 32 bits and fewer.
#include "reference/Elementwise.h"
#include "reference/ScalarFunctions.h"

namespace tensmith::reference {
namespace {

template <typename F> Outcome mapped(const Invocation &invocation) {
  return evaluateUnary<F>(invocation);
}
Outcome evaluateBitwiseNot(const Invocation &invocation) {
  return evaluateUnary<BitwiseNot, /*Floats=*/false>(invocation);
}
Outcome evaluateIsNan(const Invocation &invocation) {
  return evaluateUnary<IsNan>(invocation, DataType::Bool);
}

/// f of floats; of integers as of the double next to them.
template <double (*f)(double)> Outcome real(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x");
  if (!workspace.ok())
    return workspace.status();
  return mapUnary<double>(workspace, x, x.type(), [](const double *from, double *to, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      to[i] = f(from[i]);
  });
}

Outcome evaluateNot(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x");
  if (!workspace.ok())
    return workspace.status();
  return mapUnary<uint64_t>(workspace, x, DataType::Bool, applyUnary<Not, uint64_t>);
}

template <bool Negative, bool Positive> void isInfiniteRun(const double *x, double *y, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = std::isinf(x[i]) && (x[i] < 0 ? Negative : Positive);
}

Outcome evaluateIsInf(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x");
  if (!workspace.ok())
    return workspace.status();
  bool negative = invocation.attributes.integer("detect_negative", 1) != 0;
  bool positive = invocation.attributes.integer("detect_positive", 1) != 0;
  UnaryKernel<double> kernel =
      negative ? (positive ? isInfiniteRun<true, true> : isInfiniteRun<true, false>)
               : (positive ? isInfiniteRun<false, true> : isInfiniteRun<false, false>);
  return mapUnary<double>(workspace, x, DataType::Bool, kernel);
}

constexpr Entry kEntries[] = {
    {"abs", mapped<Absolute>},
    {"neg", mapped<Negate>},
    {"sign", mapped<Sign>},
    {"ceil", mapped<Ceil>},
    {"floor", mapped<Floor>},
    {"round", mapped<RoundHalfToEven>},
    {"sqrt", real<std::sqrt>},
    {"rsqrt", real<reciprocalSquareRoot>},
    {"exp", real<std::exp>},
    {"log", real<std::log>},
    {"log1p", real<std::log1p>},
    {"sin", real<std::sin>},
    {"cos", real<std::cos>},
    {"tan", real<std::tan>},
    {"asin", real<std::asin>},
    {"acos", real<std::acos>},
    {"atan", real<std::atan>},
    {"sinh", real<std::sinh>},
    {"cosh", real<std::cosh>},
    {"tanh", real<std::tanh>},
    {"asinh", real<std::asinh>},
    {"acosh", real<std::acosh>},
    {"atanh", real<std::atanh>},
    {"erf", real<std::erf>},
    {"sigmoid", real<logistic>},
    {"not", evaluateNot},
    {"bitwise_not", evaluateBitwiseNot},
    {"isnan", evaluateIsNan},
    {"isinf", evaluateIsInf},
};

} // namespace

std::span<const Entry> functionEntries() { return kEntries; }

} // namespace tensmith::reference

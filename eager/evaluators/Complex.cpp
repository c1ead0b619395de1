// Evaluations on complex numbers, which the graph does not have: element-wise functions, sums and
// products, conversions.
//
// Numbers come as std::complex<double> and are rounded once; the functions are C's, with the
// special values of its Annex G, which the array API standard asks for.
#include "eager/Operators.h"
#include "eager/evaluators/Reduction.h"

#include "reference/Elements.h"
#include "reference/Workspace.h"

#include <cmath>
#include <complex>
#include <functional>

namespace tensmith::eager {
namespace {

using namespace reference;
using Complex = std::complex<double>;

Complex load(const HostTensor &tensor, int64_t i) {
  if (tensor.type() == DataType::C128)
    return tensor.as<Complex>()[size_t(i)];
  if (tensor.type() == DataType::C64)
    return Complex(tensor.as<std::complex<float>>()[size_t(i)]);
  return tensor.getDouble(i);
}
void store(HostTensor &tensor, int64_t i, Complex value) {
  if (tensor.type() == DataType::C128)
    tensor.as<Complex>()[size_t(i)] = value;
  else
    tensor.as<std::complex<float>>()[size_t(i)] =
        std::complex<float>(float(value.real()), float(value.imag()));
}

/// The operands' elements where they meet: `visit(i, offsets)` for element i of `shape`.
template <size_t N, typename Visit>
void forEachElement(const Shape &shape, const std::array<const HostTensor *, N> &operands,
                    Visit visit) {
  std::array<std::vector<int64_t>, N> strides;
  for (size_t k = 0; k < N; ++k)
    strides[k] = *broadcastStrides(operands[k]->shape(), shape);
  int64_t next = 0;
  forEachRow(mergeDimensions<N>(shape, strides),
             [&](const auto &offsets, const auto &steps, int64_t count) {
               for (int64_t i = 0; i < count; ++i) {
                 std::array<int64_t, N> at;
                 for (size_t k = 0; k < N; ++k)
                   at[k] = offsets[k] + i * steps[k];
                 visit(next++, at);
               }
             });
}

template <Complex (*f)(const Complex &)> Outcome mapped(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  HostTensor y = workspace.allocate(x.type(), x.shape());
  if (!workspace.ok())
    return workspace.status();
  for (int64_t i = 0; i < x.size(); ++i)
    store(y, i, f(load(x, i)));
  return workspace.finish(std::move(y));
}

template <double (*f)(const Complex &)> Outcome toReal(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  HostTensor y = workspace.allocate(realType(x.type()), x.shape());
  if (!workspace.ok())
    return workspace.status();
  for (int64_t i = 0; i < x.size(); ++i)
    y.setDouble(i, f(load(x, i)));
  return workspace.finish(std::move(y));
}

template <bool (*f)(const Complex &)> Outcome tested(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  HostTensor y = workspace.allocate(DataType::Bool, x.shape());
  if (!workspace.ok())
    return workspace.status();
  for (int64_t i = 0; i < x.size(); ++i)
    y.setInt(i, f(load(x, i)));
  return workspace.finish(std::move(y));
}

Shape sharedShape(Workspace &workspace, const HostTensor &a, const HostTensor &b) {
  const Shape *shapes[] = {&a.shape(), &b.shape()};
  std::optional<Shape> shape = broadcastShapes(shapes);
  workspace.require(shape.has_value(), "b", "does not broadcast with a");
  workspace.require(a.type() == b.type(), "b", "is of another type than a");
  return shape.value_or(Shape{});
}

template <typename F> Outcome paired(const Invocation &invocation, DataType type) {
  Workspace workspace(invocation);
  const HostTensor &a = workspace.anyOperand(0, "a"), &b = workspace.anyOperand(1, "b");
  Shape shape = sharedShape(workspace, a, b);
  HostTensor c = workspace.allocate(type == DataType::Undefined ? a.type() : type, shape);
  if (!workspace.ok())
    return workspace.status();
  forEachElement<2>(shape, {&a, &b}, [&](int64_t i, const auto &at) {
    auto value = F()(load(a, at[0]), load(b, at[1]));
    if constexpr (std::is_same_v<decltype(value), bool>)
      c.setInt(i, value);
    else
      store(c, i, value);
  });
  return workspace.finish(std::move(c));
}
template <typename F> Outcome mappedPair(const Invocation &invocation) {
  return paired<F>(invocation, DataType::Undefined);
}
template <typename F> Outcome compared(const Invocation &invocation) {
  return paired<F>(invocation, DataType::Bool);
}

struct Power {
  Complex operator()(const Complex &a, const Complex &b) const {
    if (b == Complex(0))
      return 1;
    if (b == Complex(1))
      return a;
    if (a == Complex(0))
      return b.real() > 0 ? Complex(0) : std::pow(a, b);
    double n = b.real();
    if (b.imag() == 0 && n == std::trunc(n) && std::fabs(n) <= 64) {
      Complex result = 1;
      for (int k = 0; k < int(std::fabs(n)); ++k)
        result *= a;
      return n < 0 ? Complex(1) / result : result;
    }
    return std::pow(a, b);
  }
};
struct And {
  bool operator()(const Complex &a, const Complex &b) const { return a != 0.0 && b != 0.0; }
};
struct Or {
  bool operator()(const Complex &a, const Complex &b) const { return a != 0.0 || b != 0.0; }
};
struct Xor {
  bool operator()(const Complex &a, const Complex &b) const { return (a != 0.0) != (b != 0.0); }
};

double magnitude(const Complex &x) { return std::hypot(x.real(), x.imag()); }
double realPart(const Complex &x) { return x.real(); }
double imaginaryPart(const Complex &x) { return x.imag(); }
Complex conjugate(const Complex &x) { return std::conj(x); }
Complex negated(const Complex &x) { return -x; }
Complex square(const Complex &x) { return x * x; }
Complex reciprocal(const Complex &x) { return Complex(1) / x; }
Complex rounded(const Complex &x) { return {std::nearbyint(x.real()), std::nearbyint(x.imag())}; }
Complex direction(const Complex &x) {
  if (std::isnan(x.real()) || std::isnan(x.imag()))
    return {std::nan(""), std::nan("")};
  return x == 0.0 ? Complex(0) : x / magnitude(x);
}
/// exp(x) - 1 without the loss of exp near 0: with e = expm1(a), exp(a) cos b - 1 is
/// e cos b + (cos b - 1), and cos b - 1 is -2 sin^2(b / 2).
Complex expMinusOne(const Complex &x) {
  double a = x.real(), b = x.imag();
  if (b == 0)
    return {a == 0 ? 0.0 : std::expm1(a), b};
  if (!std::isfinite(a) || !std::isfinite(b)) {
    Complex e = std::exp(x);
    return {e.real() - 1, e.imag()};
  }
  double half = std::sin(b / 2);
  return {std::expm1(a) * std::cos(b) - 2 * half * half, std::exp(a) * std::sin(b)};
}
Complex logOnePlus(const Complex &x) {
  double a = x.real(), b = x.imag();
  if (!std::isfinite(a) || !std::isfinite(b) || magnitude(x) > 0.5)
    return std::log(Complex(1 + a, b));
  return {0.5 * std::log1p(a * (2 + a) + b * b), std::atan2(b, 1 + a)};
}
Complex log2Of(const Complex &x) {
  Complex y = std::log(x);
  return {y.real() / std::log(2.0), y.imag() / std::log(2.0)};
}
Complex log10Of(const Complex &x) {
  Complex y = std::log(x);
  return {y.real() / std::log(10.0), y.imag() / std::log(10.0)};
}
/// The standard's zero beside an infinite real part has y's sign, where C's has that of sin 2y.
Complex hyperbolicTangent(const Complex &x) {
  if (std::isinf(x.real()) && std::isfinite(x.imag()))
    return {std::copysign(1.0, x.real()), std::copysign(0.0, x.imag())};
  return std::tanh(x);
}
bool isFinite(const Complex &x) { return std::isfinite(x.real()) && std::isfinite(x.imag()); }
bool isInfinite(const Complex &x) { return std::isinf(x.real()) || std::isinf(x.imag()); }
bool isNan(const Complex &x) { return std::isnan(x.real()) || std::isnan(x.imag()); }
bool isZero(const Complex &x) { return x == 0.0; }

/// From any type to a complex one; from a complex one to booleans.
Outcome evaluateCast(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  DataType to = invocation.attributes.type("to");
  if (!isComplex(to) && to != DataType::Bool)
    return unsupported("cast: complex numbers do not become " + std::string(name(to)) +
                       "; take their real parts first");
  HostTensor y = workspace.allocate(to, x.shape());
  if (!workspace.ok())
    return workspace.status();
  for (int64_t i = 0; i < x.size(); ++i) {
    if (to == DataType::Bool)
      y.setInt(i, load(x, i) != 0.0);
    else if (isFloat(x.type()) || isComplex(x.type()))
      store(y, i, load(x, i));
    else
      store(y, i, x.type() == DataType::U64 ? double(uint64_t(x.getInt(i))) : double(x.getInt(i)));
  }
  return workspace.finish(std::move(y));
}

Outcome evaluateWhere(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &condition = workspace.operand(0, "condition");
  const HostTensor &a = workspace.anyOperand(1, "a"), &b = workspace.anyOperand(2, "b");
  const Shape *shapes[] = {&condition.shape(), &a.shape(), &b.shape()};
  std::optional<Shape> shape = broadcastShapes(shapes);
  workspace.require(shape.has_value(), "b", "does not broadcast with the others");
  HostTensor c = workspace.allocate(a.type(), shape.value_or(Shape{}));
  if (!workspace.ok())
    return workspace.status();
  forEachElement<3>(*shape, {&condition, &a, &b}, [&](int64_t i, const auto &at) {
    store(c, i, condition.getInt(at[0]) ? load(a, at[1]) : load(b, at[2]));
  });
  return workspace.finish(std::move(c));
}

template <typename F> Outcome reduced(const Invocation &invocation, Complex initial) {
  return reduceOver(invocation, std::nullopt, initial, load, F(), store);
}
Outcome evaluateSum(const Invocation &invocation) {
  return reduced<std::plus<Complex>>(invocation, 0);
}
Outcome evaluateProduct(const Invocation &invocation) {
  return reduced<std::multiplies<Complex>>(invocation, 1);
}

template <typename F> Outcome scanned(const Invocation &invocation, Complex initial) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  size_t axis = workspace.axis("axis", invocation.attributes.integer("axis"), x.rank());
  HostTensor y = workspace.allocate(x.type(), x.shape());
  if (!workspace.ok())
    return workspace.status();
  int64_t inner = extent(x.shape(), axis + 1, x.shape().size()), size = x.shape()[axis];
  for (int64_t line = 0; size > 0 && line < x.size() / size; ++line) {
    Complex total = initial;
    for (int64_t i = 0; i < size; ++i) {
      int64_t at = line / inner * inner * size + i * inner + line % inner;
      total = F()(total, load(x, at));
      store(y, at, total);
    }
  }
  return workspace.finish(std::move(y));
}
Outcome evaluateRunningSum(const Invocation &invocation) {
  return scanned<std::plus<Complex>>(invocation, 0);
}
Outcome evaluateRunningProduct(const Invocation &invocation) {
  return scanned<std::multiplies<Complex>>(invocation, 1);
}

constexpr Entry kEntries[] = {
    {"abs", toReal<magnitude>},
    {"acos", mapped<std::acos<double>>},
    {"acosh", mapped<std::acosh<double>>},
    {"add", mappedPair<std::plus<Complex>>},
    {"and", compared<And>},
    {"asin", mapped<std::asin<double>>},
    {"asinh", mapped<std::asinh<double>>},
    {"atan", mapped<std::atan<double>>},
    {"atanh", mapped<std::atanh<double>>},
    {"cast", evaluateCast},
    {"conj", mapped<conjugate>},
    {"cos", mapped<std::cos<double>>},
    {"cosh", mapped<std::cosh<double>>},
    {"cumulative_prod", evaluateRunningProduct},
    {"cumulative_sum", evaluateRunningSum},
    {"div", mappedPair<std::divides<Complex>>},
    {"equal", compared<std::equal_to<Complex>>},
    {"exp", mapped<std::exp<double>>},
    {"expm1", mapped<expMinusOne>},
    {"imag", toReal<imaginaryPart>},
    {"isfinite", tested<isFinite>},
    {"isinf", tested<isInfinite>},
    {"isnan", tested<isNan>},
    {"log", mapped<std::log<double>>},
    {"log10", mapped<log10Of>},
    {"log1p", mapped<logOnePlus>},
    {"log2", mapped<log2Of>},
    {"logical_not", tested<isZero>},
    {"mul", mappedPair<std::multiplies<Complex>>},
    {"neg", mapped<negated>},
    {"not_equal", compared<std::not_equal_to<Complex>>},
    {"or", compared<Or>},
    {"pow", mappedPair<Power>},
    {"prod", evaluateProduct},
    {"real", toReal<realPart>},
    {"reciprocal", mapped<reciprocal>},
    {"round", mapped<rounded>},
    {"sign", mapped<direction>},
    {"sin", mapped<std::sin<double>>},
    {"sinh", mapped<std::sinh<double>>},
    {"sqrt", mapped<std::sqrt<double>>},
    {"square", mapped<square>},
    {"sub", mappedPair<std::minus<Complex>>},
    {"sum", evaluateSum},
    {"tan", mapped<std::tan<double>>},
    {"tanh", mapped<hyperbolicTangent>},
    {"where", evaluateWhere},
    {"xor", compared<Xor>},
};

} // namespace

Evaluator complexEvaluator(std::string_view name) {
  for (const Entry &entry : kEntries)
    if (entry.name == name)
      return entry.evaluate;
  return nullptr;
}

} // namespace tensmith::eager

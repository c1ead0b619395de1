// The table of scalar operators; see Scalars.h.
#include "runtime/Scalars.h"

#include "reference/ScalarFunctions.h"

#include <array>
#include <functional>

namespace tensmith::runtime {
namespace {

using plan::ScalarOperator;
using plan::ScalarType;
using namespace reference;

constexpr size_t kOperators = size_t(ScalarOperator::MAX) + 1;

template <ScalarType type> auto wide(Scalar scalar) {
  if constexpr (type == ScalarType::Bool)
    return uint64_t(scalar.boolean);
  else if constexpr (type == ScalarType::I64)
    return scalar.i64;
  else
    return double(type == ScalarType::F32 ? double(scalar.f32) : scalar.f64);
}

template <ScalarType type, typename T> Scalar narrow(T value) {
  Scalar scalar{0};
  if constexpr (type == ScalarType::Bool)
    scalar.boolean = value != T(0);
  else if constexpr (type == ScalarType::I64 && std::is_same_v<T, double>)
    scalar.i64 = saturatedInteger(value);
  else if constexpr (type == ScalarType::I64)
    scalar.i64 = int64_t(value);
  else if constexpr (type == ScalarType::F32)
    scalar.f32 = float(value);
  else
    scalar.f64 = double(value);
  return scalar;
}

template <typename F, ScalarType type, ScalarType result> Scalar unary(const Scalar *x) {
  return narrow<result>(F()(wide<type>(x[0])));
}
template <typename F, ScalarType type, ScalarType result> Scalar binary(const Scalar *x) {
  return narrow<result>(F()(wide<type>(x[0]), wide<type>(x[1])));
}
Scalar choose(const Scalar *x) { return x[0].boolean ? x[1] : x[2]; }

/// The C library's functions, in double.
template <double (*f)(double)> struct Real {
  double operator()(double x) const { return f(x); }
};
struct Same {
  template <typename T> T operator()(T x) const { return x; }
};

struct Table {
  std::array<std::array<ScalarCode, kScalarTypes>, kOperators> codes{};

  template <typename F, ScalarType type, ScalarType result = type>
  constexpr void one(ScalarOperator op) {
    codes[size_t(op)][size_t(type)] = {unary<F, type, result>, result, 1};
  }
  template <typename F, ScalarType type, ScalarType result = type>
  constexpr void two(ScalarOperator op) {
    codes[size_t(op)][size_t(type)] = {binary<F, type, result>, result, 2};
  }
  template <typename F> constexpr void oneOfNumbers(ScalarOperator op) {
    one<F, ScalarType::I64>(op);
    oneOfFloats<F>(op);
  }
  template <typename F> constexpr void oneOfFloats(ScalarOperator op) {
    one<F, ScalarType::F32>(op);
    one<F, ScalarType::F64>(op);
  }
  template <typename F> constexpr void twoOfNumbers(ScalarOperator op) {
    two<F, ScalarType::I64>(op);
    two<F, ScalarType::F32>(op);
    two<F, ScalarType::F64>(op);
  }
  template <typename F> constexpr void compare(ScalarOperator op) {
    two<F, ScalarType::I64, ScalarType::Bool>(op);
    two<F, ScalarType::F32, ScalarType::Bool>(op);
    two<F, ScalarType::F64, ScalarType::Bool>(op);
  }
  template <ScalarType to> constexpr void cast(ScalarOperator op) {
    one<Same, ScalarType::Bool, to>(op);
    one<Same, ScalarType::I64, to>(op);
    one<Same, ScalarType::F32, to>(op);
    one<Same, ScalarType::F64, to>(op);
  }

  constexpr Table() {
    arithmetic();
    logic();
    functions();
    cast<ScalarType::Bool>(ScalarOperator::CastToBool);
    cast<ScalarType::I64>(ScalarOperator::CastToI64);
    cast<ScalarType::F32>(ScalarOperator::CastToF32);
    cast<ScalarType::F64>(ScalarOperator::CastToF64);
  }

  constexpr void arithmetic() {
    twoOfNumbers<Add>(ScalarOperator::Add);
    twoOfNumbers<Subtract>(ScalarOperator::Sub);
    twoOfNumbers<Multiply>(ScalarOperator::Mul);
    twoOfNumbers<Divide>(ScalarOperator::Div);
    twoOfNumbers<FloorRemainder>(ScalarOperator::Mod);
    twoOfNumbers<Minimum>(ScalarOperator::Min);
    twoOfNumbers<Maximum>(ScalarOperator::Max);
    twoOfNumbers<Power>(ScalarOperator::Pow);
    two<BitwiseAnd, ScalarType::I64>(ScalarOperator::BitwiseAnd);
    two<BitwiseOr, ScalarType::I64>(ScalarOperator::BitwiseOr);
    two<BitwiseXor, ScalarType::I64>(ScalarOperator::BitwiseXor);
    one<BitwiseNot, ScalarType::I64>(ScalarOperator::BitwiseNot);
  }

  constexpr void logic() {
    two<LogicalAnd, ScalarType::Bool>(ScalarOperator::And);
    two<LogicalOr, ScalarType::Bool>(ScalarOperator::Or);
    two<LogicalXor, ScalarType::Bool>(ScalarOperator::Xor);
    one<Not, ScalarType::Bool>(ScalarOperator::Not);
    two<std::equal_to<>, ScalarType::Bool>(ScalarOperator::Equal);
    compare<std::equal_to<>>(ScalarOperator::Equal);
    compare<std::less<>>(ScalarOperator::Less);
    compare<std::less_equal<>>(ScalarOperator::LessOrEqual);
    compare<std::greater<>>(ScalarOperator::Greater);
    compare<std::greater_equal<>>(ScalarOperator::GreaterOrEqual);
    for (int type = 0; type < kScalarTypes; ++type)
      codes[size_t(ScalarOperator::Where)][size_t(type)] = {choose, ScalarType(type), 3};
  }

  constexpr void functions() {
    oneOfNumbers<Negate>(ScalarOperator::Neg);
    oneOfNumbers<Absolute>(ScalarOperator::Abs);
    oneOfNumbers<Sign>(ScalarOperator::Sign);
    oneOfNumbers<Floor>(ScalarOperator::Floor);
    oneOfNumbers<Ceil>(ScalarOperator::Ceil);
    oneOfNumbers<RoundHalfToEven>(ScalarOperator::Round);
    oneOfFloats<Real<std::sqrt>>(ScalarOperator::Sqrt);
    oneOfFloats<Real<reciprocalSquareRoot>>(ScalarOperator::Rsqrt);
    oneOfFloats<Real<std::exp>>(ScalarOperator::Exp);
    oneOfFloats<Real<std::log>>(ScalarOperator::Log);
    oneOfFloats<Real<std::log1p>>(ScalarOperator::Log1p);
    oneOfFloats<Real<std::sin>>(ScalarOperator::Sin);
    oneOfFloats<Real<std::cos>>(ScalarOperator::Cos);
    oneOfFloats<Real<std::tanh>>(ScalarOperator::Tanh);
    oneOfFloats<Real<logistic>>(ScalarOperator::Sigmoid);
    one<IsNan, ScalarType::F32, ScalarType::Bool>(ScalarOperator::Isnan);
    one<IsNan, ScalarType::F64, ScalarType::Bool>(ScalarOperator::Isnan);
  }
};

constexpr Table kTable;
constexpr ScalarCode kNone;

} // namespace

DataType elementType(plan::ScalarType type) {
  constexpr DataType kTypes[] = {DataType::Bool, DataType::I64, DataType::F32, DataType::F64};
  return kTypes[size_t(type)];
}

const ScalarCode &scalarCode(uint32_t word) {
  uint32_t op = word & 0xff, type = word >> 8;
  return op < kOperators && type < kScalarTypes ? kTable.codes[op][type] : kNone;
}

} // namespace tensmith::runtime

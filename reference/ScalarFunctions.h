// What the elementwise operators do to one element: the meaning that the reference evaluation and
// the scalar instructions of programs share.
//
// Numbers come as double, int64_t or uint64_t (booleans as 0 and 1 of the last). Integers are
// computed modulo 2^64 and cut to their type when they are stored, which is wrapping at each step.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace tensmith::reference {

template <typename T> constexpr uint64_t wordOf(T value) { return uint64_t(value); }

struct Add {
  double operator()(double a, double b) const { return a + b; }
  template <typename T> T operator()(T a, T b) const { return T(wordOf(a) + wordOf(b)); }
};
struct Subtract {
  double operator()(double a, double b) const { return a - b; }
  template <typename T> T operator()(T a, T b) const { return T(wordOf(a) - wordOf(b)); }
};
struct Multiply {
  double operator()(double a, double b) const { return a * b; }
  template <typename T> T operator()(T a, T b) const { return T(wordOf(a) * wordOf(b)); }
};

/// Toward zero; 0 of a division by zero; the lowest divided by -1 wraps to itself.
struct Divide {
  double operator()(double a, double b) const { return a / b; }
  uint64_t operator()(uint64_t a, uint64_t b) const { return b == 0 ? 0 : a / b; }
  int64_t operator()(int64_t a, int64_t b) const {
    return b == 0 ? 0 : b == -1 ? int64_t(-wordOf(a)) : a / b;
  }
};

/// With the sign of b, as Python's %; 0 of a division by zero.
struct FloorRemainder {
  double operator()(double a, double b) const {
    double r = std::fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }
  uint64_t operator()(uint64_t a, uint64_t b) const { return b == 0 ? 0 : a % b; }
  int64_t operator()(int64_t a, int64_t b) const {
    int64_t r = b == 0 || b == -1 ? 0 : a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }
};
/// With the sign of a, as C's fmod and %.
struct TruncatedRemainder {
  double operator()(double a, double b) const { return std::fmod(a, b); }
  uint64_t operator()(uint64_t a, uint64_t b) const { return b == 0 ? 0 : a % b; }
  int64_t operator()(int64_t a, int64_t b) const { return b == 0 || b == -1 ? 0 : a % b; }
};

/// Of integers: by squaring, modulo 2^64; a negative exponent is a reciprocal, and 0 but for 1 and
/// -1.
struct Power {
  double operator()(double a, double b) const { return std::pow(a, b); }
  uint64_t operator()(uint64_t a, uint64_t b) const {
    uint64_t result = 1;
    for (; b != 0; b >>= 1, a *= a)
      if (b & 1)
        result *= a;
    return result;
  }
  int64_t operator()(int64_t a, int64_t b) const {
    if (b >= 0)
      return int64_t((*this)(wordOf(a), wordOf(b)));
    return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  }
};

struct Minimum {
  template <typename T> T operator()(T a, T b) const { return a != a || a < b ? a : b; }
};
struct Maximum {
  template <typename T> T operator()(T a, T b) const { return a != a || a > b ? a : b; }
};

struct BitwiseAnd {
  template <typename T> T operator()(T a, T b) const { return a & b; }
};
struct BitwiseOr {
  template <typename T> T operator()(T a, T b) const { return a | b; }
};
struct BitwiseXor {
  template <typename T> T operator()(T a, T b) const { return a ^ b; }
};

struct LogicalAnd {
  template <typename T> bool operator()(T a, T b) const { return a != T(0) && b != T(0); }
};
struct LogicalOr {
  template <typename T> bool operator()(T a, T b) const { return a != T(0) || b != T(0); }
};
struct LogicalXor {
  template <typename T> bool operator()(T a, T b) const { return (a != T(0)) != (b != T(0)); }
};

struct Absolute {
  double operator()(double x) const { return std::fabs(x); }
  uint64_t operator()(uint64_t x) const { return x; }
  int64_t operator()(int64_t x) const { return x < 0 ? int64_t(-uint64_t(x)) : x; }
};
struct Negate {
  double operator()(double x) const { return -x; }
  template <typename T> T operator()(T x) const { return T(-uint64_t(x)); }
};
struct Sign {
  template <typename T> T operator()(T x) const {
    return x != x ? x : T(int(x > T(0)) - int(x < T(0)));
  }
};
struct Ceil {
  double operator()(double x) const { return std::ceil(x); }
  template <typename T> T operator()(T x) const { return x; }
};
struct Floor {
  double operator()(double x) const { return std::floor(x); }
  template <typename T> T operator()(T x) const { return x; }
};
struct RoundHalfToEven {
  double operator()(double x) const { return std::nearbyint(x); }
  template <typename T> T operator()(T x) const { return x; }
};
struct Not {
  uint64_t operator()(uint64_t x) const { return x == 0; }
};
struct BitwiseNot {
  template <typename T> T operator()(T x) const { return ~x; }
};
struct IsNan {
  template <typename T> bool operator()(T x) const { return x != x; }
};

inline double reciprocalSquareRoot(double x) { return 1 / std::sqrt(x); }
inline double logistic(double x) { return 1 / (1 + std::exp(-x)); }

/// The integer next to a float toward zero; the nearest one of what is beyond, 0 of NaN.
inline int64_t saturatedInteger(double value) {
  if (std::isnan(value))
    return 0;
  if (value >= 0x1p63)
    return std::numeric_limits<int64_t>::max();
  return value <= -0x1p63 ? std::numeric_limits<int64_t>::min() : int64_t(value);
}

} // namespace tensmith::reference

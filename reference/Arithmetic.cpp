// Reference evaluation of the arithmetic of two operands: add to max, the bitwise operators and
// shifts.
//
// Integers are computed modulo 2^64 and cut to their type when they are stored, which is wrapping
// at each step.
#include "reference/Elementwise.h"

#include <cmath>
#include <limits>

namespace tensmith::reference {
namespace {

template <typename T> uint64_t bits(T value) { return uint64_t(value); }

struct Add {
  double operator()(double a, double b) const { return a + b; }
  template <typename T> T operator()(T a, T b) const { return T(bits(a) + bits(b)); }
};
struct Subtract {
  double operator()(double a, double b) const { return a - b; }
  template <typename T> T operator()(T a, T b) const { return T(bits(a) - bits(b)); }
};
struct Multiply {
  double operator()(double a, double b) const { return a * b; }
  template <typename T> T operator()(T a, T b) const { return T(bits(a) * bits(b)); }
};

/// Toward zero; 0 of a division by zero; the lowest divided by -1 wraps to itself.
struct Divide {
  double operator()(double a, double b) const { return a / b; }
  uint64_t operator()(uint64_t a, uint64_t b) const { return b == 0 ? 0 : a / b; }
  int64_t operator()(int64_t a, int64_t b) const {
    return b == 0 ? 0 : b == -1 ? int64_t(-bits(a)) : a / b;
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
      return int64_t((*this)(bits(a), bits(b)));
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

template <typename F> Outcome arithmetic(const Invocation &invocation) {
  return evaluateBinary<F>(invocation);
}
template <typename F> Outcome bitwise(const Invocation &invocation) {
  return evaluateBinary<F, /*Floats=*/false>(invocation);
}

Outcome evaluateMod(const Invocation &invocation) {
  return invocation.attributes.integer("fmod") ? evaluateBinary<TruncatedRemainder>(invocation)
                                               : evaluateBinary<FloorRemainder>(invocation);
}

Outcome evaluatePow(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &a = workspace.operand(0, "a"), &b = workspace.operand(1, "b");
  if (!workspace.ok())
    return workspace.status();
  // The exponent decides between integers: what matters of it is its sign.
  DataType computed = isFloat(a.type()) ? a.type() : b.type();
  return withWideType(computed, [&](auto wide) {
    using T = decltype(wide);
    return mapBinary<T>(workspace, a, b, a.type(), applyBinary<Power, T>);
  });
}

/// Shifts of integers whose amount may be of another type. By 64 or more, or by a negative amount,
/// every bit has left: what stays is zero, or the sign where it is shifted in from the left.
template <typename T, bool Left> void shiftRun(const T *a, const T *b, T *c, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    bool inRange = bits(b[i]) < 64;
    T beyond = !Left && a[i] < T(0) ? T(-1) : T(0);
    c[i] = !inRange ? beyond : Left ? T(bits(a[i]) << b[i]) : T(a[i] >> b[i]);
  }
}

Outcome evaluateBitShift(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &a = workspace.operand(0, "a"), &b = workspace.operand(1, "b");
  if (!workspace.ok())
    return workspace.status();
  bool left = invocation.attributes.integer("left", 1) != 0;
  return withWideType(a.type(), [&](auto wide) -> Outcome {
    using T = decltype(wide);
    if constexpr (std::is_same_v<T, double>)
      return refuseFloats(invocation, a);
    else
      return mapBinary<T>(workspace, a, b, a.type(), left ? shiftRun<T, true> : shiftRun<T, false>);
  });
}

constexpr Entry kEntries[] = {
    {"add", arithmetic<Add>},
    {"sub", arithmetic<Subtract>},
    {"mul", arithmetic<Multiply>},
    {"div", arithmetic<Divide>},
    {"mod", evaluateMod},
    {"pow", evaluatePow},
    {"min", arithmetic<Minimum>},
    {"max", arithmetic<Maximum>},
    {"bitwise_and", bitwise<BitwiseAnd>},
    {"bitwise_or", bitwise<BitwiseOr>},
    {"bitwise_xor", bitwise<BitwiseXor>},
    {"bit_shift", evaluateBitShift},
};

} // namespace

std::span<const Entry> arithmeticEntries() { return kEntries; }

} // namespace tensmith::reference

// Reference evaluation of the arithmetic of two operands: add to max, the bitwise operators and
// shifts.
//
// Integers are computed modulo 2^64 and cut to their type when they are stored, which is wrapping
// at each step.
#include "reference/Elementwise.h"
#include "reference/ScalarFunctions.h"

namespace tensmith::reference {
namespace {

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
    bool inRange = wordOf(b[i]) < 64;
    T beyond = !Left && a[i] < T(0) ? T(-1) : T(0);
    c[i] = !inRange ? beyond : Left ? T(wordOf(a[i]) << b[i]) : T(a[i] >> b[i]);
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

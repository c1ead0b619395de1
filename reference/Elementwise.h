// The frame of the elementwise operators: operands broadcast together, computed run by run in
// double, int64_t or uint64_t as their type asks, and stored with one rounding.
//
// An operator is a function object whose call operator takes numbers of one of those types. What it
// isn't called with (a bitwise operation with double) it need not accept.
#pragma once

#include "reference/Elements.h"
#include "reference/Workspace.h"

namespace tensmith::reference {

/// The shape that the tensors broadcast to (NumPy's rule); rejects operands that don't.
Shape broadcastShape(Workspace &workspace, std::span<const HostTensor *const> tensors,
                     std::span<const std::string_view> names);

template <typename T> using UnaryKernel = void (*)(const T *x, T *y, int64_t count);
template <typename T> using BinaryKernel = void (*)(const T *a, const T *b, T *c, int64_t count);

template <typename T>
Outcome mapUnary(Workspace &workspace, const HostTensor &x, DataType type, UnaryKernel<T> kernel);
template <typename T>
Outcome mapBinary(Workspace &workspace, const HostTensor &a, const HostTensor &b, DataType type,
                  BinaryKernel<T> kernel);

template <typename F, typename T> void applyUnary(const T *x, T *y, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    y[i] = T(F()(x[i]));
}
template <typename F, typename T> void applyBinary(const T *a, const T *b, T *c, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    c[i] = T(F()(a[i], b[i]));
}

/// Rejects operands of different types; for the operators that have no other rule.
inline void requireSameType(Workspace &workspace, const HostTensor &a, const HostTensor &b) {
  if (workspace.ok() && a.type() != b.type())
    workspace.reject("b", "is of type " + std::string(name(b.type())) + ", but a is of type " +
                              std::string(name(a.type())));
}

inline Outcome refuseFloats(const Invocation &invocation, const HostTensor &x) {
  return unsupported(std::string(invocation.name) + ": operands of type " +
                     std::string(name(x.type())) + " are not handled, only integers are");
}

/// F on operands of one type; the result is of `result`, or of that type where it is Undefined.
template <typename F, bool Floats = true>
Outcome evaluateBinary(const Invocation &invocation, DataType result = DataType::Undefined) {
  Workspace workspace(invocation);
  const HostTensor &a = workspace.operand(0, "a"), &b = workspace.operand(1, "b");
  requireSameType(workspace, a, b);
  if (!workspace.ok())
    return workspace.status();
  DataType type = result == DataType::Undefined ? a.type() : result;
  return withWideType(a.type(), [&](auto wide) -> Outcome {
    using T = decltype(wide);
    if constexpr (!Floats && std::is_same_v<T, double>)
      return refuseFloats(invocation, a);
    else
      return mapBinary<T>(workspace, a, b, type, applyBinary<F, T>);
  });
}

/// As for two operands.
template <typename F, bool Floats = true>
Outcome evaluateUnary(const Invocation &invocation, DataType result = DataType::Undefined) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x");
  if (!workspace.ok())
    return workspace.status();
  DataType type = result == DataType::Undefined ? x.type() : result;
  return withWideType(x.type(), [&](auto wide) -> Outcome {
    using T = decltype(wide);
    if constexpr (!Floats && std::is_same_v<T, double>)
      return refuseFloats(invocation, x);
    else
      return mapUnary<T>(workspace, x, type, applyUnary<F, T>);
  });
}

} // namespace tensmith::reference

// How a function reports failure without throwing: a code for programs and a message for people.
//
// A message names what was wrong (file, node, operand), and what to do. Nothing throws across the
// layers.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace tensmith {

enum class StatusCode : uint8_t {
  Ok = 0,
  InvalidArgument, // the caller's input: wrong name, rank, size or type
  InvalidModel,    // the model file is damaged or breaks its specification
  InvalidModule,   // the module file is damaged, of another version or for another machine
  Unsupported,     // valid, but not done here yet
  ResourceExhausted,
  IoError,
  Internal, // a mistake of ours
};

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::Ok; }
  StatusCode code() const { return code_; }
  const std::string &message() const { return message_; }

  /// The same failure with `context` before its message: "model.onnx: node 'conv1': ...". Layers
  /// say where they are without asking each other, so what the message begins with of it already,
  /// the file or the node, is there once.
  Status within(std::string_view context) const;

private:
  StatusCode code_ = StatusCode::Ok;
  std::string message_;
};

inline Status invalidArgument(std::string message) {
  return {StatusCode::InvalidArgument, std::move(message)};
}
inline Status unsupported(std::string message) {
  return {StatusCode::Unsupported, std::move(message)};
}

/// A value, or the reason why there is none.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status &status() const { return status_; }
  T &operator*() { return *value_; }
  const T &operator*() const { return *value_; }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }

private:
  std::optional<T> value_;
  Status status_;
};

} // namespace tensmith

// A dense, row-major tensor in host memory: what constants are kept in, and what the reference
// evaluator takes and gives. (What a program takes and gives, tensors among it, is in
// runtime/Tensor.h.)
#pragma once

#include "base/DataType.h"
#include "base/Status.h"

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tensmith {

using Shape = std::vector<int64_t>;

/// More elements than any tensor has; so many, of any type, are counted in bytes by a size_t.
inline constexpr int64_t kMostElements = int64_t(1) << (sizeof(size_t) == 8 ? 48 : 27);

/// The product of the dimensions, or nothing where it overflows, a dimension is negative, or it
/// exceeds `limit`.
std::optional<int64_t> elementCount(std::span<const int64_t> shape, int64_t limit = kMostElements);

/// "2x3x224", or "scalar".
std::string toString(std::span<const int64_t> shape);

class HostTensor {
public:
  HostTensor() = default;

  /// Zero-filled. Without storage, and not `valid`, if the memory can't be had or the shape has no
  /// element count; its size is -1 in the second case.
  HostTensor(DataType type, Shape shape);

  /// On memory of somebody else's, kept alive by `owner`; never written to through `mutableData`.
  HostTensor(DataType type, Shape shape, const void *data, std::shared_ptr<const void> owner);

  template <typename T> static HostTensor of(DataType type, Shape shape, std::span<const T> values);
  static HostTensor ofStrings(Shape shape, std::vector<std::string> values);

  bool valid() const { return data_ != nullptr || count_ == 0 || strings_ != nullptr; }
  DataType type() const { return type_; }
  const Shape &shape() const { return shape_; }
  int64_t rank() const { return int64_t(shape_.size()); }
  int64_t size() const { return count_; }
  int64_t bytes() const { return count_ * byteSize(type_); }

  const std::byte *data() const { return data_; }
  std::byte *mutableData() {
    assert(writable_ && "a borrowed tensor is read-only");
    return const_cast<std::byte *>(data_);
  }
  template <typename T> std::span<const T> as() const {
    return {reinterpret_cast<const T *>(data_), size_t(count_)};
  }
  template <typename T> std::span<T> as() {
    return {reinterpret_cast<T *>(mutableData()), size_t(count_)};
  }

  // Any element by value, converted: what keeps the reference evaluator free of a template for each
  // type. Integers wrap, floats round to nearest even (F32, F16, BF16) or saturate (8-bit and
  // smaller).
  double getDouble(int64_t index) const;
  int64_t getInt(int64_t index) const; // U64 as its two's complement
  void setDouble(int64_t index, double value);
  void setInt(int64_t index, int64_t value);
  const std::string &getString(int64_t index) const { return (*strings_)[size_t(index)]; }
  void setString(int64_t index, std::string value) {
    (*strings_)[size_t(index)] = std::move(value);
  }

  /// The same elements under another shape of the same count.
  HostTensor reshaped(Shape shape) const;

private:
  DataType type_ = DataType::Undefined;
  bool writable_ = true;
  Shape shape_;
  int64_t count_ = 0;
  const std::byte *data_ = nullptr;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<std::vector<std::string>> strings_;
};

template <typename T>
HostTensor HostTensor::of(DataType type, Shape shape, std::span<const T> values) {
  HostTensor result(type, std::move(shape));
  assert(int64_t(values.size()) == result.size() && int64_t(sizeof(T)) == byteSize(type));
  if (!values.empty()) // the data of an empty span may be null, which memcpy must not be given
    std::memcpy(result.mutableData(), values.data(), values.size_bytes());
  return result;
}

} // namespace tensmith

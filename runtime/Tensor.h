// The values that a program takes and gives: dense, row-major tensors in host memory, sequences of
// them, maps, and the absent value.
//
// A Tensor is an immutable description counted by reference. Elements that are not many lie behind
// the description in one block, since programs make small tensors by the million; otherwise the
// memory is owned separately, and several tensors (a reshape, a DLPack view) may share it. A tensor
// without either lies in memory that outlives it only by the plan's care (an arena, a caller's
// buffer): it never leaves a run.
//
// A map's elements are two vectors: its keys in order, each there once, and its values.
//
// Values of data types and functions are tensors of another kind, with fields in the place of
// elements. What they are made of owns its memory, so that they may outlive any frame; they may be
// nested as deep as memory allows, and are let go of without recursion.
#pragma once

#include "base/HostTensor.h"
#include "runtime/Memory.h"

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tensmith::runtime {

enum class TensorKind : uint8_t { // as ts_value_kind
  Tensor = 0,
  Sequence = 1,
  None = 2,
  Data = 4,
  Function = 5,
  Reference = 6, // within a run alone, whose References has them
  Map = 7,
};

class Device;
class Tensor;

/// A counted reference.
class TensorRef {
public:
  TensorRef() = default;
  /// Takes over one count.
  explicit TensorRef(Tensor *tensor) : tensor_(tensor) {}
  TensorRef(const TensorRef &other);
  TensorRef(TensorRef &&other) noexcept : tensor_(std::exchange(other.tensor_, nullptr)) {}
  TensorRef &operator=(TensorRef other) noexcept {
    std::swap(tensor_, other.tensor_);
    return *this;
  }
  ~TensorRef();

  static TensorRef retain(Tensor *tensor);

  Tensor *get() const { return tensor_; }
  Tensor *operator->() const { return tensor_; }
  Tensor &operator*() const { return *tensor_; }
  explicit operator bool() const { return tensor_ != nullptr; }
  Tensor *release() { return std::exchange(tensor_, nullptr); }

private:
  Tensor *tensor_ = nullptr;
};

class Tensor {
public:
  /// Uninitialised memory. Errors: InvalidArgument for an impossible type or shape,
  /// ResourceExhausted.
  static Result<TensorRef> create(DataType type, std::span<const int64_t> shape);
  /// The same in the device's memory; null: the host's.
  static Result<TensorRef> create(DataType type, std::span<const int64_t> shape, Device *device);
  /// Tensors of numbers, all alike and with few elements, in one block that is let go of with the
  /// last of them.
  static Status createTogether(DataType type, const Shape &shape, std::span<TensorRef> tensors);
  /// On memory of somebody else's that `owner` keeps alive (null: nobody does, see above).
  static Result<TensorRef> on(DataType type, std::span<const int64_t> shape, void *data,
                              std::shared_ptr<const void> owner);
  /// Of a tensor that is on such memory: made after it, where the owner's end must not come before
  /// it is known that there is a tensor.
  void keep(std::shared_ptr<const void> owner) { owner_ = std::move(owner); }
  static Result<TensorRef> ofStrings(std::vector<std::string> values,
                                     std::span<const int64_t> shape);
  static TensorRef sequence(std::vector<TensorRef> elements);
  /// Of keys that are in order, as `makeMap` puts them. The tensors must own their memory.
  static TensorRef map(TensorRef keys, TensorRef values);
  static TensorRef none();
  /// A rank-0 tensor of a type that is no string.
  static Result<TensorRef> scalar(DataType type, const void *value);
  /// A value of a data type or a function whose `count` elements are null and to be filled in
  /// through `fill` before anybody else sees it; null where there is no memory.
  static TensorRef unfilled(TensorKind kind, uint32_t tag, size_t count);
  TensorRef *fill() { return elements_; }
  /// A value of a data type: its constructor's number and fields.
  static TensorRef data(uint32_t tag, std::vector<TensorRef> fields);
  /// The procedure with its first arguments.
  static TensorRef function(uint32_t procedure, std::vector<TensorRef> captured);

  TensorKind kind() const { return kind_; }
  /// A reference that refers to nothing any more is the absent value.
  TensorRef endReference() {
    kind_ = TensorKind::None;
    return std::move(elements_[0]);
  }
  DataType type() const { return type_; }
  /// A data value's constructor, or a function's procedure.
  uint32_t tag() const { return tag_; }
  const Shape &shape() const { return *shape_; }
  int64_t size() const { return size_; }
  int64_t bytes() const { return size_ * byteSize(type_); }
  std::byte *data() const { return data_; }
  /// Of whose memory `data` is a handle; null: it is the host's.
  Device *device() const { return device_; }
  void setDevice(Device *device) { device_ = device; }
  const std::vector<std::string> &strings() const;
  std::span<const TensorRef> elements() const { return {elements_, count_}; }

  /// Whether the one reference to it is all that leads to its elements, and they lie as those of a
  /// new tensor do.
  bool isAlone() const;
  /// Whether nothing of it depends on memory that the run will reuse.
  bool ownsMemory() const;
  /// The same elements under another shape of the same count.
  Result<TensorRef> reshaped(std::span<const int64_t> shape) const;
  /// A deep copy.
  Result<TensorRef> copy() const;

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      destroy();
  }

private:
  Tensor() = default;
  ~Tensor() = default;
  /// A description with `bytes` of memory behind it; null where there is none.
  static Tensor *allocate(size_t bytes);
  struct Together;
  /// With all that nothing else refers to, however deep.
  void destroy();
  void free();
  /// What keeps the elements alive for another tensor on them.
  std::shared_ptr<const void> share() const;

  std::atomic<int64_t> references_{1};
  TensorKind kind_ = TensorKind::Tensor;
  DataType type_ = DataType::Undefined;
  bool inside_ : 1 = false; // the elements lie behind the description
  uint8_t blockSize_ = 0;   // its number among the sizes that are kept for reuse
  uint32_t tag_ = 0;
  Shape ownShape_;
  const Shape *shape_ = &ownShape_; // or one that several share
  int64_t size_ = 0;
  std::byte *data_ = nullptr;
  Device *device_ = nullptr;
  std::shared_ptr<const void> owner_;
  Charge charge_; // for the description and what lies behind it
  std::unique_ptr<std::vector<std::string>> strings_;
  TensorRef *elements_ = nullptr; // behind the description
  size_t count_ = 0;
  Together *together_ = nullptr; // the block that this one lies in with others
};

inline TensorRef TensorRef::retain(Tensor *tensor) {
  if (tensor)
    tensor->retain();
  return TensorRef(tensor);
}
inline TensorRef::TensorRef(const TensorRef &other) : tensor_(other.tensor_) {
  if (tensor_)
    tensor_->retain();
}
inline TensorRef::~TensorRef() {
  if (tensor_)
    tensor_->release();
}

/// "f32[1,3,224,224]", "sequence of 3", "none".
std::string describe(const Tensor &tensor);
std::string describe(DataType type, std::span<const int64_t> shape);

/// A map of keys in any order; the tensors must own their memory. InvalidArgument where they are
/// not as many, a key is there twice, or keys are neither i64 nor strings.
Result<TensorRef> makeMap(TensorRef keys, TensorRef values);

/// The same elements without a copy, but for strings. The tensor lives as long as the result.
HostTensor toHostTensor(const TensorRef &tensor);
/// The same the other way round: the result keeps the host tensor's memory.
Result<TensorRef> fromHostTensor(HostTensor tensor);

} // namespace tensmith::runtime

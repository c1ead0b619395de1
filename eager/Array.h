// Eager tensors: a type, a shape, and strides over memory that several arrays may share, as NumPy's
// ndarray has them.
//
// A view is an array on another one's storage: a write through one is seen through all. What orders
// reads and writes is the storage's variable in the engine, so an element may be looked at only
// after Engine::wait for that variable. An Array is a handle: copies share everything, also its
// shape and strides, and so take no memory; tapes and steps keep several of each operand.
#pragma once

#include "base/Budget.h"
#include "base/HostTensor.h"
#include "eager/Device.h"
#include "eager/Engine.h"

#include <atomic>
#include <memory>
#include <optional>

namespace tensmith::eager {

struct Leaf;
struct Snapshot;
class Tape;

/// Memory of one array and its views.
struct Storage {
  std::byte *data = nullptr; // on the host
  int64_t bytes = 0;
  const Device *device = nullptr;         // that it lies on; null: the host
  std::unique_ptr<DeviceMemory> onDevice; // once there is memory
  bool writable = true;
  std::shared_ptr<const void> owner; // what keeps the memory
  Charge charge;                     // of memory that was set aside for it
  Variable variable;
  /// Owners and views outside the engine, as NumPy's arrays. They read and write whenever they
  /// like, so while there is one, an operation on the storage is done before whoever issues it goes
  /// on.
  std::atomic<int> sharers{0};
  std::shared_ptr<Leaf> leaf;         // of what derivatives are asked for; else null
  std::shared_ptr<Snapshot> snapshot; // the last one of memory that others may write
  std::shared_ptr<Tape> history;      // the tape that has recorded how it was computed (Tape.h)
  /// How many steps under way have met it, and may not have computed it yet (Coexecution.h). Of
  /// what stands for a tensor of a recorded step: 1, always.
  int steps = 0;

  bool isShared() const { return sharers.load(std::memory_order_relaxed) > 0; }
};

using Strides = std::vector<int64_t>; // in elements; may be zero or negative

class Array {
public:
  Array() = default;
  /// Of memory that is set aside, row-major. Before there is none (ResourceExhausted), operations
  /// under way are waited for: they may hold memory that nobody else needs.
  static Result<Array> allocate(DataType type, Shape shape, const Device *device = nullptr);
  /// Of memory that is set aside by `provide`, before anything is written.
  static Result<Array> later(DataType type, Shape shape, const Device *device = nullptr);
  static Result<Array> later(const Array &like, const Device *device = nullptr); // type and shape
  Status provide() const;
  /// Of the same form on the same memory, with another storage: what was known of the memory or
  /// failed with it is no more. This array is empty then. Nothing, and it is what it was, where
  /// anybody else has its storage or the memory, as an operation under way does.
  std::optional<Array> reused() &&;
  /// On the memory of a host tensor, which nobody else may change.
  static Array adopt(HostTensor tensor);
  /// On memory of somebody else's, who keeps sharing it.
  static Array borrow(DataType type, Shape shape, Strides strides, void *data, bool writable,
                      std::shared_ptr<const void> owner);

  explicit operator bool() const { return storage_ != nullptr; }
  DataType type() const { return form().type; }
  const Shape &shape() const { return form().shape; }
  const Strides &strides() const { return form().strides; }
  int64_t rank() const { return int64_t(shape().size()); }
  int64_t size() const { return form().size; }
  int64_t offset() const { return form().offset; }
  bool isDense() const; // row-major without gaps
  bool hasForm(const Array &other) const { return form_ == other.form_ || form() == other.form(); }
  const std::shared_ptr<Storage> &storage() const { return storage_; }
  VariableRef variable() const { return {storage_, &storage_->variable}; }
  const Device *device() const { return storage_->device; }
  /// The host's memory, to read, or to write some elements of.
  const std::byte *elements() const {
    if (storage_->onDevice) [[unlikely]]
      storage_->onDevice->readOnHost();
    return storage_->data + offset() * byteSize(type());
  }
  std::byte *data() const {
    if (storage_->onDevice) [[unlikely]]
      storage_->onDevice->writeOnHost();
    return storage_->data + offset() * byteSize(type());
  }

  /// The same place of another storage, or of none: what is left to say of a tensor without it.
  Array on(std::shared_ptr<Storage> storage) const { return {form_, std::move(storage)}; }
  /// The same storage seen otherwise; the caller answers for the bounds.
  Array view(Shape shape, Strides strides, int64_t offset) const;
  /// One of NumPy's broadcasts; nothing where the shapes don't fit, or where the result's has no
  /// elementCount: a negative size, or too many elements.
  std::optional<Array> broadcastTo(const Shape &shape) const;
  /// The same elements in row-major order under another shape, where strides can say so.
  std::optional<Array> reshaped(const Shape &shape) const;
  Array permuted(std::span<const int64_t> axes) const;
  /// A complex array's real or imaginary parts, as floats.
  Array part(bool imaginary) const;

  /// Dense elements as a host tensor on this memory, to read. Requires isDense and that the
  /// variable is ready.
  HostTensor asHostTensor() const;

private:
  /// How elements lie in a storage. Never changes, since several arrays share it.
  struct Form {
    DataType type = DataType::Undefined;
    Shape shape = {};
    Strides strides = {};
    int64_t offset = 0, size = 0; // elements
    bool operator==(const Form &) const = default;
  };
  Array(std::shared_ptr<const Form> form, std::shared_ptr<Storage> storage)
      : form_(std::move(form)), storage_(std::move(storage)) {}
  Array(Form form, std::shared_ptr<Storage> storage)
      : Array(std::make_shared<const Form>(std::move(form)), std::move(storage)) {}
  const Form &form() const { return form_ ? *form_ : kNone; }
  static const Form kNone;

  std::shared_ptr<const Form> form_; // null: of no type
  std::shared_ptr<Storage> storage_;
};

/// A tensor that derivatives are taken by wherever it is used (`requires_grad`), and their sum so
/// far.
struct Leaf {
  Shape shape;    // of the tensor, which is dense and all of its storage
  Array gradient; // none yet where it has no storage
};

/// Row-major strides.
Strides denseStrides(std::span<const int64_t> shape);

/// The memory of the machine, which all arrays of the process are charged to: one that is too large
/// is a failure in words, and not the end of the process.
Resources resourcesOfProcess();

/// What the shapes broadcast to, by NumPy's rule.
std::optional<Shape> broadcastShapes(std::span<const Shape *const> shapes);

/// The device of those arrays that lie on one; null: all are the host's. An error where there are
/// several.
Result<const Device *> deviceOf(std::span<const Array> arrays);

/// The same elements on a device, or the host (null); `array` itself where it lies there. Its
/// variable is ready.
Result<Array> on(const Device *device, const Array &array);

/// Copies elements of one type between arrays of one shape, whose variables are ready. Of memory
/// that overlaps the source is read first where that matters, which takes a copy: ResourceExhausted
/// where there is no memory for it, and nothing is written.
[[nodiscard]] Status copyElements(const Array &to, const Array &from);

/// A dense array of the same elements, which is `array` itself where that is dense.
Result<Array> dense(const Array &array);

} // namespace tensmith::eager

// Views are arithmetic on strides; copies go by rows of what both sides walk alike.
#include "eager/Array.h"

#include "reference/Elements.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace tensmith::eager {
namespace {

template <typename Word>
void copyRow(std::byte *to, int64_t toStep, const std::byte *from, int64_t fromStep,
             int64_t count) {
  auto *t = reinterpret_cast<Word *>(to);
  auto *f = reinterpret_cast<const Word *>(from);
  for (int64_t i = 0; i < count; ++i)
    t[i * toStep] = f[i * fromStep];
}

struct Word16 {
  uint64_t a, b;
};

void copyRowOf(int64_t bytes, std::byte *to, int64_t toStep, const std::byte *from,
               int64_t fromStep, int64_t count) {
  if (toStep == 1 && fromStep == 1) {
    std::memcpy(to, from, size_t(count * bytes));
    return;
  }
  switch (bytes) {
  case 1:
    return copyRow<uint8_t>(to, toStep, from, fromStep, count);
  case 2:
    return copyRow<uint16_t>(to, toStep, from, fromStep, count);
  case 4:
    return copyRow<uint32_t>(to, toStep, from, fromStep, count);
  case 8:
    return copyRow<uint64_t>(to, toStep, from, fromStep, count);
  default:
    return copyRow<Word16>(to, toStep, from, fromStep, count);
  }
}

/// Whether a write through one may change what is read through the other, other than in place.
bool mayOverlap(const Array &to, const Array &from) {
  return to.storage() == from.storage() &&
         !(to.offset() == from.offset() && to.strides() == from.strides());
}

/// False where there is no such memory.
bool setAside(Storage &storage, int64_t bytes) {
  ResourceScope scope(resourcesOfProcess());
  constexpr size_t kAlignment = 64;
  Charge charge;
  // Not `aligned_alloc`, which does not find the memory again that it has cut to the same size.
  void *memory = charge.take(bytes) ? std::malloc(size_t(bytes) + kAlignment) : nullptr;
  if (!memory)
    return false;
  void *aligned = memory;
  size_t room = size_t(bytes) + kAlignment;
  std::align(kAlignment, size_t(bytes), aligned, room);
  storage.charge = std::move(charge);
  storage.owner =
      std::shared_ptr<const void>(memory, [](const void *p) { std::free(const_cast<void *>(p)); });
  storage.data = static_cast<std::byte *>(aligned);
  return true;
}

/// Waits once for all operations under way, where that may give memory back.
bool setAsideWhenFree(Storage &storage, int64_t bytes) {
  if (setAside(storage, bytes))
    return true;
  Engine &engine = Engine::ofProcess();
  if (Engine::isInTask() || engine.isIdle())
    return false;
  engine.waitForAll();
  return setAside(storage, bytes);
}

} // namespace

Result<Array> Array::allocate(DataType type, Shape shape) {
  Result<Array> result = later(type, std::move(shape));
  if (result.ok())
    if (Status status = result->provide(); !status.ok())
      return status;
  return result;
}

Status Array::provide() const {
  if (storage_->data || storage_->bytes == 0 || setAsideWhenFree(*storage_, storage_->bytes))
    return {};
  return Status(StatusCode::ResourceExhausted, "there is no memory for a tensor of shape " +
                                                   toString(shape_) + " (" +
                                                   std::to_string(storage_->bytes) + " bytes)");
}

Result<Array> Array::later(DataType type, Shape shape) {
  Array result;
  std::optional<int64_t> count = elementCount(shape);
  if (!count)
    return Status(StatusCode::ResourceExhausted,
                  "a tensor of shape " + toString(shape) + " has too many elements");
  result.storage_ = std::make_shared<Storage>();
  result.storage_->bytes = *count * byteSize(type);
  result.type_ = type;
  result.size_ = *count;
  result.strides_ = denseStrides(shape);
  result.shape_ = std::move(shape);
  return result;
}

Array Array::adopt(HostTensor tensor) {
  auto keeper = std::make_shared<const HostTensor>(std::move(tensor));
  Array result = borrow(keeper->type(), keeper->shape(), denseStrides(keeper->shape()),
                        const_cast<std::byte *>(keeper->data()), true, keeper);
  result.storage_->sharers = 0;
  return result;
}

Array Array::borrow(DataType type, Shape shape, Strides strides, void *data, bool writable,
                    std::shared_ptr<const void> owner) {
  Array result;
  result.type_ = type;
  result.size_ = elementCount(shape).value_or(0);
  result.shape_ = std::move(shape);
  result.strides_ = std::move(strides);
  result.storage_ = std::make_shared<Storage>();
  result.storage_->data = static_cast<std::byte *>(data);
  result.storage_->bytes = result.size_ * byteSize(type);
  result.storage_->writable = writable;
  result.storage_->owner = std::move(owner);
  result.storage_->sharers = 1;
  return result;
}

bool Array::isDense() const {
  int64_t expected = 1;
  for (size_t axis = shape_.size(); axis-- > 0; expected *= shape_[axis])
    if (shape_[axis] != 1 && strides_[axis] != expected)
      return size_ == 0;
  return true;
}

Array Array::view(Shape shape, Strides strides, int64_t offset) const {
  Array result = *this;
  result.size_ = elementCount(shape).value_or(0);
  result.shape_ = std::move(shape);
  result.strides_ = std::move(strides);
  result.offset_ = offset;
  return result;
}

std::optional<Array> Array::broadcastTo(const Shape &shape) const {
  if (shape.size() < shape_.size() || !elementCount(shape))
    return std::nullopt;
  Strides strides(shape.size(), 0);
  size_t lead = shape.size() - shape_.size();
  for (size_t axis = 0; axis < shape_.size(); ++axis) {
    if (shape_[axis] == shape[lead + axis])
      strides[lead + axis] = strides_[axis];
    else if (shape_[axis] != 1)
      return std::nullopt;
  }
  return view(shape, std::move(strides), offset_);
}

std::optional<Array> Array::reshaped(const Shape &shape) const {
  if (isDense() || size_ == 0)
    return view(shape, denseStrides(shape), offset_);
  // Runs of dimensions that are walked as one may be cut anew; a run's size is a product of new
  // dimensions.
  Shape sizes;
  Strides steps;
  for (size_t axis = 0; axis < shape_.size(); ++axis) {
    if (shape_[axis] == 1)
      continue;
    if (!sizes.empty() && steps.back() == strides_[axis] * shape_[axis]) {
      sizes.back() *= shape_[axis];
      steps.back() = strides_[axis];
    } else {
      sizes.push_back(shape_[axis]);
      steps.push_back(strides_[axis]);
    }
  }
  Strides strides(shape.size(), 0);
  size_t run = sizes.size();
  int64_t left = 1, step = 0; // of the run that is being cut, from its end
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] == 1)
      continue;
    if (left == 1) {
      if (run == 0)
        return std::nullopt;
      --run;
      left = sizes[run];
      step = steps[run];
    }
    if (left % shape[axis] != 0)
      return std::nullopt;
    strides[axis] = step;
    step *= shape[axis];
    left /= shape[axis];
  }
  return view(shape, std::move(strides), offset_);
}

Array Array::permuted(std::span<const int64_t> axes) const {
  Shape shape;
  Strides strides;
  for (int64_t axis : axes) {
    shape.push_back(shape_[size_t(axis)]);
    strides.push_back(strides_[size_t(axis)]);
  }
  return view(std::move(shape), std::move(strides), offset_);
}

Array Array::part(bool imaginary) const {
  Array result = *this;
  result.type_ = type_ == DataType::C64 ? DataType::F32 : DataType::F64;
  for (int64_t &stride : result.strides_)
    stride *= 2;
  result.offset_ = 2 * offset_ + imaginary;
  return result;
}

HostTensor Array::asHostTensor() const { return HostTensor(type_, shape_, data(), storage_); }

Resources resourcesOfProcess() {
  static const auto budget = std::make_shared<Budget>(0);
  return {budget};
}

Strides denseStrides(std::span<const int64_t> shape) {
  Strides strides(shape.size());
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0; stride *= shape[axis])
    strides[axis] = stride;
  return strides;
}

std::optional<Shape> broadcastShapes(std::span<const Shape *const> shapes) {
  Shape result;
  for (const Shape *shape : shapes) {
    if (shape->size() > result.size())
      result.insert(result.begin(), shape->size() - result.size(), 1);
    size_t lead = result.size() - shape->size();
    for (size_t axis = 0; axis < shape->size(); ++axis) {
      int64_t &size = result[lead + axis];
      if (size == 1)
        size = (*shape)[axis];
      else if ((*shape)[axis] != 1 && (*shape)[axis] != size)
        return std::nullopt;
    }
  }
  return result;
}

Status copyElements(const Array &to, const Array &from) {
  if (to.size() == 0)
    return {};
  if (mayOverlap(to, from) && !(from.size() == 1)) {
    Result<Array> apart = Array::allocate(from.type(), from.shape());
    if (!apart.ok())
      return apart.status();
    if (Status status = copyElements(*apart, from); !status.ok())
      return status;
    return copyElements(to, *apart);
  }
  int64_t bytes = byteSize(to.type());
  auto loop = reference::mergeDimensions<2>(to.shape(), {to.strides(), from.strides()});
  reference::forEachRow(loop, [&](const auto &offsets, const auto &steps, int64_t count) {
    copyRowOf(bytes, to.data() + offsets[0] * bytes, steps[0], from.data() + offsets[1] * bytes,
              steps[1], count);
  });
  return {};
}

Result<Array> dense(const Array &array) {
  if (array.isDense())
    return array;
  Result<Array> result = Array::allocate(array.type(), array.shape());
  if (!result.ok())
    return result;
  if (Status status = copyElements(*result, array); !status.ok())
    return status;
  return result;
}

} // namespace tensmith::eager

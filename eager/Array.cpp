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

/// Until all operations under way are done, which may give memory back; false where there are none.
bool waitsForOthers() {
  Engine &engine = Engine::ofProcess();
  if (Engine::isInTask() || engine.isIdle())
    return false;
  engine.waitForAll();
  return true;
}

bool setAsideWhenFree(Storage &storage, int64_t bytes) {
  return setAside(storage, bytes) || (waitsForOthers() && setAside(storage, bytes));
}

} // namespace

const Array::Form Array::kNone;

Result<Array> Array::allocate(DataType type, Shape shape, const Device *device) {
  Result<Array> result = later(type, std::move(shape), device);
  if (result.ok())
    if (Status status = result->provide(); !status.ok())
      return status;
  return result;
}

Status Array::provide() const {
  Storage &storage = *storage_;
  if (storage.data || storage.bytes == 0)
    return {};
  if (!setAsideWhenFree(storage, storage.bytes))
    return Status(StatusCode::ResourceExhausted, "there is no memory for a tensor of shape " +
                                                     toString(shape()) + " (" +
                                                     std::to_string(storage.bytes) + " bytes)");
  if (!storage.device)
    return {};
  auto there = DeviceMemory::allocate(*storage.device, storage.data, storage.bytes);
  if (!there.ok() && waitsForOthers())
    there = DeviceMemory::allocate(*storage.device, storage.data, storage.bytes);
  if (!there.ok()) { // as if it had never been asked for
    storage.data = nullptr;
    storage.owner = nullptr;
    storage.charge = Charge();
    return there.status();
  }
  storage.onDevice = std::move(*there);
  return {};
}

Result<Array> Array::later(DataType type, Shape shape, const Device *device) {
  std::optional<int64_t> count = elementCount(shape);
  if (!count)
    return Status(StatusCode::ResourceExhausted,
                  "a tensor of shape " + toString(shape) + " has too many elements");
  auto storage = std::make_shared<Storage>();
  storage->bytes = *count * byteSize(type);
  storage->device = device;
  Strides strides = denseStrides(shape);
  return Array({type, std::move(shape), std::move(strides), 0, *count}, std::move(storage));
}

Result<Array> Array::later(const Array &like, const Device *device) {
  if (!like.isDense() || like.offset() != 0)
    return later(like.type(), like.shape(), device);
  auto storage = std::make_shared<Storage>();
  storage->bytes = like.size() * byteSize(like.type());
  storage->device = device;
  return Array(like.form_, std::move(storage));
}

std::optional<Array> Array::reused() && {
  if (!storage_ || storage_.use_count() > 1 || storage_->owner.use_count() > 1 ||
      storage_->isShared() || !storage_->writable)
    return std::nullopt;
  std::atomic_thread_fence(std::memory_order_acquire); // after what the last of the others did
  auto storage = std::make_shared<Storage>();
  storage->data = storage_->data;
  storage->bytes = storage_->bytes;
  storage->owner = std::move(storage_->owner);
  storage->charge = std::move(storage_->charge);
  storage->device = storage_->device;
  storage->onDevice = std::move(storage_->onDevice);
  storage_ = nullptr;
  return Array(std::move(form_), std::move(storage));
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
  int64_t count = elementCount(shape).value_or(0);
  auto storage = std::make_shared<Storage>();
  storage->data = static_cast<std::byte *>(data);
  storage->bytes = count * byteSize(type);
  storage->writable = writable;
  storage->owner = std::move(owner);
  storage->sharers = 1;
  return {{type, std::move(shape), std::move(strides), 0, count}, std::move(storage)};
}

bool Array::isDense() const {
  const auto &[type, shape, strides, offset, size] = form();
  int64_t expected = 1;
  for (size_t axis = shape.size(); axis-- > 0; expected *= shape[axis])
    if (shape[axis] != 1 && strides[axis] != expected)
      return size == 0;
  return true;
}

Array Array::view(Shape shape, Strides strides, int64_t offset) const {
  int64_t size = elementCount(shape).value_or(0);
  return {{type(), std::move(shape), std::move(strides), offset, size}, storage_};
}

std::optional<Array> Array::broadcastTo(const Shape &shape) const {
  const Shape &own = this->shape();
  if (shape.size() < own.size() || !elementCount(shape))
    return std::nullopt;
  Strides strides(shape.size(), 0);
  size_t lead = shape.size() - own.size();
  for (size_t axis = 0; axis < own.size(); ++axis) {
    if (own[axis] == shape[lead + axis])
      strides[lead + axis] = this->strides()[axis];
    else if (own[axis] != 1)
      return std::nullopt;
  }
  return view(shape, std::move(strides), offset());
}

std::optional<Array> Array::reshaped(const Shape &shape) const {
  if (isDense() || size() == 0)
    return view(shape, denseStrides(shape), offset());
  const Shape &own = this->shape();
  const Strides &ownSteps = this->strides();
  // Runs of dimensions that are walked as one may be cut anew; a run's size is a product of new
  // dimensions.
  Shape sizes;
  Strides steps;
  for (size_t axis = 0; axis < own.size(); ++axis) {
    if (own[axis] == 1)
      continue;
    if (!sizes.empty() && steps.back() == ownSteps[axis] * own[axis]) {
      sizes.back() *= own[axis];
      steps.back() = ownSteps[axis];
    } else {
      sizes.push_back(own[axis]);
      steps.push_back(ownSteps[axis]);
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
  return view(shape, std::move(strides), offset());
}

Array Array::permuted(std::span<const int64_t> axes) const {
  Shape shape;
  Strides strides;
  for (int64_t axis : axes) {
    shape.push_back(this->shape()[size_t(axis)]);
    strides.push_back(this->strides()[size_t(axis)]);
  }
  return view(std::move(shape), std::move(strides), offset());
}

Array Array::part(bool imaginary) const {
  Form part = form();
  part.type = type() == DataType::C64 ? DataType::F32 : DataType::F64;
  for (int64_t &stride : part.strides)
    stride *= 2;
  part.offset = 2 * offset() + imaginary;
  return {std::move(part), storage_};
}

// The memory's owner, since another write may give the storage other memory.
HostTensor Array::asHostTensor() const {
  return HostTensor(type(), shape(), elements(), storage_->owner);
}

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

Result<const Device *> deviceOf(std::span<const Array> arrays) {
  const Device *found = nullptr;
  for (const Array &array : arrays) {
    const Device *each = array.device();
    if (each && found && each != found)
      return invalidArgument("tensors lie on the devices " + found->name + " and " + each->name +
                             "; move them to one by to_device");
    found = each ? each : found;
  }
  return found;
}

Result<Array> on(const Device *device, const Array &array) {
  if (array.device() == device)
    return array;
  Result<Array> result = Array::allocate(array.type(), array.shape(), device);
  if (result.ok())
    if (Status status = copyElements(*result, array); !status.ok())
      return status;
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
  const std::byte *read = from.elements();
  std::byte *written = to.data();
  reference::forEachRow(loop, [&](const auto &offsets, const auto &steps, int64_t count) {
    copyRowOf(bytes, written + offsets[0] * bytes, steps[0], read + offsets[1] * bytes, steps[1],
              count);
  });
  return {};
}

Result<Array> dense(const Array &array) {
  if (array.isDense())
    return array;
  Result<Array> result = Array::allocate(array.type(), array.shape(), array.device());
  if (!result.ok())
    return result;
  if (Status status = copyElements(*result, array); !status.ok())
    return status;
  return result;
}

} // namespace tensmith::eager

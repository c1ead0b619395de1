// Storage and element access of HostTensor: one switch over the element types for each direction.
#include "base/HostTensor.h"

#include "base/Budget.h"
#include "base/Float.h"
#include "base/Placement.h"

#include <bit>
#include <cstdlib>
#include <limits>
#include <new>
#include <sys/mman.h>

namespace tensmith {
namespace {

constexpr size_t kAlignment = 64; // a cache line, and the widest vector

constexpr int64_t kNumber = 16; // bytes of the largest, a complex one of doubles

/// Beyond 128 GB of empty strings, which are all constructed at once, a shape is a mistake or an
/// attack.
constexpr int64_t kMostStrings = int64_t(1) << 32;

constexpr size_t kHugePage = 2 << 20;

/// Asks for huge pages within a block that is about to be written as a whole: a fault for each 4 KB
/// of hundreds of megabytes of weights is a third of the time that packing them takes.
void preferHugePages(void *block, size_t bytes) {
  auto begin = (reinterpret_cast<uintptr_t>(block) + kHugePage - 1) & ~(kHugePage - 1);
  auto end = (reinterpret_cast<uintptr_t>(block) + bytes) & ~(kHugePage - 1);
  if (begin < end)
    madvise(reinterpret_cast<void *>(begin), end - begin, MADV_HUGEPAGE);
}

/// Blocks of this size and more are the system's own, which it takes back when they are freed. The
/// C library does the same until one has been freed; from then on it cuts blocks of that size out
/// of its heap, where the holes that they leave stay.
constexpr size_t kLeastMapped = 128 << 10;

/// Zeroed memory, which the system hands out without touching it, and what frees it; null where
/// there is none.
std::shared_ptr<const void> zeroedBlock(size_t bytes, std::shared_ptr<Charge> charge) {
  if (bytes < kLeastMapped) {
    void *block = std::calloc(bytes, 1);
    return block ? std::shared_ptr<const void>(
                       block, [charge](const void *p) { std::free(const_cast<void *>(p)); })
                 : nullptr;
  }
  void *block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED)
    return nullptr;
  preferHugePages(block, bytes);
  return {block, [charge, bytes](const void *p) { munmap(const_cast<void *>(p), bytes); }};
}

std::shared_ptr<const void> allocateZeroed(int64_t bytes, const std::byte *&data) try {
  if (std::byte *placed = Placement::take(size_t(bytes))) {
    std::memset(placed, 0, size_t(bytes));
    data = placed;
    return nullptr;
  }
  // A single number is no more than what holds it, and those who make one don't ask for it.
  auto charge = std::make_shared<Charge>();
  if (bytes > kNumber && !charge->take(bytes))
    return nullptr;
  auto block = zeroedBlock(size_t(bytes) + kAlignment - 1, charge);
  auto address = (reinterpret_cast<uintptr_t>(block.get()) + kAlignment - 1) & ~(kAlignment - 1);
  data = block ? reinterpret_cast<const std::byte *>(address) : nullptr;
  return block;
} catch (const std::bad_alloc &) { // of the shared_ptr's own block, which it frees
  return nullptr;
}

std::shared_ptr<std::vector<std::string>> allocateStrings(int64_t count) try {
  struct Charged {
    Charge charge;
    std::vector<std::string> strings;
  };
  auto charged = std::make_shared<Charged>();
  if (count > kMostStrings || !charged->charge.take(count * int64_t(sizeof(std::string))))
    return nullptr;
  charged->strings.resize(size_t(count));
  return {charged, &charged->strings};
} catch (const std::bad_alloc &) {
  return nullptr;
}

template <typename T> T load(const std::byte *data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * int64_t(sizeof(T)), sizeof(T));
  return value;
}

template <typename T> void store(std::byte *data, int64_t index, T value) {
  std::memcpy(data + index * int64_t(sizeof(T)), &value, sizeof(T));
}

/// The low `bits` of a value, sign-extended.
int8_t signExtend(uint64_t value, int bits) {
  int shift = 8 - bits;
  return int8_t(int8_t(uint8_t(value) << shift) >> shift);
}

/// Stores an integer that is known modulo 2^64; false where the type is no integer.
bool storeInteger(DataType type, std::byte *data, int64_t index, uint64_t value) {
  switch (type) {
  case DataType::U8:
  case DataType::I8:
    return store(data, index, uint8_t(value)), true;
  case DataType::U16:
  case DataType::I16:
    return store(data, index, uint16_t(value)), true;
  case DataType::U32:
  case DataType::I32:
    return store(data, index, uint32_t(value)), true;
  case DataType::U64:
  case DataType::I64:
    return store(data, index, value), true;
  case DataType::U4:
    return store(data, index, uint8_t(value & 15)), true;
  case DataType::U2:
    return store(data, index, uint8_t(value & 3)), true;
  case DataType::I4:
    return store(data, index, signExtend(value, 4)), true;
  case DataType::I2:
    return store(data, index, signExtend(value, 2)), true;
  default:
    return false;
  }
}

void storeFloat(DataType type, std::byte *data, int64_t index, double value) {
  switch (type) {
  case DataType::F32:
    return store(data, index, float(value));
  case DataType::F64:
    return store(data, index, value);
  case DataType::C64:
    store(data, 2 * index, float(value));
    return store(data, 2 * index + 1, 0.0f);
  case DataType::C128:
    store(data, 2 * index, value);
    return store(data, 2 * index + 1, 0.0);
  case DataType::F8E8M0:
    return store(data, index, encodeF8E8M0(value, PowerRounding::Nearest, true));
  case DataType::F16:
  case DataType::BF16:
    return store(data, index, encode(*floatFormat(type), value, /*saturate=*/false));
  default:
    if (const FloatFormat *format = floatFormat(type))
      store(data, index, uint8_t(encode(*format, value, /*saturate=*/true)));
  }
}

double loadFloat(DataType type, const std::byte *data, int64_t index) {
  switch (type) {
  case DataType::F32:
    return load<float>(data, index);
  case DataType::F64:
    return load<double>(data, index);
  case DataType::C64:
    return load<float>(data, 2 * index);
  case DataType::C128:
    return load<double>(data, 2 * index);
  case DataType::F8E8M0:
    return decodeF8E8M0(load<uint8_t>(data, index));
  case DataType::F16:
  case DataType::BF16:
    return decode(*floatFormat(type), load<uint16_t>(data, index));
  default:
    if (const FloatFormat *format = floatFormat(type))
      return decode(*format, load<uint8_t>(data, index));
    return 0;
  }
}

int64_t loadInteger(DataType type, const std::byte *data, int64_t index) {
  switch (type) {
  case DataType::Bool:
  case DataType::U8:
  case DataType::U4:
  case DataType::U2:
    return load<uint8_t>(data, index);
  case DataType::I8:
  case DataType::I4:
  case DataType::I2:
    return load<int8_t>(data, index);
  case DataType::U16:
    return load<uint16_t>(data, index);
  case DataType::I16:
    return load<int16_t>(data, index);
  case DataType::U32:
    return load<uint32_t>(data, index);
  case DataType::I32:
    return load<int32_t>(data, index);
  default:
    return load<int64_t>(data, index);
  }
}

bool isIntegerOrBool(DataType type) { return isInteger(type) || type == DataType::Bool; }

} // namespace

std::optional<int64_t> elementCount(std::span<const int64_t> shape, int64_t limit) {
  bool empty = false;
  for (int64_t dimension : shape) {
    if (dimension < 0)
      return std::nullopt;
    empty |= dimension == 0;
  }
  if (empty)
    return 0;
  int64_t count = 1;
  for (int64_t dimension : shape) {
    if (dimension > limit / count)
      return std::nullopt;
    count *= dimension;
  }
  return count;
}

std::string toString(std::span<const int64_t> shape) {
  if (shape.empty())
    return "scalar";
  std::string text;
  for (int64_t dimension : shape)
    text += (text.empty() ? "" : "x") + std::to_string(dimension);
  return text;
}

thread_local Placement *Placement::innermost_ = nullptr;

std::byte *Placement::take(size_t bytes) {
  if (!innermost_ || bytes > innermost_->memory_.size())
    return nullptr;
  return std::exchange(innermost_->memory_, {}).data();
}

HostTensor::HostTensor(DataType type, Shape shape) : type_(type), shape_(std::move(shape)) {
  std::optional<int64_t> count = elementCount(shape_);
  count_ = count.value_or(-1);
  if (!count)
    return;
  if (type == DataType::String)
    strings_ = allocateStrings(count_);
  else
    owner_ = allocateZeroed(bytes(), data_);
}

HostTensor::HostTensor(DataType type, Shape shape, const void *data,
                       std::shared_ptr<const void> owner)
    : type_(type), writable_(false), shape_(std::move(shape)),
      count_(elementCount(shape_).value_or(-1)), data_(static_cast<const std::byte *>(data)),
      owner_(std::move(owner)) {
  if (count_ < 0)
    data_ = nullptr;
}

HostTensor HostTensor::ofStrings(Shape shape, std::vector<std::string> values) {
  HostTensor result(DataType::String, {});
  result.shape_ = std::move(shape);
  result.count_ = elementCount(result.shape_).value_or(-1);
  assert(int64_t(values.size()) == result.count_);
  result.strings_ = std::make_shared<std::vector<std::string>>(std::move(values));
  return result;
}

double HostTensor::getDouble(int64_t index) const {
  if (type_ == DataType::U64)
    return double(load<uint64_t>(data_, index));
  return isIntegerOrBool(type_) ? double(loadInteger(type_, data_, index))
                                : loadFloat(type_, data_, index);
}

int64_t HostTensor::getInt(int64_t index) const {
  return isIntegerOrBool(type_) ? loadInteger(type_, data_, index)
                                : int64_t(truncateToInteger(loadFloat(type_, data_, index)));
}

void HostTensor::setDouble(int64_t index, double value) {
  if (type_ == DataType::Bool)
    return store(mutableData(), index, uint8_t(value != 0));
  if (isInteger(type_))
    storeInteger(type_, mutableData(), index, truncateToInteger(value));
  else
    storeFloat(type_, mutableData(), index, value);
}

void HostTensor::setInt(int64_t index, int64_t value) {
  if (type_ == DataType::Bool)
    return store(mutableData(), index, uint8_t(value != 0));
  if (storeInteger(type_, mutableData(), index, uint64_t(value)))
    return;
  bool wide = type_ == DataType::F64 || type_ == DataType::C128;
  storeFloat(type_, mutableData(), index, wide ? double(value) : roundToOdd(value));
}

HostTensor HostTensor::reshaped(Shape shape) const {
  assert(elementCount(shape) == count_ && "a reshape keeps the number of elements");
  HostTensor result = *this;
  result.shape_ = std::move(shape);
  return result;
}

} // namespace tensmith

// Construction, copies and conversions of the runtime's tensors.
#include "runtime/Tensor.h"

#include "runtime/Device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace tensmith::runtime {
namespace {

constexpr size_t kMaxRank = 64;
constexpr int64_t kMostInside = int64_t(256) << 10; // bytes of elements behind a description
constexpr int64_t kStringBytes = sizeof(std::string);

Result<int64_t> checkedSize(DataType type, std::span<const int64_t> shape) {
  if (int(type) <= 0 || int(type) >= kDataTypeCount)
    return invalidArgument("a tensor can't have element type " + std::to_string(int(type)));
  if (shape.size() > kMaxRank)
    return invalidArgument("a tensor can't have " + std::to_string(shape.size()) + " dimensions; " +
                           std::to_string(kMaxRank) + " is the most");
  std::optional<int64_t> size = elementCount(shape, std::min(kMostElements, int64_t(1) << 47));
  if (!size || (byteSize(type) && *size > (int64_t(1) << 47) / byteSize(type)))
    return invalidArgument("no tensor can have the shape " + toString(shape));
  return *size;
}

Status noMemory(DataType type, std::span<const int64_t> shape) {
  return {StatusCode::ResourceExhausted, "there is not enough memory for a tensor " +
                                             describe(type, shape) +
                                             ", or its session's limit does not allow it"};
}

} // namespace

namespace {

/// Blocks that a thread let go of, by size: a program's tensors come and go by the thousand, in a
/// few sizes.
class BlockCache {
public:
  static constexpr size_t kStep = 64, kSizes = 32;

  ~BlockCache() {
    for (size_t size = 0; size < kSizes; ++size)
      while (void *block = take(size))
        std::free(block);
    gone = true;
  }
  void *take(size_t size) {
    Link *link = first_[size];
    if (link) {
      first_[size] = link->next;
      --count_[size];
    }
    return link;
  }
  bool keep(size_t size, void *block) {
    if (count_[size] == kMost)
      return false;
    first_[size] = new (block) Link{first_[size]};
    ++count_[size];
    return true;
  }

  /// The calling thread's; null when that ends, or where a sanitizer is to see each block.
  static BlockCache *own() {
#if defined(__SANITIZE_ADDRESS__)
    return nullptr;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
    return nullptr;
#endif
#endif
    static thread_local BlockCache cache;
    return gone ? nullptr : &cache;
  }

private:
  struct Link {
    Link *next;
  };
  static constexpr uint32_t kMost = 64;
  static thread_local bool gone;

  Link *first_[kSizes] = {};
  uint32_t count_[kSizes] = {};
};

thread_local bool BlockCache::gone = false;

} // namespace

namespace {

/// Its number among the sizes that are kept goes to `kept`; 0: it is of none.
void *takeBlock(size_t bytes, uint8_t &kept) {
  size_t size = (bytes - 1) / BlockCache::kStep;
  BlockCache *cache = size < BlockCache::kSizes ? BlockCache::own() : nullptr;
  kept = uint8_t(cache ? size + 1 : 0);
  void *block = cache ? cache->take(size) : nullptr;
  return block ? block : std::malloc(cache ? (size + 1) * BlockCache::kStep : bytes);
}

void giveBlock(void *block, size_t kept) {
  BlockCache *cache = kept ? BlockCache::own() : nullptr;
  if (!cache || !cache->keep(kept - 1, block))
    std::free(block);
}

} // namespace

Tensor *Tensor::allocate(size_t bytes) {
  Charge charge;
  if (!charge.take(int64_t(sizeof(Tensor) + bytes)))
    return nullptr;
  uint8_t kept;
  void *block = takeBlock(sizeof(Tensor) + bytes, kept);
  if (!block)
    return nullptr;
  Tensor *tensor = new (block) Tensor;
  tensor->charge_ = std::move(charge);
  tensor->blockSize_ = kept;
  return tensor;
}

/// The beginning of a block of several tensors, which follow.
struct Tensor::Together {
  std::atomic<size_t> left; // of them
  uint8_t blockSize;        // as a tensor's
  Charge charge;
  Shape shape;

  void leave() {
    if (left.fetch_sub(1, std::memory_order_acq_rel) != 1)
      return;
    size_t size = blockSize;
    this->~Together();
    giveBlock(this, size);
  }
};

void Tensor::free() {
  size_t size = blockSize_;
  Together *together = together_;
  this->~Tensor();
  together ? together->leave() : giveBlock(this, size);
}

std::shared_ptr<const void> Tensor::share() const {
  if (!inside_)
    return owner_;
  return {data_, [keep = TensorRef::retain(const_cast<Tensor *>(this))](const void *) {}};
}

Result<TensorRef> Tensor::on(DataType type, std::span<const int64_t> shape, void *data,
                             std::shared_ptr<const void> owner) {
  auto size = checkedSize(type, shape);
  if (!size)
    return size.status();
  TensorRef tensor(allocate(0));
  if (!tensor)
    return noMemory(type, shape);
  tensor->type_ = type;
  tensor->ownShape_.assign(shape.begin(), shape.end());
  tensor->size_ = *size;
  tensor->data_ = static_cast<std::byte *>(data);
  tensor->owner_ = std::move(owner);
  return tensor;
}

Result<TensorRef> Tensor::create(DataType type, std::span<const int64_t> shape) {
  auto size = checkedSize(type, shape);
  if (!size)
    return size.status();
  if (type == DataType::String) {
    auto charge = std::make_shared<Charge>();
    if (!charge->take(*size * kStringBytes))
      return noMemory(type, shape);
    auto tensor = ofStrings(std::vector<std::string>(size_t(*size)), shape);
    if (tensor)
      (*tensor)->owner_ = std::move(charge);
    return tensor;
  }
  int64_t bytes = *size * byteSize(type);
  if (bytes > kMostInside) {
    auto charge = std::make_shared<Charge>();
    void *block = charge->take(bytes) ? allocateBlock(bytes) : nullptr;
    if (!block)
      return noMemory(type, shape);
    std::shared_ptr<const void> owner(
        block, [charge](const void *p) { freeBlock(const_cast<void *>(p)); });
    return on(type, shape, block, std::move(owner));
  }
  TensorRef tensor(allocate(size_t(bytes + kAlignment)));
  if (!tensor)
    return noMemory(type, shape);
  tensor->type_ = type;
  tensor->ownShape_.assign(shape.begin(), shape.end());
  tensor->size_ = *size;
  auto behind = reinterpret_cast<uintptr_t>(tensor.get() + 1);
  behind = (behind + kAlignment - 1) / kAlignment * kAlignment;
  tensor->data_ = reinterpret_cast<std::byte *>(behind);
  tensor->inside_ = true;
  return tensor;
}

Result<TensorRef> Tensor::create(DataType type, std::span<const int64_t> shape, Device *device) {
  if (!device)
    return create(type, shape);
  auto size = checkedSize(type, shape);
  if (!size)
    return size.status();
  auto memory = allocateOn(*device, *size * byteSize(type));
  if (!memory)
    return Status(StatusCode::ResourceExhausted,
                  "the device has no memory for a tensor " + describe(type, shape));
  std::byte *data = memory.get();
  auto tensor = on(type, shape, data, std::move(memory));
  if (tensor)
    (*tensor)->device_ = device;
  return tensor;
}

Status Tensor::createTogether(DataType type, const Shape &shape, std::span<TensorRef> tensors) {
  auto size = checkedSize(type, shape);
  if (!size)
    return size.status();
  auto whole = [](size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; };
  size_t head = whole(sizeof(Tensor)), each = head + whole(size_t(*size * byteSize(type)));
  size_t bytes = sizeof(Together) + tensors.size() * each + kAlignment;
  Shape own = shape;
  Charge charge;
  if (!charge.take(int64_t(bytes)))
    return noMemory(type, shape);
  uint8_t kept;
  void *block = takeBlock(bytes, kept);
  if (!block)
    return noMemory(type, shape);
  auto *together = new (block) Together{tensors.size(), kept, std::move(charge), std::move(own)};
  size_t place = whole(reinterpret_cast<uintptr_t>(together + 1));
  for (TensorRef &result : tensors) {
    auto *tensor = new (reinterpret_cast<void *>(place)) Tensor;
    tensor->type_ = type;
    tensor->shape_ = &together->shape;
    tensor->size_ = *size;
    tensor->data_ = reinterpret_cast<std::byte *>(place + head);
    tensor->inside_ = true;
    tensor->together_ = together;
    result = TensorRef(tensor);
    place += each;
  }
  return {};
}

Result<TensorRef> Tensor::scalar(DataType type, const void *value) {
  TensorRef tensor(allocate(16)); // as long as any element
  if (!tensor)
    return noMemory(type, {});
  tensor->type_ = type;
  tensor->size_ = 1;
  tensor->data_ = reinterpret_cast<std::byte *>(tensor.get() + 1);
  tensor->inside_ = true;
  std::memcpy(tensor->data_, value, size_t(byteSize(type)));
  return tensor;
}

Result<TensorRef> Tensor::ofStrings(std::vector<std::string> values,
                                    std::span<const int64_t> shape) {
  auto tensor = on(DataType::String, shape, nullptr, nullptr);
  if (!tensor)
    return tensor;
  if ((*tensor)->size_ != int64_t(values.size()))
    return invalidArgument("a tensor " + describe(**tensor) + " can't be made of " +
                           std::to_string(values.size()) + " strings");
  (*tensor)->strings_ = std::make_unique<std::vector<std::string>>(std::move(values));
  return tensor;
}

const std::vector<std::string> &Tensor::strings() const {
  static const std::vector<std::string> none;
  return strings_ ? *strings_ : none;
}

TensorRef Tensor::unfilled(TensorKind kind, uint32_t tag, size_t count) {
  TensorRef tensor(allocate(count * sizeof(TensorRef)));
  if (!tensor)
    return tensor;
  tensor->kind_ = kind;
  tensor->tag_ = tag;
  tensor->elements_ = reinterpret_cast<TensorRef *>(tensor.get() + 1);
  tensor->count_ = count;
  std::uninitialized_value_construct_n(tensor->elements_, count);
  return tensor;
}

namespace {

TensorRef filled(TensorKind kind, uint32_t tag, std::vector<TensorRef> elements) {
  TensorRef tensor = Tensor::unfilled(kind, tag, elements.size());
  if (!tensor)
    throw std::bad_alloc(); // caught where the library is entered
  std::move(elements.begin(), elements.end(), tensor->fill());
  return tensor;
}

} // namespace

TensorRef Tensor::sequence(std::vector<TensorRef> elements) {
  DataType type = elements.empty() ? DataType::Undefined : elements.front()->type_;
  TensorRef tensor = filled(TensorKind::Sequence, 0, std::move(elements));
  tensor->type_ = type;
  return tensor;
}

TensorRef Tensor::map(TensorRef keys, TensorRef values) {
  return filled(TensorKind::Map, 0, {std::move(keys), std::move(values)});
}

TensorRef Tensor::none() { return filled(TensorKind::None, 0, {}); }

TensorRef Tensor::data(uint32_t tag, std::vector<TensorRef> fields) {
  return filled(TensorKind::Data, tag, std::move(fields));
}

TensorRef Tensor::function(uint32_t procedure, std::vector<TensorRef> captured) {
  return filled(TensorKind::Function, procedure, std::move(captured));
}

// What is let go of waits in a list through the descriptions themselves, so that nothing has to be
// allocated in order to free.
void Tensor::destroy() {
  Tensor *pending = this;
  data_ = nullptr;
  while (pending) {
    Tensor *tensor = pending;
    pending = reinterpret_cast<Tensor *>(tensor->data_);
    for (size_t i = 0; i < tensor->count_; ++i) {
      Tensor *element = tensor->elements_[i].release();
      if (!element || element->references_.fetch_sub(1, std::memory_order_acq_rel) != 1)
        continue;
      element->data_ = reinterpret_cast<std::byte *>(pending);
      pending = element;
    }
    tensor->free();
  }
}

bool Tensor::ownsMemory() const {
  if (kind_ == TensorKind::Data || kind_ == TensorKind::Function || kind_ == TensorKind::Reference)
    return true;
  for (const TensorRef &element : elements())
    if (!element->ownsMemory())
      return false;
  return kind_ != TensorKind::Tensor || type_ == DataType::String || inside_ || owner_ != nullptr;
}

/// Tensors on its elements would refer to it; see share().
bool Tensor::isAlone() const {
  return inside_ && references_.load(std::memory_order_acquire) == 1 &&
         reinterpret_cast<uintptr_t>(data_) % kAlignment == 0;
}

Result<TensorRef> Tensor::reshaped(std::span<const int64_t> shape) const {
  if (elementCount(shape) != size_)
    return invalidArgument("a tensor " + describe(*this) + " can't be seen as " +
                           describe(type_, shape));
  if (type_ == DataType::String)
    return ofStrings(strings(), shape);
  auto seen = on(type_, shape, data_, share());
  if (seen)
    (*seen)->device_ = device_;
  return seen;
}

Result<TensorRef> Tensor::copy() const {
  if (kind_ == TensorKind::None)
    return none();
  if (kind_ == TensorKind::Data)
    return data(tag_,
                {elements().begin(), elements().end()}); // what it is made of can't be written to
  if (kind_ == TensorKind::Function)
    return function(tag_, {elements().begin(), elements().end()});
  if (kind_ == TensorKind::Map)
    return map(elements_[0], elements_[1]);
  if (kind_ == TensorKind::Sequence) {
    std::vector<TensorRef> copies;
    for (const TensorRef &element : elements()) {
      auto one = element->copy();
      if (!one)
        return one;
      copies.push_back(std::move(*one));
    }
    TensorRef result = sequence(std::move(copies));
    result->type_ = type_;
    return result;
  }
  if (type_ == DataType::String)
    return ofStrings(strings(), shape());
  auto result = create(type_, shape(), device_);
  if (result && bytes() && device_)
    waitFor(device_->copyWithin(0, (*result)->data(), data_, bytes(), {}));
  else if (result && bytes())
    std::memcpy((*result)->data(), data_, size_t(bytes()));
  return result;
}

std::string describe(DataType type, std::span<const int64_t> shape) {
  std::string text(name(type));
  text += '[';
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? "," : "") + std::to_string(shape[i]);
  return text + ']';
}

std::string describe(const Tensor &tensor) {
  if (tensor.kind() == TensorKind::None)
    return "none";
  if (tensor.kind() == TensorKind::Sequence)
    return "sequence of " + std::to_string(tensor.elements().size());
  if (tensor.kind() == TensorKind::Map)
    return "map from " + describe(*tensor.elements()[0]) + " to " + describe(*tensor.elements()[1]);
  if (tensor.kind() == TensorKind::Function)
    return "function";
  if (tensor.kind() == TensorKind::Data)
    return "value of constructor " + std::to_string(tensor.tag()) + " with " +
           std::to_string(tensor.elements().size()) + " fields";
  return describe(tensor.type(), tensor.shape());
}

HostTensor toHostTensor(const TensorRef &tensor) {
  if (!tensor || tensor->kind() != TensorKind::Tensor)
    return {};
  if (tensor->type() == DataType::String)
    return HostTensor::ofStrings(tensor->shape(), tensor->strings());
  auto keep = std::make_shared<TensorRef>(tensor);
  return HostTensor(tensor->type(), tensor->shape(), tensor->data(), std::move(keep));
}

Result<TensorRef> fromHostTensor(HostTensor tensor) {
  if (tensor.type() == DataType::Undefined)
    return Tensor::none();
  if (!tensor.valid() || tensor.size() < 0)
    return noMemory(tensor.type(), tensor.shape());
  if (tensor.type() == DataType::String) {
    std::vector<std::string> values;
    for (int64_t i = 0; i < tensor.size(); ++i)
      values.push_back(tensor.getString(i));
    return Tensor::ofStrings(std::move(values), tensor.shape());
  }
  auto keep = std::make_shared<HostTensor>(std::move(tensor));
  auto *data = const_cast<std::byte *>(keep->data());
  return Tensor::on(keep->type(), keep->shape(), data, keep);
}

} // namespace tensmith::runtime

// Construction, copies and conversions of the runtime's tensors.
#include "runtime/Tensor.h"

#include <cstring>
#include <new>

namespace tensmith::runtime {
namespace {

constexpr size_t kMaxRank = 64;

Result<int64_t> checkedSize(DataType type, std::span<const int64_t> shape) {
  if (int(type) <= 0 || int(type) >= kDataTypeCount)
    return invalidArgument("a tensor can't have element type " + std::to_string(int(type)));
  if (shape.size() > kMaxRank)
    return invalidArgument("a tensor can't have " + std::to_string(shape.size()) + " dimensions; " +
                           std::to_string(kMaxRank) + " is the most");
  std::optional<int64_t> size = elementCount(shape, int64_t(1) << 47);
  if (!size || (byteSize(type) && *size > (int64_t(1) << 47) / byteSize(type)))
    return invalidArgument("no tensor can have the shape " + toString(shape));
  return *size;
}

Status noMemory(DataType type, std::span<const int64_t> shape) {
  return {StatusCode::ResourceExhausted,
          "there is not enough memory for a tensor " + describe(type, shape)};
}

} // namespace

Result<TensorRef> Tensor::on(DataType type, std::span<const int64_t> shape, void *data,
                             std::shared_ptr<const void> owner) {
  auto size = checkedSize(type, shape);
  if (!size)
    return size.status();
  TensorRef tensor(new Tensor);
  tensor->type_ = type;
  tensor->shape_.assign(shape.begin(), shape.end());
  tensor->size_ = *size;
  tensor->data_ = static_cast<std::byte *>(data);
  tensor->owner_ = std::move(owner);
  return tensor;
}

Result<TensorRef> Tensor::create(DataType type, std::span<const int64_t> shape) {
  auto size = checkedSize(type, shape);
  if (!size)
    return size.status();
  if (type == DataType::String)
    return ofStrings(std::vector<std::string>(size_t(*size)), shape);
  void *block = allocateBlock(*size * byteSize(type));
  if (!block)
    return noMemory(type, shape);
  std::shared_ptr<const void> owner(block, [](const void *p) { freeBlock(const_cast<void *>(p)); });
  return on(type, shape, block, std::move(owner));
}

Result<TensorRef> Tensor::ofStrings(std::vector<std::string> values,
                                    std::span<const int64_t> shape) {
  auto tensor = on(DataType::String, shape, nullptr, nullptr);
  if (!tensor)
    return tensor;
  if ((*tensor)->size_ != int64_t(values.size()))
    return invalidArgument("a tensor " + describe(**tensor) + " can't be made of " +
                           std::to_string(values.size()) + " strings");
  (*tensor)->strings_ = std::move(values);
  return tensor;
}

TensorRef Tensor::sequence(std::vector<TensorRef> elements) {
  TensorRef tensor(new Tensor);
  tensor->kind_ = TensorKind::Sequence;
  tensor->type_ = elements.empty() ? DataType::Undefined : elements.front()->type_;
  tensor->elements_ = std::move(elements);
  return tensor;
}

TensorRef Tensor::none() {
  TensorRef tensor(new Tensor);
  tensor->kind_ = TensorKind::None;
  return tensor;
}

TensorRef Tensor::data(uint32_t tag, std::vector<TensorRef> fields) {
  TensorRef tensor(new Tensor);
  tensor->kind_ = TensorKind::Data;
  tensor->tag_ = tag;
  tensor->elements_ = std::move(fields);
  return tensor;
}

TensorRef Tensor::function(uint32_t procedure, std::vector<TensorRef> captured) {
  TensorRef tensor = data(procedure, std::move(captured));
  tensor->kind_ = TensorKind::Function;
  return tensor;
}

void Tensor::destroy() {
  std::vector<TensorRef> pending = std::move(elements_);
  delete this;
  while (!pending.empty()) {
    TensorRef element = std::move(pending.back());
    pending.pop_back();
    // Nobody can gain a reference to what this one alone refers to.
    if (!element || element->elements_.empty() ||
        element->references_.load(std::memory_order_acquire) != 1)
      continue;
    for (TensorRef &below : element->elements_)
      pending.push_back(std::move(below));
    element->elements_.clear();
  }
}

bool Tensor::ownsMemory() const {
  if (kind_ == TensorKind::Data || kind_ == TensorKind::Function)
    return true;
  for (const TensorRef &element : elements_)
    if (!element->ownsMemory())
      return false;
  return kind_ != TensorKind::Tensor || type_ == DataType::String || owner_ != nullptr;
}

Result<TensorRef> Tensor::reshaped(std::span<const int64_t> shape) const {
  if (elementCount(shape) != size_)
    return invalidArgument("a tensor " + describe(*this) + " can't be seen as " +
                           describe(type_, shape));
  if (type_ == DataType::String)
    return ofStrings(strings_, shape);
  return on(type_, shape, data_, owner_);
}

Result<TensorRef> Tensor::copy() const {
  if (kind_ == TensorKind::None)
    return none();
  if (kind_ == TensorKind::Data)
    return data(tag_, elements_); // what it is made of can't be written to
  if (kind_ == TensorKind::Function)
    return function(tag_, elements_);
  if (kind_ == TensorKind::Sequence) {
    std::vector<TensorRef> elements;
    for (const TensorRef &element : elements_) {
      auto one = element->copy();
      if (!one)
        return one;
      elements.push_back(std::move(*one));
    }
    TensorRef result = sequence(std::move(elements));
    result->type_ = type_;
    return result;
  }
  if (type_ == DataType::String)
    return ofStrings(strings_, shape_);
  auto result = create(type_, shape_);
  if (result && bytes())
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

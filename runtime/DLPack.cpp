// Conversion between tensors and DLPack's: types by a table, strides by a copy where they are not
// row-major. Elements of less than a byte are packed there, the first in a byte's lowest bits, and
// have a byte each here: they are copied both ways.
#include "runtime/DLPack.h"

#include <cstring>

namespace tensmith::runtime {
namespace {

constexpr int32_t kHost = 1, kPinnedHost = 3;

Result<DataType> typeOf(const DLDataType &type) {
  for (const DLPackElement &row : kDLPackElements)
    if (row.code == type.code && row.bits == type.bits && type.lanes == 1)
      return row.type;
  return unsupported("there is no element type for DLPack's code " + std::to_string(type.code) +
                     " with " + std::to_string(type.bits) + " bits and " +
                     std::to_string(type.lanes) + " lanes");
}

bool isRowMajor(const DLTensor &tensor) {
  int64_t expected = 1;
  for (int32_t i = tensor.ndim; tensor.strides && i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected)
      return false;
    expected *= tensor.shape[i];
  }
  return true;
}

/// Copies elements one by one in row-major order, with an index for each dimension.
void gather(const DLTensor &from, const std::byte *data, Tensor &to) {
  int64_t bytes = byteSize(to.type());
  Shape index(to.shape().size());
  int64_t offset = 0;
  for (int64_t i = 0; i < to.size(); ++i) {
    std::memcpy(to.data() + i * bytes, data + offset * bytes, size_t(bytes));
    for (size_t d = index.size(); d-- > 0;) {
      offset += from.strides[d];
      if (++index[d] < to.shape()[d])
        break;
      offset -= from.strides[d] * to.shape()[d];
      index[d] = 0;
    }
  }
}

/// The elements of a row-major tensor of less than a byte each, every one to a byte of its own.
void unpack(const std::byte *packed, int bits, bool isSigned, Tensor &to) {
  int most = 8 - bits, inByte = 8 / bits;
  for (int64_t i = 0; i < to.size(); ++i) {
    auto high = uint8_t(uint8_t(packed[i / inByte]) << (most - int(i % inByte) * bits));
    to.data()[i] = std::byte(isSigned ? uint8_t(int8_t(high) >> most) : uint8_t(high >> most));
  }
}

Result<TensorRef> packed(const Tensor &from, int bits) {
  int inByte = 8 / bits;
  auto to = Tensor::create(DataType::U8, Shape{(from.size() + inByte - 1) / inByte});
  if (!to)
    return to;
  std::memset((*to)->data(), 0, size_t((*to)->bytes()));
  for (int64_t i = 0; i < from.size(); ++i) {
    auto value = uint8_t(uint8_t(from.data()[i]) & ((1 << bits) - 1));
    (*to)->data()[i / inByte] |= std::byte(uint8_t(value << (int(i % inByte) * bits)));
  }
  return to;
}

void callDeleter(DLManagedTensor *managed) {
  if (managed->deleter)
    managed->deleter(managed);
}

/// What toDlpack hands out: the structure and all that it points to.
struct Export {
  DLManagedTensor managed;
  TensorRef tensor;
  Shape shape, strides;
};

} // namespace

Result<TensorRef> fromDlpack(DLManagedTensor *managed) {
  const DLTensor &source = managed->dl_tensor;
  if (source.device.device_type != kHost && source.device.device_type != kPinnedHost)
    return unsupported("the DLPack tensor is on device type " +
                       std::to_string(source.device.device_type) + "; copy it to the CPU first");
  if (source.ndim < 0 || (source.ndim > 0 && !source.shape))
    return invalidArgument("the DLPack tensor has no valid shape");
  auto type = typeOf(source.dtype);
  if (!type)
    return type.status();
  std::span<const int64_t> shape(source.shape, size_t(source.ndim));
  auto count = elementCount(shape);
  if (!count || (*count && !source.data))
    return invalidArgument("the DLPack tensor has no valid shape, or no data");
  auto *data = static_cast<std::byte *>(source.data) + source.byte_offset;
  if (source.dtype.bits < 8) {
    if (!isRowMajor(source))
      return unsupported("a DLPack tensor of elements of less than a byte has strides; make it "
                         "contiguous first");
    auto tensor = Tensor::create(*type, shape);
    if (!tensor)
      return tensor;
    unpack(data, source.dtype.bits, source.dtype.code == 0, **tensor);
    callDeleter(managed);
    return tensor;
  }
  bool aligned = reinterpret_cast<uintptr_t>(data) % uintptr_t(byteSize(*type)) == 0;
  if (*count == 0 || (aligned && isRowMajor(source))) {
    auto tensor = Tensor::on(*type, shape, data, nullptr);
    if (!tensor)
      return tensor;
    // The owner is made last: from then on the deleter runs whatever happens.
    (*tensor)->keep(std::shared_ptr<const void>(static_cast<void *>(managed), [](const void *p) {
      callDeleter(static_cast<DLManagedTensor *>(const_cast<void *>(p)));
    }));
    return tensor;
  }
  auto tensor = Tensor::create(*type, shape);
  if (!tensor)
    return tensor;
  if (source.strides)
    gather(source, data, **tensor);
  else
    std::memcpy((*tensor)->data(), data, size_t((*tensor)->bytes()));
  callDeleter(managed);
  return tensor;
}

Result<DLManagedTensor *> toDlpack(const TensorRef &tensor) {
  const DLPackElement *row = nullptr;
  for (const DLPackElement &candidate : kDLPackElements)
    if (tensor->kind() == TensorKind::Tensor && candidate.type == tensor->type())
      row = &candidate;
  if (!row)
    return unsupported("DLPack has no type for " + describe(*tensor));
  if (tensor->device())
    return unsupported("DLPack has no device for the tensor's; copy it to the host first");
  auto memory = row->bits < 8 ? packed(*tensor, row->bits) : Result<TensorRef>(tensor);
  if (!memory)
    return memory.status();
  auto *exported = new Export{{}, *memory, tensor->shape(), {}};
  exported->strides.resize(exported->shape.size(), 1);
  for (size_t i = exported->shape.size(); i-- > 1;)
    exported->strides[i - 1] = exported->strides[i] * exported->shape[i];
  exported->managed.dl_tensor = {exported->tensor->data(),
                                 {kHost, 0},
                                 int32_t(exported->shape.size()),
                                 {row->code, row->bits, 1},
                                 exported->shape.data(),
                                 exported->strides.data(),
                                 0};
  exported->managed.manager_ctx = exported;
  exported->managed.deleter = [](DLManagedTensor *self) {
    delete static_cast<Export *>(self->manager_ctx);
  };
  return &exported->managed;
}

} // namespace tensmith::runtime

// Reads tensors' elements from raw bytes, typed fields and external files, and writes raw bytes;
// see TensorData.h.
//
// In raw bytes, 4-bit and 2-bit elements are packed, low bits first; in int32_data each 32-bit
// value holds what one byte of raw data would (packed types, too), or one 8- or 16-bit element's
// bits.
#include "frontends/onnx/TensorData.h"

#include <bit>
#include <charconv>

static_assert(std::endian::native == std::endian::little,
              "raw data is little-endian and used as it lies");

namespace tensmith::onnx_import {
namespace {

/// A sparse tensor's size is not backed by as many bytes of the file.
constexpr int64_t kMaxSparseElements = int64_t(1) << 30;

Status invalid(std::string message) { return {StatusCode::InvalidModel, std::move(message)}; }

Status wrongSize(int64_t has, int64_t needs, const char *what) {
  return invalid("has " + std::to_string(has) + " " + what + " where its shape needs " +
                 std::to_string(needs));
}

/// Elements in a byte of raw data: 2 of the 4-bit types, 4 of the 2-bit ones.
int packing(DataType type) {
  int bits = info(type).bits; // none of strings
  return bits > 0 && bits < 8 && type != DataType::Bool ? 8 / bits : 1;
}

std::byte unpacked(DataType type, unsigned byte, int position) {
  int bits = info(type).bits;
  unsigned value = byte >> (position * bits) & ((1u << bits) - 1);
  if (info(type).kind == TypeClass::Signed && value >> (bits - 1))
    value |= ~0u << bits;
  return std::byte(value);
}

Result<HostTensor> allocate(DataType type, Shape shape) {
  HostTensor tensor(type, shape);
  if (!tensor.valid())
    return Status(StatusCode::ResourceExhausted, "there is not enough memory for a tensor of " +
                                                     toString(shape) +
                                                     ", or the limit of memory does not allow it");
  return tensor;
}

bool isAligned(const void *data, int64_t size) {
  return size == 0 || reinterpret_cast<uintptr_t>(data) % uintptr_t(size) == 0;
}

template <typename Field>
Result<HostTensor> fromField(DataType type, Shape shape, const Field &field,
                             int64_t perElement = 1) {
  int64_t count = *elementCount(shape) * perElement;
  if (field.size() != count)
    return wrongSize(field.size(), count, "values");
  auto tensor = allocate(type, std::move(shape));
  if (tensor.ok() && count)
    std::memcpy(tensor->mutableData(), field.data(), size_t(tensor->bytes()));
  return tensor;
}

/// Each entry holds the bits of one element, or one byte of packed ones.
template <typename Field>
Result<HostTensor> fromWords(DataType type, Shape shape, const Field &words) {
  int64_t count = *elementCount(shape);
  int pack = packing(type);
  int64_t needs = (count + pack - 1) / pack;
  if (words.size() != needs)
    return wrongSize(words.size(), needs, "values");
  auto tensor = allocate(type, std::move(shape));
  if (!tensor.ok())
    return tensor;
  std::byte *data = tensor->mutableData();
  for (int64_t i = 0; i < count; ++i) {
    uint64_t word = uint64_t(words.Get(int(i / pack)));
    if (pack > 1)
      data[i] = unpacked(type, unsigned(word), int(i % pack));
    else if (type == DataType::Bool)
      data[i] = std::byte(word != 0);
    else
      std::memcpy(data + i * byteSize(type), &word, size_t(byteSize(type)));
  }
  return tensor;
}

Result<HostTensor> fromTypedFields(const onnx::TensorProto &proto, DataType type, Shape shape) {
  switch (type) {
  case DataType::String: {
    int64_t count = *elementCount(shape);
    if (proto.string_data_size() != count)
      return wrongSize(proto.string_data_size(), count, "strings");
    return HostTensor::ofStrings(std::move(shape),
                                 {proto.string_data().begin(), proto.string_data().end()});
  }
  case DataType::F32:
    return fromField(type, std::move(shape), proto.float_data());
  case DataType::C64:
    return fromField(type, std::move(shape), proto.float_data(), 2);
  case DataType::F64:
    return fromField(type, std::move(shape), proto.double_data());
  case DataType::C128:
    return fromField(type, std::move(shape), proto.double_data(), 2);
  case DataType::I64:
    return fromField(type, std::move(shape), proto.int64_data());
  case DataType::U64:
  case DataType::U32:
    return fromWords(type, std::move(shape), proto.uint64_data());
  default:
    return fromWords(type, std::move(shape), proto.int32_data());
  }
}

Result<int64_t> number(const std::string &key, const std::string &text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    return invalid("external data has " + key + " '" + text + "', which is no size");
  return value;
}

Result<HostTensor> fromExternalFile(const onnx::TensorProto &proto, DataType type, Shape shape,
                                    const TensorSource &source) {
  if (!source.hasFolder)
    return invalid("refers to external data, but the model was given as bytes, without a folder; "
                   "import it from its file");
  std::string location;
  int64_t offset = 0, length = rawBytes(type, *elementCount(shape));
  for (const auto &entry : proto.external_data()) {
    if (entry.key() == "location")
      location = entry.value();
    if (entry.key() != "offset" && entry.key() != "length")
      continue;
    auto value = number(entry.key(), entry.value());
    if (!value.ok())
      return value.status();
    (entry.key() == "offset" ? offset : length) = *value;
  }
  auto mapped = source.files->map(source.folder, location, offset, length);
  if (!mapped.ok())
    return mapped.status();
  return tensorOfBytes(type, std::move(shape), mapped->bytes, mapped->owner);
}

} // namespace

int64_t rawBytes(DataType type, int64_t count) {
  int pack = packing(type);
  return pack > 1 ? (count + pack - 1) / pack : count * byteSize(type);
}

std::string rawData(const HostTensor &tensor) {
  int pack = packing(tensor.type()), bits = info(tensor.type()).bits;
  if (pack == 1)
    return {reinterpret_cast<const char *>(tensor.data()), size_t(tensor.bytes())};
  std::string bytes(size_t(rawBytes(tensor.type(), tensor.size())), '\0');
  for (int64_t i = 0; i < tensor.size(); ++i) {
    unsigned value = unsigned(tensor.data()[i]) & ((1u << bits) - 1);
    bytes[size_t(i / pack)] |= char(value << (i % pack * bits));
  }
  return bytes;
}

Result<HostTensor> tensorOfBytes(DataType type, Shape shape, std::span<const std::byte> bytes,
                                 std::shared_ptr<const void> owner) {
  int64_t count = *elementCount(shape), needs = rawBytes(type, count);
  if (type == DataType::String)
    return invalid("has raw data, which a tensor of strings can't have");
  if (int64_t(bytes.size()) != needs)
    return wrongSize(int64_t(bytes.size()), needs, "bytes");
  int pack = packing(type);
  bool canBorrow = pack == 1 && type != DataType::Bool && isAligned(bytes.data(), byteSize(type));
  if (canBorrow && count)
    return HostTensor(type, std::move(shape), bytes.data(), std::move(owner));
  auto tensor = allocate(type, std::move(shape));
  if (!tensor.ok() || !count)
    return tensor;
  std::byte *data = tensor->mutableData();
  if (pack == 1 && type != DataType::Bool) {
    std::memcpy(data, bytes.data(), bytes.size());
    return tensor;
  }
  for (int64_t i = 0; i < count; ++i)
    data[i] = pack == 1 ? std::byte(bytes[size_t(i)] != std::byte(0))
                        : unpacked(type, unsigned(bytes[size_t(i / pack)]), int(i % pack));
  return tensor;
}

Result<std::pair<DataType, Shape>> tensorType(const onnx::TensorProto &proto) {
  auto type = dataTypeFromOnnx(proto.data_type());
  if (!type || *type == DataType::Undefined)
    return invalid("has element type " + std::to_string(proto.data_type()) +
                   ", which is none that is known");
  Shape shape(proto.dims().begin(), proto.dims().end());
  if (!elementCount(shape))
    return invalid("claims a shape of " + toString(shape) + ", which is negative or too large");
  return std::pair(*type, std::move(shape));
}

Result<HostTensor> readTensor(const onnx::TensorProto &proto, const TensorSource &source) {
  auto type = tensorType(proto);
  if (!type.ok())
    return type.status();
  auto &[element, shape] = *type;
  if (proto.has_segment())
    return unsupported("is stored in segments");
  if (proto.data_location() == onnx::TensorProto::EXTERNAL)
    return fromExternalFile(proto, element, shape, source);
  if (proto.has_raw_data()) {
    const std::string &raw = proto.raw_data();
    return tensorOfBytes(element, shape,
                         {reinterpret_cast<const std::byte *>(raw.data()), raw.size()},
                         source.owner);
  }
  return fromTypedFields(proto, element, shape);
}

Result<HostTensor> readSparseTensor(const onnx::SparseTensorProto &proto,
                                    const TensorSource &source) {
  auto values = readTensor(proto.values(), source);
  auto indices = readTensor(proto.indices(), source);
  if (!values.ok() || !indices.ok())
    return values.ok() ? indices.status() : values.status();
  Shape shape(proto.dims().begin(), proto.dims().end());
  auto total = elementCount(shape);
  if (!total || *total > kMaxSparseElements)
    return invalid("claims a shape of " + toString(shape) + ", which is negative or too large");
  if (values->type() == DataType::String || indices->type() != DataType::I64)
    return invalid("is sparse with strings, or with indices that are not of type i64");
  int64_t count = values->size(), rank = int64_t(shape.size());
  bool flat = indices->rank() == 1;
  if (indices->size() != (flat ? count : count * rank))
    return wrongSize(indices->size(), flat ? count : count * rank, "sparse indices");
  auto dense = allocate(values->type(), shape);
  if (!dense.ok())
    return dense;
  int64_t width = byteSize(values->type());
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = flat ? indices->getInt(i) : 0;
    for (int64_t dim = 0; dim < rank && !flat; ++dim) {
      int64_t index = indices->getInt(i * rank + dim);
      if (index < 0 || index >= shape[size_t(dim)])
        return invalid("has a sparse index that is out of its shape");
      at = at * shape[size_t(dim)] + index;
    }
    if (at < 0 || at >= *total)
      return invalid("has a sparse index that is out of its shape");
    std::memcpy(dense->mutableData() + at * width, values->data() + i * width, size_t(width));
  }
  return dense;
}

} // namespace tensmith::onnx_import

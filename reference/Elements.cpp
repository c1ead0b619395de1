// Bulk conversion and strided copies: see Elements.h. Bytes go through memcpy, because borrowed
// tensors (as those of a mapped model file) need not be aligned.
#include "reference/Elements.h"

#include "base/Float.h"

#include <bit>
#include <type_traits>

namespace tensmith::reference {
namespace {

constexpr int64_t kTile = 32;

/// The floats of all 16-bit codes of F16, whose subnormals make decoding slow.
const float *halfTable() {
  static const std::vector<float> table = [] {
    std::vector<float> values(1 << 16);
    for (size_t code = 0; code < values.size(); ++code)
      values[code] = float(decode(*floatFormat(DataType::F16), uint16_t(code)));
    return values;
  }();
  return table.data();
}

template <typename T, typename S> T widened(S value) {
  if constexpr (std::is_floating_point_v<S> && std::is_integral_v<T>)
    return T(truncateToInteger(double(value)));
  else
    return T(value);
}

/// Reads elements stored as S, `interpret`ed as a number.
template <typename S, typename T, typename Interpret>
void loadStored(const std::byte *data, int64_t stride, int64_t count, T *values,
                Interpret interpret) {
  for (int64_t i = 0; i < count; ++i) {
    S stored;
    std::memcpy(&stored, data + i * stride * int64_t(sizeof(S)), sizeof(S));
    values[i] = widened<T>(interpret(stored));
  }
}

template <typename S, typename T>
void loadStored(const std::byte *data, int64_t stride, int64_t count, T *values) {
  if (stride == 1) // a constant stride, for the vectoriser
    return loadStored<S>(data, 1, count, values, [](S stored) { return stored; });
  loadStored<S>(data, stride, count, values, [](S stored) { return stored; });
}

template <typename S, typename T>
void storeStored(std::byte *data, int64_t count, const T *values) {
  for (int64_t i = 0; i < count; ++i) {
    S stored;
    if constexpr (std::is_integral_v<S> && std::is_floating_point_v<T>)
      stored = S(truncateToInteger(values[i]));
    else
      stored = S(values[i]);
    std::memcpy(data + i * int64_t(sizeof(S)), &stored, sizeof(S));
  }
}

template <typename T> void setElement(HostTensor &tensor, int64_t index, T value) {
  if constexpr (std::is_same_v<T, int64_t>)
    tensor.setInt(index, value);
  else if constexpr (std::is_same_v<T, double>)
    tensor.setDouble(index, value);
  else if (isFloat(tensor.type()))
    tensor.setDouble(index, roundToOdd(value));
  else
    tensor.setInt(index, int64_t(value));
}

template <size_t Bytes>
void copyBytes(std::byte *to, int64_t toStride, const std::byte *from, int64_t fromStride,
               int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * toStride * int64_t(Bytes), from + i * fromStride * int64_t(Bytes), Bytes);
}

using CopyBytes = void (*)(std::byte *, int64_t, const std::byte *, int64_t, int64_t);

CopyBytes copierOf(int64_t bytes) {
  switch (bytes) {
  case 1:
    return copyBytes<1>;
  case 2:
    return copyBytes<2>;
  case 4:
    return copyBytes<4>;
  case 8:
    return copyBytes<8>;
  default:
    return copyBytes<16>;
  }
}

/// Moves the dimension along which `from` is contiguous next to the last, where that transposes.
bool arrangeForTiles(StridedLoop<2> &loop) {
  size_t last = loop.shape.size() - 1;
  if (loop.shape.size() < 2 || loop.strides[0][last] != 1 || loop.strides[1][last] == 1 ||
      loop.shape[last] < 4)
    return false;
  for (size_t axis = 0; axis < last; ++axis) {
    if (loop.strides[1][axis] != 1 || loop.shape[axis] < 4)
      continue;
    std::rotate(loop.shape.begin() + int64_t(axis), loop.shape.begin() + int64_t(axis) + 1,
                loop.shape.begin() + int64_t(last));
    for (auto &strides : loop.strides)
      std::rotate(strides.begin() + int64_t(axis), strides.begin() + int64_t(axis) + 1,
                  strides.begin() + int64_t(last));
    return true;
  }
  return false;
}

void copyTiles(HostTensor &to, int64_t toOffset, const HostTensor &from, int64_t fromOffset,
               const StridedLoop<2> &loop) {
  size_t last = loop.shape.size() - 1;
  int64_t rows = loop.shape[last - 1], columns = loop.shape[last];
  int64_t toStep = loop.strides[0][last - 1], fromStep = loop.strides[1][last];
  StridedLoop<2> outer = loop;
  outer.shape.resize(last - 1);
  for (auto &strides : outer.strides)
    strides.resize(last - 1);
  int64_t bytes = byteSize(to.type());
  CopyBytes copy = copierOf(bytes);
  std::byte *target = to.mutableData();
  auto tile = [&](int64_t toBase, int64_t fromBase, int64_t row, int64_t column) {
    int64_t height = std::min(kTile, rows - row), width = std::min(kTile, columns - column);
    for (int64_t i = row; i < row + height; ++i)
      copy(target + (toBase + i * toStep + column) * bytes, 1,
           from.data() + (fromBase + i + column * fromStep) * bytes, fromStep, width);
  };
  forEachRow(outer, [&](const auto &offsets, const auto &steps, int64_t count) {
    for (int64_t k = 0; k < count; ++k)
      for (int64_t row = 0; row < rows; row += kTile)
        for (int64_t column = 0; column < columns; column += kTile)
          tile(toOffset + offsets[0] + k * steps[0], fromOffset + offsets[1] + k * steps[1], row,
               column);
  });
}

} // namespace

template <typename T>
void loadRun(const HostTensor &tensor, int64_t offset, int64_t stride, int64_t count, T *values) {
  const std::byte *data = tensor.data() + offset * byteSize(tensor.type());
  switch (tensor.type()) {
  case DataType::F32:
    return loadStored<float>(data, stride, count, values);
  case DataType::F64:
    return loadStored<double>(data, stride, count, values);
  case DataType::F16:
    return loadStored<uint16_t>(data, stride, count, values,
                                [table = halfTable()](uint16_t code) { return table[code]; });
  case DataType::BF16:
    return loadStored<uint16_t>(data, stride, count, values, [](uint16_t code) {
      return std::bit_cast<float>(uint32_t(code) << 16);
    });
  case DataType::Bool:
  case DataType::U8:
  case DataType::U4:
  case DataType::U2:
    return loadStored<uint8_t>(data, stride, count, values);
  case DataType::I8:
  case DataType::I4:
  case DataType::I2:
    return loadStored<int8_t>(data, stride, count, values);
  case DataType::U16:
    return loadStored<uint16_t>(data, stride, count, values);
  case DataType::I16:
    return loadStored<int16_t>(data, stride, count, values);
  case DataType::U32:
    return loadStored<uint32_t>(data, stride, count, values);
  case DataType::I32:
    return loadStored<int32_t>(data, stride, count, values);
  case DataType::U64:
    return loadStored<uint64_t>(data, stride, count, values);
  case DataType::I64:
    return loadStored<int64_t>(data, stride, count, values);
  default:
    for (int64_t i = 0; i < count; ++i)
      values[i] = widened<T>(tensor.getDouble(offset + i * stride));
  }
}

template <typename T>
void storeRun(HostTensor &tensor, int64_t offset, int64_t count, const T *values) {
  std::byte *data = tensor.mutableData() + offset * byteSize(tensor.type());
  switch (tensor.type()) {
  case DataType::F32:
    return storeStored<float>(data, count, values);
  case DataType::F64:
    return storeStored<double>(data, count, values);
  case DataType::U8:
  case DataType::I8:
    return storeStored<uint8_t>(data, count, values);
  case DataType::U16:
  case DataType::I16:
    return storeStored<uint16_t>(data, count, values);
  case DataType::U32:
  case DataType::I32:
    return storeStored<uint32_t>(data, count, values);
  case DataType::U64:
  case DataType::I64:
    return storeStored<uint64_t>(data, count, values);
  default:
    for (int64_t i = 0; i < count; ++i)
      setElement<T>(tensor, offset + i, values[i]);
  }
}

#define TENSMITH_RUNS(T)                                                                           \
  template void loadRun<T>(const HostTensor &, int64_t, int64_t, int64_t, T *);                    \
  template void storeRun<T>(HostTensor &, int64_t, int64_t, const T *);
TENSMITH_RUNS(double)
TENSMITH_RUNS(int64_t)
TENSMITH_RUNS(uint64_t)
#undef TENSMITH_RUNS

void copyRun(HostTensor &to, int64_t toOffset, int64_t toStride, const HostTensor &from,
             int64_t fromOffset, int64_t fromStride, int64_t count) {
  if (to.type() == DataType::String) {
    for (int64_t i = 0; i < count; ++i)
      to.setString(toOffset + i * toStride, from.getString(fromOffset + i * fromStride));
    return;
  }
  int64_t bytes = byteSize(to.type());
  if (count <= 0)
    return;
  std::byte *target = to.mutableData() + toOffset * bytes;
  const std::byte *source = from.data() + fromOffset * bytes;
  if (toStride == 1 && fromStride == 1)
    std::memcpy(target, source, size_t(count * bytes));
  else
    copierOf(bytes)(target, toStride, source, fromStride, count);
}

void copyStrided(HostTensor &to, int64_t toOffset, std::span<const int64_t> toStrides,
                 const HostTensor &from, int64_t fromOffset, std::span<const int64_t> fromStrides,
                 std::span<const int64_t> shape) {
  for (int64_t size : shape)
    if (size <= 0)
      return;
  StridedLoop<2> loop =
      mergeDimensions<2>(shape, {std::vector<int64_t>(toStrides.begin(), toStrides.end()),
                                 std::vector<int64_t>(fromStrides.begin(), fromStrides.end())});
  if (to.type() != DataType::String && !loop.shape.empty() && arrangeForTiles(loop))
    return copyTiles(to, toOffset, from, fromOffset, loop);
  forEachRow(loop, [&](const auto &offsets, const auto &steps, int64_t count) {
    copyRun(to, toOffset + offsets[0], steps[0], from, fromOffset + offsets[1], steps[1], count);
  });
}

std::vector<int64_t> rowMajorStrides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  uint64_t stride = 1; // may wrap where another dimension is 0: nothing is then read
  for (size_t axis = shape.size(); axis-- > 0; stride *= uint64_t(shape[axis]))
    strides[axis] = int64_t(stride);
  return strides;
}

bool isNonZero(const HostTensor &tensor, int64_t index) {
  if (tensor.type() == DataType::String)
    return !tensor.getString(index).empty();
  if (info(tensor.type()).kind != TypeClass::Complex)
    return isFloat(tensor.type()) ? tensor.getDouble(index) != 0 : tensor.getInt(index) != 0;
  DataType part = tensor.type() == DataType::C64 ? DataType::F32 : DataType::F64;
  HostTensor parts(part, {2}, tensor.data() + index * byteSize(tensor.type()), nullptr);
  return parts.getDouble(0) != 0 || parts.getDouble(1) != 0;
}

} // namespace tensmith::reference

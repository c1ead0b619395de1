// The bridge between the public API's tensors and numbers of any type.
#include "tools/tensors/Values.h"

#include "files/Failure.h"

#include <charconv>
#include <fmt/format.h>

namespace tensmith::cli {

HostTensor view(const Tensor &tensor) {
  DataType type = DataType(tensor.type());
  if (type != DataType::String)
    return HostTensor(type, tensor.shape(), tensor.data(), nullptr);
  std::vector<std::string> strings;
  for (int64_t i = 0; i < tensor.size(); ++i)
    strings.emplace_back(ts_tensor_string(tensor.handle(), i));
  return HostTensor::ofStrings(tensor.shape(), std::move(strings));
}

static Tensor stringTensor(const HostTensor &tensor) {
  std::vector<const char *> values;
  for (int64_t i = 0; i < tensor.size(); ++i)
    values.push_back(tensor.getString(i).c_str());
  ts_tensor *handle = nullptr;
  detail::check(
      ts_tensor_strings(values.data(), tensor.shape().data(), size_t(tensor.rank()), &handle));
  return Tensor(handle);
}

Tensor toTensor(HostTensor tensor) {
  if (tensor.type() == DataType::String)
    return stringTensor(tensor);
  Tensor result(ts_type(tensor.type()), tensor.shape());
  if (tensor.bytes())
    std::memcpy(result.data(), tensor.data(), size_t(tensor.bytes()));
  return result;
}

std::string typeText(const Tensor &tensor) {
  if (tensor.kind() == TS_NONE)
    return "none";
  if (tensor.kind() == TS_SEQUENCE)
    return fmt::format("sequence of {}", ts_tensor_sequence_length(tensor.handle()));
  if (tensor.kind() == TS_MAP)
    return fmt::format("map of {}", ts_tensor_size(ts_tensor_sequence_at(tensor.handle(), 0)));
  if (tensor.kind() == TS_DATA)
    return "a value of a data type";
  if (tensor.kind() == TS_FUNCTION)
    return "a function";
  return fmt::format("{} {}", ts_type_name(tensor.type()), toString(tensor.shape()));
}

std::string typeText(const Port &port) {
  if (port.kind == TS_NONE)
    return "none";
  std::string type = ts_type_name(port.type);
  if (port.kind == TS_SEQUENCE)
    return "sequence of " + type;
  if (port.kind == TS_MAP)
    return "map to " + type;
  if (port.kind == TS_OPTIONAL)
    return "optional " + type;
  if (!port.ranked)
    return type + " of any rank";
  std::string dims;
  for (const std::string &dim : port.dims)
    dims += (dims.empty() ? "" : "x") + printable(dim);
  return type + " " + (dims.empty() ? "scalar" : dims);
}

static std::string floatText(double value, DataType type) {
  return type == DataType::F64 ? fmt::format("{}", value) : fmt::format("{}", float(value));
}

std::string elementText(const HostTensor &tensor, int64_t index) {
  switch (info(tensor.type()).kind) {
  case TypeClass::String:
    return '"' + printable(tensor.getString(index)) + '"';
  case TypeClass::Bool:
    return tensor.getInt(index) ? "true" : "false";
  case TypeClass::Unsigned:
    return std::to_string(uint64_t(tensor.getInt(index)));
  case TypeClass::Signed:
    return std::to_string(tensor.getInt(index));
  case TypeClass::Complex: {
    bool wide = tensor.type() == DataType::C128;
    HostTensor parts(wide ? DataType::F64 : DataType::F32, {2 * tensor.size()}, tensor.data(),
                     nullptr);
    return fmt::format("{}{:+}i", parts.getDouble(2 * index), parts.getDouble(2 * index + 1));
  }
  default:
    return floatText(tensor.getDouble(index), tensor.type());
  }
}

std::optional<int64_t> dimNumber(const std::string &dim) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(dim.data(), dim.data() + dim.size(), value);
  if (error != std::errc() || end != dim.data() + dim.size())
    return std::nullopt;
  return value;
}

} // namespace tensmith::cli

// Sequences and maps are handles of handles; see Handles.h.
#include "compiler/api/Handles.h"

#include "compiler/api/TakenStatus.h"

namespace tensmith {

Result<graph::RuntimeValue> fromHandle(const ts_tensor *tensor) {
  if (ts_tensor_kind(tensor) == TS_NONE)
    return graph::RuntimeValue();
  if (ts_tensor_kind(tensor) == TS_SEQUENCE || ts_tensor_kind(tensor) == TS_MAP) {
    std::vector<graph::RuntimeValue> elements;
    for (size_t i = 0; i < ts_tensor_sequence_length(tensor); ++i) {
      auto element = fromHandle(ts_tensor_sequence_at(tensor, i));
      if (!element.ok())
        return element.status();
      elements.push_back(*element);
    }
    return ts_tensor_kind(tensor) == TS_MAP
               ? graph::RuntimeValue::map(std::move(elements[0]), std::move(elements[1]))
               : graph::RuntimeValue::sequence(std::move(elements));
  }
  const int64_t *dims = ts_tensor_shape(tensor);
  Shape shape(dims, dims + ts_tensor_rank(tensor));
  auto type = DataType(ts_tensor_type(tensor));
  if (type != DataType::String)
    return graph::RuntimeValue(HostTensor(type, shape, ts_tensor_data(tensor), nullptr));
  std::vector<std::string> strings;
  for (int64_t i = 0; i < ts_tensor_size(tensor); ++i)
    strings.push_back(ts_tensor_string(tensor, i));
  return graph::RuntimeValue(HostTensor::ofStrings(shape, std::move(strings)));
}

Result<std::vector<graph::RuntimeValue>> fromHandles(ts_tensor *const *tensors, size_t count) {
  std::vector<graph::RuntimeValue> result;
  for (size_t i = 0; i < count; ++i) {
    if (!tensors[i])
      return invalidArgument("input " + std::to_string(i) + " is a null pointer");
    auto value = fromHandle(tensors[i]);
    if (!value.ok())
      return value.status();
    result.push_back(std::move(*value));
  }
  return result;
}

ts_status *toHandle(const graph::RuntimeValue &value, ts_tensor **out) {
  if (value.kind == graph::RuntimeValue::Kind::None)
    return ts_tensor_none(out);
  if (value.kind != graph::RuntimeValue::Kind::Tensor) {
    bool isMap = value.kind == graph::RuntimeValue::Kind::Map;
    std::vector<ts_tensor *> elements;
    ts_status *status = nullptr;
    for (const graph::RuntimeValue &element : *value.elements) {
      ts_tensor *handle = nullptr;
      if ((status = toHandle(element, &handle)))
        break;
      elements.push_back(handle);
    }
    if (!status)
      status = isMap ? ts_tensor_map(elements[0], elements[1], out)
                     : ts_tensor_sequence(elements.data(), elements.size(), out);
    for (ts_tensor *element : elements)
      ts_tensor_free(element);
    return status;
  }
  const HostTensor &tensor = value.tensor;
  if (tensor.type() == DataType::String) {
    std::vector<const char *> strings;
    for (int64_t i = 0; i < tensor.size(); ++i)
      strings.push_back(tensor.getString(i).c_str());
    return ts_tensor_strings(strings.data(), tensor.shape().data(), tensor.shape().size(), out);
  }
  ts_status *status =
      ts_tensor_create(ts_type(tensor.type()), tensor.shape().data(), tensor.shape().size(), out);
  if (!status && tensor.bytes())
    std::memcpy(ts_tensor_data(*out), tensor.data(), size_t(tensor.bytes()));
  return status;
}

Result<LoadedModule> loadModule(const std::string &bytes) {
  ts_module *module = nullptr;
  if (Status status = taken(ts_module_load_bytes(bytes.data(), bytes.size(), nullptr, &module));
      !status.ok())
    return status;
  LoadedModule loaded{ModuleHandle(module), nullptr};
  ts_session_options options{};
  options.size = sizeof options;
  ts_session *session = nullptr;
  if (Status status = taken(ts_session_create(module, &options, &session)); !status.ok())
    return status;
  loaded.session.reset(session);
  return loaded;
}

} // namespace tensmith

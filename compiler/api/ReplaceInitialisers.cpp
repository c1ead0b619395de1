// A model with trained weights through the C API; see frontends/onnx/Replace.h.
#include <tensmith/compiler.h>

#include "frontends/onnx/Replace.h"

#include <cstdlib>
#include <cstring>

using namespace tensmith;

namespace {

ts_status *failed(const Status &status) {
  return ts_status_create(ts_status_code(status.code()), status.message().c_str());
}

ts_status *replaceIn(const char *path, const char *const *names, ts_tensor *const *tensors,
                     size_t count, void **model, size_t *modelSize) {
  std::map<std::string, HostTensor> values;
  for (size_t i = 0; i < count; ++i) {
    auto type = DataType(ts_tensor_type(tensors[i]));
    if (ts_tensor_kind(tensors[i]) != TS_TENSOR || type == DataType::String)
      return ts_status_create(TS_INVALID_ARGUMENT,
                              "an initialiser can only become a tensor of numbers");
    const int64_t *dims = ts_tensor_shape(tensors[i]);
    values.emplace(names[i], HostTensor(type, Shape(dims, dims + ts_tensor_rank(tensors[i])),
                                        ts_tensor_data(tensors[i]), nullptr));
  }
  auto bytes = replaceInitialisers(path, values);
  if (!bytes.ok())
    return failed(bytes.status());
  *model = std::malloc(bytes->size());
  if (!*model)
    return ts_status_create(TS_RESOURCE_EXHAUSTED, "there is not enough memory");
  std::memcpy(*model, bytes->data(), bytes->size());
  *modelSize = bytes->size();
  return nullptr;
}

} // namespace

ts_status *ts_replace_initialisers(const char *path, const char *const *names,
                                   ts_tensor *const *tensors, size_t count, void **model,
                                   size_t *modelSize) {
  if (!path || !model || !modelSize || (count > 0 && (!names || !tensors)))
    return ts_status_create(TS_INVALID_ARGUMENT, "an argument is a null pointer");
  *model = nullptr;
  *modelSize = 0;
  try {
    return replaceIn(path, names, tensors, count, model, modelSize);
  } catch (const std::bad_alloc &) {
    return ts_status_create(TS_RESOURCE_EXHAUSTED, "there is not enough memory");
  } catch (const std::exception &error) {
    return ts_status_create(TS_INTERNAL, error.what());
  }
}

// A model with trained weights through the C API; see frontends/onnx/Replace.h, and
// frontends/text/TrainedProgram.h for programs.
#include <tensmith/compiler.h>

#include "compiler/graph/Dialects.h"
#include "frontends/onnx/Replace.h"
#include "frontends/text/TrainedProgram.h"

#include "llvm/Support/MemoryBuffer.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>

using namespace tensmith;

namespace {

ts_status *failed(const Status &status) {
  return ts_status_create(ts_status_code(status.code()), status.message().c_str());
}

ts_status *give(const void *bytes, size_t size, void **model, size_t *modelSize) {
  *model = std::malloc(size);
  if (!*model)
    return ts_status_create(TS_RESOURCE_EXHAUSTED, "there is not enough memory");
  std::memcpy(*model, bytes, size);
  *modelSize = size;
  return nullptr;
}

/// The program then loads the tensors, which the caller puts where it says.
ts_status *replaceInProgram(const char *path, const std::map<std::string, HostTensor> &values,
                            void **model, size_t *modelSize) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false);
  if (!buffer)
    return failed({StatusCode::IoError, path + (": " + buffer.getError().message())});
  mlir::DialectRegistry registry;
  graph::registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  std::set<std::string> names;
  for (const auto &[name, value] : values)
    names.insert(name);
  auto text =
      text::withWeights((*buffer)->getBuffer().str(), path,
                        std::filesystem::absolute(path).parent_path().string(), names, context);
  return text.ok() ? give(text->data(), text->size(), model, modelSize) : failed(text.status());
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
  if (std::string_view(path).ends_with(".tsm"))
    return replaceInProgram(path, values, model, modelSize);
  auto bytes = replaceInitialisers(path, values);
  return bytes.ok() ? give(bytes->data(), bytes->size(), model, modelSize) : failed(bytes.status());
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

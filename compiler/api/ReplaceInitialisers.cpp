// A model with trained weights through the C API; see frontends/onnx/Replace.h, and
// frontends/text/TrainedProgram.h for programs.
#include <tensmith/compiler.h>

#include "compiler/api/Boundary.h"
#include "compiler/graph/Dialects.h"
#include "frontends/onnx/Replace.h"
#include "frontends/text/TrainedProgram.h"

#include "llvm/Support/MemoryBuffer.h"

#include <filesystem>

using namespace tensmith;

namespace {

/// The program then loads the tensors, which the caller puts where it says.
Status replaceInProgram(const char *path, const std::map<std::string, HostTensor> &values,
                        void **model, size_t *modelSize) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false);
  if (!buffer)
    return {StatusCode::IoError, path + (": " + buffer.getError().message())};
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
  return text.ok() ? giveBytes(*text, model, modelSize) : text.status();
}

Status replaceIn(const char *path, const char *const *names, ts_tensor *const *tensors,
                 size_t count, void **model, size_t *modelSize) {
  std::map<std::string, HostTensor> values;
  for (size_t i = 0; i < count; ++i) {
    auto type = DataType(ts_tensor_type(tensors[i]));
    if (ts_tensor_kind(tensors[i]) != TS_TENSOR || type == DataType::String)
      return invalidArgument("an initialiser can only become a tensor of numbers");
    const int64_t *dims = ts_tensor_shape(tensors[i]);
    values.emplace(names[i], HostTensor(type, Shape(dims, dims + ts_tensor_rank(tensors[i])),
                                        ts_tensor_data(tensors[i]), nullptr));
  }
  if (std::string_view(path).ends_with(".tsm"))
    return replaceInProgram(path, values, model, modelSize);
  auto bytes = replaceInitialisers(path, values);
  return bytes.ok() ? giveBytes(*bytes, model, modelSize) : bytes.status();
}

} // namespace

ts_status *ts_replace_initialisers(const char *path, const char *const *names,
                                   ts_tensor *const *tensors, size_t count, void **model,
                                   size_t *modelSize) {
  return guarded([&]() -> Status {
    if (!path || !model || !modelSize || (count > 0 && (!names || !tensors)))
      return invalidArgument("an argument is a null pointer");
    *model = nullptr;
    *modelSize = 0;
    return replaceIn(path, names, tensors, count, model, modelSize);
  });
}

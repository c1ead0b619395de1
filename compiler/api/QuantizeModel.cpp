// The quantiser through the C API: models are compiled and run by the functions that a program
// would call; see quantize/Quantiser.h.
#include <tensmith/compiler.h>

#include "compiler/api/Boundary.h"
#include "compiler/api/Handles.h"
#include "compiler/api/TakenStatus.h"
#include "frontends/onnx/Replace.h"
#include "quantize/ModelGraph.h"
#include "quantize/Quantiser.h"

#include <charconv>

using namespace tensmith;

namespace {

using Bytes = std::unique_ptr<void, void (*)(void *)>;

Result<std::string> textOf(Status status, void *bytes, size_t size) {
  Bytes owner(bytes, ts_bytes_free);
  return status.ok() ? Result<std::string>(std::string(static_cast<const char *>(bytes), size))
                     : status;
}

Result<HostTensor> tensorOf(std::shared_ptr<ts_tensor> handle) {
  if (ts_tensor_kind(handle.get()) != TS_TENSOR || ts_tensor_type(handle.get()) == TS_STRING)
    return unsupported("a model whose values are no tensors of numbers can't be quantised");
  const int64_t *dims = ts_tensor_shape(handle.get());
  return HostTensor(DataType(ts_tensor_type(handle.get())),
                    Shape(dims, dims + ts_tensor_rank(handle.get())), ts_tensor_data(handle.get()),
                    handle);
}

/// Dimensions are text; what is no number is open.
std::vector<int64_t> sizesOf(const ts_port &port) {
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < port.rank; ++i) {
    const char *end = port.dims[i] + std::strlen(port.dims[i]);
    int64_t size = -1;
    auto [read, error] = std::from_chars(port.dims[i], end, size);
    sizes.push_back(error == std::errc() && read == end ? size : -1);
  }
  return sizes;
}

class LoadedExecutable : public quantize::Executable {
public:
  explicit LoadedExecutable(LoadedModule loaded) : loaded_(std::move(loaded)) {
    for (size_t i = 0; i < ts_module_input_count(module()); ++i) {
      ts_port port = ts_module_input(module(), i);
      inputs_.push_back({port.name, sizesOf(port)});
    }
    for (size_t i = 0; i < ts_module_output_count(module()); ++i)
      outputs_.push_back(ts_module_output(module(), i).name);
  }

  const std::vector<quantize::Port> &inputs() const override { return inputs_; }

  Result<quantize::Feed> run(const quantize::Feed &inputs) override {
    std::vector<TensorHandle> handles;
    std::vector<ts_tensor *> given, results(outputs_.size());
    for (const quantize::Port &port : inputs_) {
      auto found = inputs.find(port.name);
      if (found == inputs.end())
        return invalidArgument("input '" + port.name + "' is not given");
      ts_tensor *handle = nullptr;
      if (Status status = taken(toHandle(graph::RuntimeValue(found->second), &handle));
          !status.ok())
        return status;
      given.push_back(handles.emplace_back(handle).get());
    }
    Status status = taken(ts_session_run(loaded_.session.get(), given.data(), given.size(),
                                         results.data(), results.size()));
    quantize::Feed found;
    for (size_t i = 0; i < results.size(); ++i) {
      std::shared_ptr<ts_tensor> kept(results[i], ts_tensor_free);
      auto tensor = status.ok() ? tensorOf(kept) : Result<HostTensor>(status);
      if (status.ok() && !tensor.ok())
        status = tensor.status();
      if (status.ok())
        found.emplace(outputs_[i], *tensor);
    }
    return status.ok() ? Result<quantize::Feed>(std::move(found)) : status;
  }

private:
  ts_module *module() const { return loaded_.module.get(); }
  LoadedModule loaded_;
  std::vector<quantize::Port> inputs_;
  std::vector<std::string> outputs_;
};

class Compiler {
public:
  Compiler(const char *path, const ts_compile_options *given) : path_(path) {
    ts_compile_options_init(&options_);
    if (given) // of an older caller's structure as much as it has
      std::memcpy(&options_, given, std::min(given->size, sizeof options_));
    options_.size = sizeof options_;
  }

  quantize::Engine engine() {
    auto open = [this](const std::string &model, const std::vector<std::string> &keep,
                       const std::vector<std::string> &overridable) {
      return this->open(model, keep, overridable);
    };
    auto progress = [this](const std::string &stage, double fraction) {
      if (options_.progress)
        options_.progress(options_.progress_context, stage.c_str(), fraction);
    };
    return {open, progress, [this](const std::string &message) { warn(message); }};
  }

  /// The model with all that lies in files beside it. One that is no ONNX, or of an opset that has
  /// no such codes, is written anew by way of the graph.
  Result<std::string> model() {
    if (std::string_view(path_).ends_with(".tsm"))
      return exported();
    auto bytes = replaceInitialisers(path_, {});
    Status status = bytes.ok() ? check() : bytes.status();
    if (!status.ok())
      return status;
    auto parsed = quantize::ModelGraph::parse(*bytes);
    if (parsed.ok())
      return bytes;
    auto newer = parsed.status().code() == StatusCode::Unsupported
                     ? exported()
                     : Result<std::string>(parsed.status());
    if (!newer.ok())
      return parsed.status().within(path_);
    warn(std::string(path_) + ": " + parsed.status().message() +
         "; it was converted, so that nodes and weights have other names");
    return newer;
  }

private:
  void warn(const std::string &message) const {
    if (options_.warn)
      options_.warn(options_.warn_context, message.c_str());
  }

  /// That the model is one that can be compiled, before its nodes are looked at one by one.
  Status check() const {
    char *description = nullptr;
    Status status = taken(ts_describe_model(path_, &options_, &description));
    ts_bytes_free(description);
    return status;
  }

  Result<std::string> exported() const {
    void *bytes = nullptr;
    size_t size = 0;
    Status status = taken(ts_export_onnx(path_, &options_, nullptr, nullptr, 0, &bytes, &size));
    return textOf(std::move(status), bytes, size);
  }

  Result<std::unique_ptr<quantize::Executable>>
  open(const std::string &model, const std::vector<std::string> &keep,
       const std::vector<std::string> &overridable) const {
    ts_compile_options options = options_;
    auto pointers = [](const std::vector<std::string> &names) {
      std::vector<const char *> result;
      for (const std::string &name : names)
        result.push_back(name.c_str());
      return result;
    };
    std::vector<const char *> kept = pointers(keep), given = pointers(overridable);
    options.keep = kept.data();
    options.keep_count = kept.size();
    options.overridable = given.data();
    options.overridable_count = given.size();
    void *bytes = nullptr;
    size_t size = 0;
    Status status =
        taken(ts_compile_bytes(model.data(), model.size(), path_, &options, &bytes, &size));
    auto module = textOf(std::move(status), bytes, size);
    if (!module.ok())
      return module.status();
    auto loaded = loadModule(*module);
    if (!loaded.ok())
      return loaded.status();
    return std::unique_ptr<quantize::Executable>(
        std::make_unique<LoadedExecutable>(std::move(*loaded)));
  }

  const char *path_;
  ts_compile_options options_;
};

Status quantizeModel(const char *path, const char *settings, const ts_compile_options *options,
                     const char *const *names, ts_tensor *const *samples, size_t count,
                     void **model, size_t *size, char **report) {
  auto parsed = quantize::parseSettings(settings ? settings : "{}");
  auto values = fromHandles(samples, count);
  if (!parsed.ok() || !values.ok())
    return parsed.ok() ? values.status() : parsed.status();
  quantize::Feed arrays;
  for (size_t i = 0; i < count; ++i) {
    if ((*values)[i].kind != graph::RuntimeValue::Kind::Tensor ||
        (*values)[i].tensor.type() == DataType::String)
      return invalidArgument("the samples of '" + std::string(names[i]) +
                             "' are no tensor of numbers");
    arrays.emplace(names[i], (*values)[i].tensor);
  }
  Compiler compiler(path, options);
  auto bytes = compiler.model();
  if (!bytes.ok())
    return bytes.status();
  quantize::Engine engine = compiler.engine();
  auto quantised = quantize::quantise(*bytes, *parsed, arrays, engine);
  if (!quantised.ok())
    return quantised.status().within(path);
  Status status = report ? copyText(quantised->report, report) : Status();
  return status.ok() ? giveBytes(quantised->model, model, size) : status;
}

} // namespace

ts_status *ts_quantize_model(const char *path, const char *settings,
                             const ts_compile_options *options, const char *const *names,
                             ts_tensor *const *samples, size_t count, void **model,
                             size_t *modelSize, char **report) {
  if (report)
    *report = nullptr;
  return guarded([&]() -> Status {
    if (!path || !model || !modelSize || (count > 0 && (!names || !samples)))
      return missing(path ? "the names, the samples or the result" : "the path");
    *model = nullptr;
    *modelSize = 0;
    return quantizeModel(path, settings, options, names, samples, count, model, modelSize, report);
  });
}

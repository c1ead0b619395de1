// The public C API of the compiler: front ends, pipeline and reference evaluator behind
// tensmith/compiler.h.
#include <tensmith/compiler.h>

#include "compiler/graph/Constants.h"
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/Graph.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/target/cpu/Dialects.h"
#include "compiler/target/cpu/KernelCache.h"
#include "compiler/target/cpu/Machine.h"
#include "frontends/onnx/Import.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstdlib>
#include <cstring>

using namespace mlir;
using namespace tensmith;

namespace {

ts_status *fromStatus(const Status &status) {
  return status.ok() ? nullptr
                     : ts_status_create(ts_status_code(status.code()), status.message().c_str());
}

/// Nothing throws across the boundary.
template <typename Work> ts_status *guarded(Work work) noexcept {
  try {
    return fromStatus(work());
  } catch (const std::bad_alloc &) {
    return ts_status_create(TS_RESOURCE_EXHAUSTED, "there is not enough memory");
  } catch (const std::exception &error) {
    return ts_status_create(TS_INTERNAL, error.what());
  }
}

ts_compile_options withDefaults(const ts_compile_options *options) {
  ts_compile_options result;
  ts_compile_options_init(&result);
  if (options)
    std::memcpy(&result, options, std::min(options->size, sizeof(result)));
  return result;
}

/// A model in the graph dialect, in a context of its own.
class LoadedModel {
public:
  LoadedModel() : context_(registry(), MLIRContext::Threading::DISABLED) {
    context_.loadAllAvailableDialects();
  }

  Status load(const std::string &path, const ts_compile_options &options) {
    auto buffer =
        llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
    if (!buffer)
      return {StatusCode::IoError, path + ": " + buffer.getError().message()};
    if (isText((*buffer)->getBuffer()))
      return parseText((*buffer)->getBuffer(), path);
    buffer->reset();
    return take(importFile(path, context_, importOptions(options)));
  }

  Status load(std::string_view bytes, const std::string &name, const ts_compile_options &options) {
    if (isText(bytes))
      return parseText(bytes, name);
    auto span = std::as_bytes(std::span(bytes.data(), bytes.size()));
    return take(importBytes(span, name, context_, importOptions(options)));
  }

  ModuleOp module() { return *module_; }
  func::FuncOp main() { return module_->lookupSymbol<func::FuncOp>("main"); }

private:
  static DialectRegistry registry() {
    DialectRegistry registry;
    graph::registerDialects(registry);
    target::cpu::registerCodegenDialects(registry);
    return registry;
  }

  /// The text form begins with a comment, a module or a function; ONNX's protobuf with a field
  /// number.
  static bool isText(std::string_view bytes) {
    size_t start = bytes.find_first_not_of(" \t\r\n");
    if (start == std::string_view::npos)
      return false;
    std::string_view rest = bytes.substr(start);
    for (std::string_view word : {"//", "module", "func.func", "builtin.module", "#", "!"})
      if (rest.starts_with(word))
        return true;
    return false;
  }

  Status parseText(std::string_view text, const std::string &name) {
    std::string message;
    ScopedDiagnosticHandler handler(&context_, [&](Diagnostic &diagnostic) {
      if (message.empty()) {
        llvm::raw_string_ostream stream(message);
        diagnostic.getLocation().print(stream);
        stream << ": " << diagnostic.str();
      }
      return success();
    });
    module_ = parseSourceString<ModuleOp>(StringRef(text.data(), text.size()), &context_, name);
    if (!module_ || !main())
      return {StatusCode::InvalidModel,
              name + ": " + (message.empty() ? "has no function @main" : message)};
    return {};
  }

  Status take(Result<OwningOpRef<ModuleOp>> imported) {
    if (!imported.ok())
      return imported.status();
    module_ = std::move(*imported);
    return {};
  }

  static ImportOptions importOptions(const ts_compile_options &options) {
    ImportOptions result;
    for (size_t i = 0; i < options.shape_count; ++i) {
      auto [name, dims] = StringRef(options.shapes[i]).split('=');
      int64_t size;
      if (!dims.contains('x') && !dims.getAsInteger(10, size))
        result.symbols[name.str()] = size;
      SmallVector<StringRef> parts;
      dims.split(parts, 'x');
      auto &shape = result.shapes[name.str()];
      for (StringRef part : parts)
        shape.push_back(part.str());
    }
    return result;
  }

  MLIRContext context_;
  OwningOpRef<ModuleOp> module_;
};

pipeline::CompileOptions compileOptions(const ts_compile_options &options,
                                        const std::string &model) {
  pipeline::CompileOptions result;
  if (options.target)
    result.target = options.target;
  result.cacheFolder = options.cache_dir ? options.cache_dir : target::cpu::defaultCacheFolder();
  if (options.dump_ir_dir)
    result.dumpFolder = options.dump_ir_dir;
  result.threads = options.threads;
  result.fuse = options.optimization > 0;
  result.byReference = options.evaluate_by_reference != 0;
  result.model = model;
  if (options.progress)
    result.progress = [options](const char *stage, double fraction) {
      options.progress(options.progress_context, stage, fraction);
    };
  return result;
}

char *copied(const std::string &text) {
  char *result = static_cast<char *>(std::malloc(text.size() + 1));
  if (result)
    std::memcpy(result, text.c_str(), text.size() + 1);
  return result;
}

Result<graph::RuntimeValue> fromHandle(const ts_tensor *tensor) {
  if (ts_tensor_kind(tensor) == TS_NONE)
    return graph::RuntimeValue();
  if (ts_tensor_kind(tensor) == TS_SEQUENCE) {
    std::vector<graph::RuntimeValue> elements;
    for (size_t i = 0; i < ts_tensor_sequence_length(tensor); ++i) {
      auto element = fromHandle(ts_tensor_sequence_at(tensor, i));
      if (!element.ok())
        return element.status();
      elements.push_back(*element);
    }
    return graph::RuntimeValue::sequence(std::move(elements));
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

ts_status *toHandle(const graph::RuntimeValue &value, ts_tensor **out) {
  if (value.kind == graph::RuntimeValue::Kind::None)
    return ts_tensor_none(out);
  if (value.kind == graph::RuntimeValue::Kind::Sequence) {
    std::vector<ts_tensor *> elements;
    ts_status *status = nullptr;
    for (const graph::RuntimeValue &element : *value.elements) {
      ts_tensor *handle = nullptr;
      if ((status = toHandle(element, &handle)))
        break;
      elements.push_back(handle);
    }
    if (!status)
      status = ts_tensor_sequence(elements.data(), elements.size(), out);
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

std::string typeText(Type type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  type.print(stream);
  return text;
}

llvm::json::Array ports(func::FuncOp function, bool inputs) {
  llvm::json::Array result;
  auto types = inputs ? function.getArgumentTypes() : function.getResultTypes();
  for (auto [index, type] : llvm::enumerate(types)) {
    auto name = inputs ? function.getArgAttrOfType<StringAttr>(index, "graph.name")
                       : function.getResultAttrOfType<StringAttr>(index, "graph.name");
    result.push_back(
        llvm::json::Object{{"name", name ? name.str() : ""}, {"type", typeText(type)}});
  }
  return result;
}

std::string described(func::FuncOp function) {
  std::map<std::string, int64_t> operators;
  function.walk([&](Operation *op) {
    if (isa_and_nonnull<graph::GraphDialect>(op->getDialect()) && !isa<graph::YieldOp>(op))
      ++operators[op->getName().stripDialect().str()];
  });
  llvm::json::Object counts;
  for (auto &[name, count] : operators)
    counts[name] = count;
  llvm::json::Value value = llvm::json::Object{{"inputs", ports(function, true)},
                                               {"outputs", ports(function, false)},
                                               {"operators", std::move(counts)}};
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return text;
}

} // namespace

void ts_compile_options_init(ts_compile_options *options) {
  *options = {};
  options->size = sizeof(*options);
  options->optimization = 2;
}

ts_status *ts_compile_file(const char *path, const ts_compile_options *options,
                           const char *outPath) {
  return guarded([&]() -> Status {
    ts_compile_options all = withDefaults(options);
    LoadedModel model;
    if (Status status = model.load(path, all); !status.ok())
      return status;
    return pipeline::compileToFile(model.module(), compileOptions(all, path), outPath);
  });
}

ts_status *ts_compile_bytes(const void *bytes, size_t size, const char *name,
                            const ts_compile_options *options, void **module, size_t *moduleSize) {
  return guarded([&]() -> Status {
    ts_compile_options all = withDefaults(options);
    LoadedModel model;
    if (Status status = model.load({static_cast<const char *>(bytes), size}, name, all);
        !status.ok())
      return status;
    auto compiled = pipeline::compileToBytes(model.module(), compileOptions(all, name));
    if (!compiled.ok())
      return compiled.status();
    *module = std::malloc(compiled->size());
    if (!*module)
      return {StatusCode::ResourceExhausted, "there is not enough memory for the module"};
    std::memcpy(*module, compiled->data(), compiled->size());
    *moduleSize = compiled->size();
    return {};
  });
}

void ts_bytes_free(void *bytes) { std::free(bytes); }

ts_status *ts_evaluate_file(const char *path, const ts_compile_options *options,
                            ts_tensor *const *inputs, size_t inputCount, ts_tensor **outputs,
                            size_t outputCount, void (*observe)(void *, const char *, ts_tensor *),
                            void *context) {
  return guarded([&]() -> Status {
    LoadedModel model;
    if (Status status = model.load(path, withDefaults(options)); !status.ok())
      return status;
    std::vector<graph::RuntimeValue> arguments;
    for (size_t i = 0; i < inputCount; ++i) {
      auto value = fromHandle(inputs[i]);
      if (!value.ok())
        return value.status();
      arguments.push_back(*value);
    }
    graph::Observer observer;
    if (observe)
      observer = [&](Value value, const graph::RuntimeValue &computed) {
        ts_tensor *handle = nullptr;
        if (ts_status *status = toHandle(computed, &handle))
          return ts_status_free(status);
        observe(context, graph::describe(value.getLoc()).c_str(), handle);
        ts_tensor_free(handle);
      };
    auto results = graph::evaluate(model.main(), std::move(arguments), observer);
    if (!results.ok())
      return results.status().within(path);
    if (results->size() != outputCount)
      return invalidArgument("the model has " + std::to_string(results->size()) + " outputs, not " +
                             std::to_string(outputCount));
    for (size_t i = 0; i < outputCount; ++i)
      if (ts_status *status = toHandle((*results)[i], &outputs[i])) {
        Status failed(StatusCode(ts_status_get_code(status)), ts_status_message(status));
        ts_status_free(status);
        return failed;
      }
    return {};
  });
}

ts_status *ts_describe_model(const char *path, const ts_compile_options *options, char **json) {
  return guarded([&]() -> Status {
    LoadedModel model;
    if (Status status = model.load(path, withDefaults(options)); !status.ok())
      return status;
    *json = copied(described(model.main()));
    return {};
  });
}

ts_status *ts_describe_machine(char **json) {
  return guarded([&]() -> Status {
    *json = copied(target::cpu::toJson(target::cpu::hostMachine()));
    return {};
  });
}

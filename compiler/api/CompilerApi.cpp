// The public C API of the compiler: front ends, pipeline and reference evaluator behind
// tensmith/compiler.h.
#include <tensmith/compiler.h>

#include "base/FilesRead.h"
#include "base/RunKey.h"
#include "compiler/api/Boundary.h"
#include "compiler/api/CompileOptions.h"
#include "compiler/api/Derivatives.h"
#include "compiler/api/GraphText.h"
#include "compiler/api/Handles.h"
#include "compiler/api/ModelInContext.h"
#include "compiler/api/RunModule.h"
#include "compiler/api/TakenStatus.h"
#include "compiler/api/TrainingOptions.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/Outputs.h"
#include "compiler/kernel/Schedule.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/program/Inlining.h"
#include "compiler/program/Program.h"
#include "compiler/targets/Target.h"
#include "compiler/training/ProgramForm.h"
#include "compiler/vm/Signature.h"
#include "files/ModelFile.h"
#include "frontends/comprehension/Import.h"
#include "frontends/onnx/Export.h"
#include "frontends/onnx/Import.h"
#include "frontends/text/Evaluator.h"
#include "frontends/text/Import.h"
#include "runtime/PortJson.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>

using namespace mlir;
using namespace tensmith;

namespace {

/// A model, read and worked on within the limits.
class LoadedModel : CompileLimits, public ModelInContext {
public:
  explicit LoadedModel(const ts_compile_options &options) : CompileLimits(options) {}
};

/// Calls `work(model, options)` on the model at the path. `result`: where what is asked for goes.
template <typename Work>
ts_status *withModel(const char *path, const ts_compile_options *given, const void *result,
                     const char *nameOfResult, Work work) {
  return guarded([&]() -> Status {
    if (!path || !result)
      return missing(path ? nameOfResult : "the path");
    auto options = checkedOptions(given);
    if (!options)
      return options.status();
    LoadedModel model(*options);
    Status status = model.load(path, *options);
    return status.ok() ? work(model, *options) : status;
  });
}

void writePorts(runtime::JsonWriter &json, const std::vector<vm::SignaturePort> &ports) {
  json.open('[');
  for (const vm::SignaturePort &port : ports)
    runtime::writePort(json, {port.name,
                              port.kind,
                              port.type,
                              port.ranked,
                              {port.dims.begin(), port.dims.end()},
                              port.object});
  json.close(']');
}

std::string described(func::FuncOp function) {
  std::map<std::string, int64_t> operators;
  function.walk([&](Operation *op) {
    if (graph::isOperator(op) && !isa<graph::YieldOp>(op))
      ++operators[graph::operatorName(op).str()];
  });
  runtime::JsonWriter json;
  json.open('{');
  writePorts(json.key("inputs"), vm::inputsOf(function));
  writePorts(json.key("outputs"), vm::outputsOf(function));
  json.key("operators").open('{');
  for (const auto &[name, count] : operators)
    json.key(name).value(count);
  return json.close('}').close('}').take();
}

/// The names under which a function gives each value.
llvm::DenseMap<Value, std::vector<std::string>> outputNames(func::FuncOp function) {
  llvm::DenseMap<Value, std::vector<std::string>> names;
  Operation *exit = function.getBody().front().getTerminator();
  for (auto [value, port] : llvm::zip_equal(exit->getOperands(), vm::outputsOf(function)))
    names[value].push_back(port.name);
  return names;
}

using Observe = void (*)(void *context, const char *name, const char *source, ts_tensor *tensor);

graph::Observer observerOf(func::FuncOp function, Observe observe, void *context, Status &failed) {
  return [=, &failed, names = outputNames(function)](Value value,
                                                     const graph::RuntimeValue &computed) {
    for (const std::string &name : names.lookup(value)) {
      ts_tensor *handle = nullptr;
      if (failed.ok())
        failed = taken(toHandle(computed, &handle));
      if (failed.ok())
        observe(context, name.c_str(), graph::sourceOf(value).c_str(), handle);
      ts_tensor_free(handle);
    }
  };
}

/// All of them or, where one fails, none.
Status giveAll(ArrayRef<graph::RuntimeValue> values, ts_tensor **outputs) {
  std::vector<TensorHandle> handles;
  for (const graph::RuntimeValue &value : values) {
    ts_tensor *handle = nullptr;
    if (Status status = taken(toHandle(value, &handle)); !status.ok()) {
      ts_tensor_free(handle);
      return status;
    }
    handles.emplace_back(handle);
  }
  for (size_t i = 0; i < handles.size(); ++i)
    outputs[i] = handles[i].release();
  return {};
}

/// A handle's value as the language's evaluator has it, and the other way round; lists are long, so
/// neither recurses. Both build a value once its fields are built.
Result<text::ValueRef> toValue(const ts_tensor *handle) {
  struct Part {
    const ts_tensor *handle;
    std::vector<text::ValueRef> fields;
  };
  std::vector<Part> parts = {{handle, {}}};
  while (true) {
    Part &top = parts.back();
    bool data = ts_tensor_kind(top.handle) == TS_DATA;
    if (data && top.fields.size() < ts_tensor_sequence_length(top.handle)) {
      parts.push_back({ts_tensor_sequence_at(top.handle, top.fields.size()), {}});
      continue;
    }
    text::ValueRef built;
    if (data) {
      built = text::Value::data(ts_tensor_constructor(top.handle), std::move(top.fields));
    } else {
      auto tensor = fromHandle(top.handle);
      if (!tensor.ok() || tensor->kind != graph::RuntimeValue::Kind::Tensor)
        return tensor.ok() ? invalidArgument("a program takes tensors and values of data types")
                           : tensor.status();
      built = text::Value::of(tensor->tensor);
    }
    parts.pop_back();
    if (parts.empty())
      return built;
    parts.back().fields.push_back(std::move(built));
  }
}

Result<TensorHandle> toHandle(const text::ValueRef &value) {
  struct Part {
    const text::Value *value;
    std::vector<TensorHandle> fields;
  };
  std::vector<Part> parts;
  parts.push_back({value.get(), {}});
  while (true) {
    Part &top = parts.back();
    bool data = top.value->kind == text::Value::Kind::Data;
    if (data && top.fields.size() < top.value->fields.size()) {
      const text::Value *next = top.value->fields[top.fields.size()].get();
      parts.push_back({next, {}});
      continue;
    }
    if (!data && top.value->kind != text::Value::Kind::Tensor)
      return unsupported("a function can't leave the evaluator; let main return tensors and "
                         "values of data types");
    ts_tensor *built = nullptr;
    std::vector<ts_tensor *> fields;
    for (TensorHandle &field : top.fields)
      fields.push_back(field.get());
    Status status =
        taken(data ? ts_tensor_data_value(top.value->tag, fields.data(), fields.size(), &built)
                   : tensmith::toHandle(graph::RuntimeValue(top.value->tensor), &built));
    TensorHandle handle(built);
    if (!status.ok())
      return status;
    parts.pop_back();
    if (parts.empty())
      return std::move(handle);
    parts.back().fields.push_back(std::move(handle));
  }
}

struct Given {
  ts_tensor *const *inputs;
  size_t inputCount;
  ts_tensor **outputs;
  size_t outputCount;
  Observe observe;
  void *context;
};

/// A program of the language by its own evaluator.
Status evaluateProgram(StringRef path, const Given &given, uint64_t runKey) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false);
  if (!buffer)
    return {StatusCode::IoError, path.str() + ": " + buffer.getError().message()};
  std::vector<text::ValueRef> inputs;
  for (size_t i = 0; i < given.inputCount; ++i) {
    auto value = given.inputs[i] ? toValue(given.inputs[i])
                                 : missing(("input " + std::to_string(i)).c_str());
    if (!value.ok())
      return value.status();
    inputs.push_back(std::move(*value));
  }
  DialectRegistry registry;
  graph::registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  text::Program program((*buffer)->getBuffer().str(), path.str(),
                        std::filesystem::absolute(path.str()).parent_path().string(), context);
  text::EvaluationOptions evaluation;
  evaluation.runKey = runKey;
  auto result = text::evaluate(program, std::move(inputs), evaluation);
  if (!result.ok())
    return result.status();
  std::vector<text::ValueRef> values = text::outputsOf(program, *result);
  if (values.size() < given.outputCount)
    return invalidArgument("the program has " + std::to_string(values.size()) + " outputs, not " +
                           std::to_string(given.outputCount));
  std::vector<TensorHandle> handles;
  for (const text::ValueRef &value : values) {
    auto handle = toHandle(value);
    if (!handle.ok())
      return handle.status();
    handles.push_back(std::move(*handle));
  }
  for (size_t i = 0; i < handles.size(); ++i) {
    std::string name = handles.size() > 1 ? "result" + std::to_string(i) : "result";
    ts_tensor_retain(handles[i].get());
    if (given.observe)
      given.observe(given.context, name.c_str(), "", handles[i].get());
    ts_tensor_free(handles[i].get());
    if (i < given.outputCount)
      given.outputs[i] = handles[i].release();
  }
  return {};
}

} // namespace

void ts_compile_options_init(ts_compile_options *options) {
  if (!options)
    return;
  *options = {};
  options->size = sizeof(*options);
  options->optimization = 1;
  options->debug_info = 1;
}

ts_status *ts_compile_file(const char *path, const ts_compile_options *options,
                           const char *outPath) {
  return withModel(path, options, outPath, "the module's path",
                   [&](LoadedModel &model, const ts_compile_options &known) {
                     return pipeline::compileToFile(model.module(), compileOptions(known, path),
                                                    outPath);
                   });
}

ts_status *ts_compile_bytes(const void *bytes, size_t size, const char *name,
                            const ts_compile_options *options, void **module, size_t *moduleSize) {
  return guarded([&]() -> Status {
    if ((!bytes && size) || !name)
      return missing(name ? "the model" : "the name");
    if (!module || !moduleSize)
      return missing("the result");
    *module = nullptr;
    *moduleSize = 0;
    auto known = checkedOptions(options);
    if (!known)
      return known.status();
    LoadedModel model(*known);
    if (Status status = model.load({static_cast<const char *>(bytes), size}, name, *known);
        !status.ok())
      return status;
    auto compiled = pipeline::compileToBytes(model.module(), compileOptions(*known, name));
    return compiled.ok() ? giveBytes(*compiled, module, moduleSize) : compiled.status();
  });
}

void ts_bytes_free(void *bytes) { std::free(bytes); }

ts_status *ts_compile_update(const ts_updated *tensors, size_t count, int64_t processes,
                             const ts_compile_options *options, const char *outPath) {
  return guarded([&]() -> Status {
    if ((count && !tensors) || !outPath)
      return missing(outPath ? "the tensors" : "the module's path");
    auto known = checkedOptions(options);
    if (!known)
      return known.status();
    if (!known->training)
      return missing("the training options");
    LoadedModel model(*known);
    if (Status status = model.makeUpdate({tensors, count}, processes, *known); !status.ok())
      return status;
    return pipeline::compileToFile(model.module(), compileOptions(*known, "update"), outPath);
  });
}

ts_status *ts_evaluate_file(const char *path, const ts_compile_options *options,
                            ts_tensor *const *inputs, size_t inputCount, ts_tensor **outputs,
                            size_t outputCount, Observe observe, void *context) {
  return guarded([&]() -> Status {
    if (!path || (inputCount && !inputs) || (outputCount && !outputs))
      return missing(path ? "the inputs or outputs" : "the path");
    std::fill_n(outputs, outputCount, nullptr);
    auto known = checkedOptions(options);
    if (!known)
      return known.status();
    uint64_t runKey = known->seed ? *known->seed : freshRunKey();
    if (StringRef(path).ends_with(".tsm") && !known->derivative_count)
      return evaluateProgram(path, {inputs, inputCount, outputs, outputCount, observe, context},
                             runKey);
    auto arguments = fromHandles(inputs, inputCount);
    if (!arguments)
      return arguments.status();
    LoadedModel model(*known);
    if (Status status = model.load(path, *known); !status.ok())
      return status;
    Status unobserved;
    auto results = graph::evaluate(model.main(), std::move(*arguments),
                                   observe ? observerOf(model.main(), observe, context, unobserved)
                                           : graph::Observer(),
                                   runKey);
    if (!results.ok())
      return results.status().within(path);
    if (!unobserved.ok())
      return unobserved;
    if (results->size() < outputCount)
      return invalidArgument("the model has " + std::to_string(results->size()) + " outputs, not " +
                             std::to_string(outputCount));
    return giveAll(ArrayRef(*results).take_front(outputCount), outputs);
  });
}

ts_status *ts_export_onnx(const char *path, const ts_compile_options *options,
                          const char *const *names, ts_tensor *const *tensors, size_t count,
                          void **exported, size_t *size) {
  return guarded([&]() -> Status {
    if (!path || (count && (!names || !tensors)) || !exported || !size)
      return missing(path ? "the names, the tensors or the result" : "the path");
    *exported = nullptr;
    *size = 0;
    auto known = checkedOptions(options);
    auto values = fromHandles(tensors, count);
    if (!known || !values)
      return known ? values.status() : known.status();
    known->overridable = names;
    known->overridable_count = count;
    std::map<std::string, HostTensor> initialisers;
    for (size_t i = 0; i < count; ++i)
      initialisers.emplace(names[i], (*values)[i].tensor);
    LoadedModel model(*known);
    if (Status status = model.load(path, *known); !status.ok())
      return status;
    program::openProgram(model.module());
    Status tensors = program::checkTensorCode(
        model.module(), "ONNX has tensor code alone; where sizes decide it, fix them (--shape)");
    auto bytes =
        tensors.ok() ? exportModel(model.module(), initialisers) : Result<std::string>(tensors);
    return bytes ? giveBytes(*bytes, exported, size) : bytes.status().within(path);
  });
}

ts_status *ts_describe_model(const char *path, const ts_compile_options *options, char **json) {
  if (json)
    *json = nullptr;
  return withModel(path, options, json, "the result",
                   [&](LoadedModel &model, const ts_compile_options &) {
                     return copyText(described(model.main()), json);
                   });
}

/// What a compilation without code tells of itself, by `ask`.
static ts_status *told(const char *path, const ts_compile_options *options, char **json,
                       void (*ask)(pipeline::CompileOptions &, std::string &)) {
  if (json)
    *json = nullptr;
  return withModel(path, options, json, "the result",
                   [&](LoadedModel &model, const ts_compile_options &known) {
                     pipeline::CompileOptions compile = compileOptions(known, path);
                     std::string text;
                     ask(compile, text);
                     auto made = pipeline::compileWithoutCode(model.module(), compile);
                     return made.ok() ? copyText(text, json) : made.status();
                   });
}

ts_status *ts_describe_spaces(const char *path, const ts_compile_options *options, char **json) {
  return told(path, options, json, [](pipeline::CompileOptions &compile, std::string &text) {
    compile.offered = [&](const kernel::Schedules &offered) { text = offered.spacesJson(); };
  });
}

ts_status *ts_explain(const char *path, const ts_compile_options *options, char **json) {
  return told(path, options, json, [](pipeline::CompileOptions &compile, std::string &text) {
    compile.explained = [&](const std::string &explanation) { text = explanation; };
  });
}

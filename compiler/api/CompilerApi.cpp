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

/// A dimension as an option gives it: a size, or the name of a symbol.
Status checkDimension(StringRef text) {
  if (text.empty())
    return invalidArgument("a dimension is empty");
  bool isName = !llvm::isDigit(text[0]) && text[0] != '-' && text[0] != '+';
  int64_t size;
  if (isName || (!text.getAsInteger(10, size) && size >= 0))
    return {};
  return invalidArgument("'" + text.str() + "' is no size; sizes are integers from 0 on");
}

/// "image=1x3x224x224", or "batch=4", which is the size of a symbol or of an input of one
/// dimension.
Status addShape(StringRef text, ImportOptions &options) {
  auto [name, dims] = text.split('=');
  if (name.size() == text.size() || name.empty())
    return invalidArgument("it must be NAME=DIMENSIONS, as image=1x3x224x224 or batch=4");
  auto [place, isNew] = options.shapes.try_emplace(name.str());
  if (!isNew)
    return invalidArgument("'" + name.str() + "' was given a shape before");
  SmallVector<StringRef> parts;
  dims.split(parts, 'x');
  for (StringRef part : parts) {
    if (Status status = checkDimension(part); !status.ok())
      return status;
    place->second.push_back(part.str());
  }
  int64_t size;
  if (parts.size() == 1 && !dims.getAsInteger(10, size))
    options.symbols[name.str()] = size;
  return {};
}

Result<ImportOptions> importOptions(const ts_compile_options &options) {
  ImportOptions result;
  result.keep = keepOptions(options);
  for (size_t i = 0; i < options.overridable_count; ++i)
    result.overridable.insert(options.overridable[i]);
  for (std::string &name : namesOfDerivatives(options))
    result.overridable.insert(std::move(name));
  result.form = options.training         ? ModelForm::Training
                : options.for_evaluation ? ModelForm::Evaluation
                                         : ModelForm::AsGiven;
  if (options.node_limit)
    result.maxNodes = options.node_limit;
  if (options.nesting_limit)
    result.maxNesting = options.nesting_limit;
  for (size_t i = 0; i < options.shape_count; ++i)
    if (Status status = addShape(options.shapes[i], result); !status.ok())
      return status.within("shape '" + std::string(options.shapes[i]) + "'");
  return result;
}

/// A model in the graph dialect, in a context of its own, read and worked on within the limits.
class LoadedModel {
public:
  explicit LoadedModel(const ts_compile_options &options)
      : limits_(options), context_(registry(), MLIRContext::Threading::DISABLED) {
    context_.loadAllAvailableDialects();
  }

  /// What a file or bytes hold, with the derivatives that are asked for.
  Status load(const std::string &path, const ts_compile_options &options) {
    FilesRead files;
    Status status = read(path, options);
    for (const std::string &file : files.paths())
      if (options.read)
        options.read(options.read_context, file.c_str());
    return status.ok() ? prepareModel(*module_, options).within(path) : status;
  }
  Status load(std::string_view bytes, const std::string &name, const ts_compile_options &options) {
    Status status = read(bytes, name, options);
    return status.ok() ? prepareModel(*module_, options).within(name) : status;
  }

  /// The rest of a step whose gradients come from elsewhere.
  Status makeUpdate(ArrayRef<ts_updated> tensors, int64_t processes,
                    const ts_compile_options &options) {
    auto asked = trainingOptions(*options.training);
    if (!asked.ok())
      return asked.status();
    asked->scalesLoss = options.precision == TS_PRECISION_F16;
    auto updated = updatedTensors(tensors, processes, context_);
    return updated.ok() ? take(training::makeUpdate(*updated, *asked, processes, context_))
                        : updated.status();
  }

  ModuleOp module() { return *module_; }
  func::FuncOp main() { return module_->lookupSymbol<func::FuncOp>("main"); }

private:
  Status read(const std::string &path, const ts_compile_options &options) {
    if (Status status = checkModelFile(path); !status.ok())
      return status;
    auto buffer =
        llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
    if (!buffer)
      return {StatusCode::IoError, path + ": " + buffer.getError().message()};
    if (StringRef(path).ends_with(".tsm"))
      return importProgram((*buffer)->getBuffer(), path, options,
                           std::filesystem::absolute(path).parent_path().string());
    if (StringRef(path).ends_with(".tc"))
      return importComprehension((*buffer)->getBuffer(), path, options);
    if (isGraphText((*buffer)->getBuffer()))
      return parse((*buffer)->getBuffer(), path, options);
    buffer->reset();
    auto imported = importOptions(options);
    return imported ? take(importFile(path, context_, *imported)) : imported.status();
  }

  Status read(std::string_view bytes, const std::string &name, const ts_compile_options &options) {
    if (Status status = checkModelStart(bytes, name); !status.ok())
      return status.within(name);
    if (StringRef(name).ends_with(".tsm"))
      return importProgram(bytes, name, options, options.folder ? options.folder : "");
    if (StringRef(name).ends_with(".tc"))
      return importComprehension(bytes, name, options);
    if (isGraphText(bytes))
      return parse(bytes, name, options);
    auto span = std::as_bytes(std::span(bytes.data(), bytes.size()));
    auto imported = importOptions(options);
    return imported ? take(importBytes(span, name, context_, *imported)) : imported.status();
  }

  static DialectRegistry registry() {
    DialectRegistry registry;
    graph::registerDialects(registry);
    registry.insert<program::ProgramDialect>();
    targets::registerDialects(registry);
    return registry;
  }

  /// `folder`: that the program may load tensors from; none where it is empty.
  Status importProgram(StringRef program, const std::string &name,
                       const ts_compile_options &options, std::string folder) {
    auto given = importOptions(options);
    if (!given.ok())
      return given.status();
    if (options.keep_count)
      return invalidArgument(name + ": tensors of a program can't be kept; let main return them");
    text::ImportOptions imported;
    imported.folder = std::move(folder);
    for (const auto &[shaped, dims] : given->shapes) {
      auto size = given->symbols.find(shaped);
      if (size == given->symbols.end())
        return invalidArgument("shape '" + shaped +
                               "': of a program single sizes are given, by the names that main's "
                               "types have for them, as batch=4");
      imported.sizes.insert(*size);
    }
    if (options.training)
      imported.parameters = trainingSeed(*options.training);
    else
      imported.inputs = given->overridable;
    Status status = take(text::import(program.str(), name, context_, imported));
    return status.ok() && options.training ? training::makeTrainable(*module_).within(name)
                                           : status;
  }

  Status importComprehension(StringRef text, const std::string &name,
                             const ts_compile_options &options) {
    auto given = importOptions(options);
    if (!given.ok())
      return given.status();
    comprehension::ImportOptions imported;
    imported.function = options.function ? options.function : "";
    for (const auto &[shaped, dims] : given->shapes)
      if (!given->symbols.count(shaped))
        return invalidArgument("shape '" + shaped +
                               "': of a comprehension single sizes are given, by their names, as "
                               "N=4");
    imported.sizes.insert(given->symbols.begin(), given->symbols.end());
    return take(comprehension::import(text.str(), name, context_, imported));
  }

  Status parse(std::string_view text, const std::string &name, const ts_compile_options &options) {
    if (options.shape_count)
      return invalidArgument("shape '" + std::string(options.shapes[0]) +
                             "': a model in text has the shapes that it is written with");
    if (Status status = take(parseGraphText(text, name, context_)); !status.ok())
      return status;
    return keepByPlace(keepOptions(options)).within(name);
  }

  /// The text form's values have no names that outlive its parser; they are called after places.
  Status keepByPlace(const graph::Keep &keep) {
    std::vector<graph::NamedValue> kept;
    for (graph::NamedValue &named : graph::intermediatesByPlace(main()))
      if (keep.all || llvm::is_contained(keep.names, named.name))
        kept.push_back(std::move(named));
    for (const std::string &name : keep.names)
      if (llvm::none_of(kept, [&](const graph::NamedValue &named) { return named.name == name; }))
        return {StatusCode::InvalidModel, "'" + name +
                                              "' is to be kept, but is no place (line:column) of "
                                              "an operator of @main"};
    graph::addOutputs(main(), std::move(kept));
    return {};
  }

  Status take(Result<OwningOpRef<ModuleOp>> imported) {
    if (!imported.ok())
      return imported.status();
    module_ = std::move(*imported);
    return {};
  }

  CompileLimits limits_;
  MLIRContext context_;
  OwningOpRef<ModuleOp> module_;
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
